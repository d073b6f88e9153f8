"""A live Android phone: `Device` for screens that move by themselves or are rotated, and for other keyboards."""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from envs.base import Action, InfraError, Transport, Type
from envs.device import BOOT_ID, TOO_LONG, Device, too_long
from envs.retry import retried

T = TypeVar("T")
ADB_KEYBOARD = "com.android.adbkeyboard/.AdbIME"
CTRL_LEFT, KEY_A = 113, 29
TREE_PAUSES_S = (0.5, 1.0, 2.0)
"""Before each further try to get the UI tree of a screen that stands still."""


@dataclass(frozen=True, slots=True)
class Settle:
    """A screen has settled when two screenshots `gap_s` apart are equal; after `limit_s` it is taken as it is."""

    gap_s: float = 0.3
    limit_s: float = 3.0

    def __str__(self) -> str:
        return f"2 equal screenshots {self.gap_s:g} s apart, at most {self.limit_s:g} s"


class OneAtATime:
    """Runs blocking work in threads, one call after the other.

    What an abandoned episode began ends before the next one touches the phone.
    """

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def __call__(self, work: Callable[[], T]) -> T:
        return await asyncio.shield(asyncio.ensure_future(self._alone(work)))

    async def _alone(self, work: Callable[[], T]) -> T:
        async with self._turn:
            return await asyncio.to_thread(work)


class LiveDevice(Device):
    """Every method raises `InfraError` when the phone does not answer as a working phone does."""

    def __init__(
        self, transport: Transport, apps: Mapping[str, str] | None = None, settle: Settle | None = None
    ) -> None:
        super().__init__(transport, apps)
        self.settle = settle or Settle()
        self._screen: tuple[int, int] | None = None
        self._broadcasts = True
        self._boot = ""

    def connect(self) -> None:
        """Raises InfraError unless the phone is reached and has booted."""
        connect = getattr(self.transport, "connect", None)
        if connect is not None:  # a phone of this process has nothing to connect
            connect()
        if (said := self.look("getprop", "sys.boot_completed").strip()) != "1":
            raise InfraError(f"{self.transport.serial}: still booting (sys.boot_completed is {said!r})")

    def check(self) -> None:
        """Makes sure that the phone has booted and shows a screen, and keeps showing it."""
        self.connect()
        self._run("svc", "power", "stayon", "true")  # a screen that went dark while the model thought shows nothing
        self._input("keyevent", "KEYCODE_WAKEUP")
        self.look_at_screen()

    def look_at_screen(self) -> bytes:
        """The screen as PNG. Taps are in its coordinates from now on, also when the phone has been turned."""
        png = self.screenshot()
        self._screen = png_size(png)
        return png

    def prepare(self) -> None:
        """Hides the bar that AndroidWorld draws over the screen, picks the keyboard, and notes the boot."""
        self._run("settings", "put", "system", "pointer_location", "0")
        self._broadcasts = ADB_KEYBOARD in self._run("ime", "list", "-s", "-a").stdout.split()
        if self._broadcasts:
            self._run("ime", "enable", ADB_KEYBOARD)
            self._run("ime", "set", ADB_KEYBOARD)
        self.remember_boot()

    def size(self) -> tuple[int, int]:
        return self._screen or super().size()

    def observe(self) -> tuple[bytes, str]:
        """The screen as PNG, once it has settled, and its UI tree as XML.

        There is no tree while something moves, and so never one of a running stopwatch or a video: then it is "". A
        screen that did not settle is asked for its tree only once, because the phone waits 10 s for it to stand still.
        """
        until = time.monotonic() + self.settle.limit_s
        png, still = self.look_at_screen(), False
        while not still and time.monotonic() < until:
            time.sleep(self.settle.gap_s)
            before, png = png, self.look_at_screen()
            still = png == before
        try:
            return png, retried(self._dump_xml, TREE_PAUSES_S if still else ())
        except InfraError:  # also of a phone that is gone: the next command fails then
            return png, ""

    def boot_id(self) -> str:
        """Another one after every boot; "" on a phone that does not let adb's user read it."""
        said = self.transport.shell(("cat", BOOT_ID), self.timeout_s)
        return said.stdout.strip() if said.exit_code == 0 else ""

    def remember_boot(self) -> None:
        self._boot = self.boot_id()

    def check_boot(self) -> None:
        """Raises InfraError when the phone rebooted since `remember_boot`."""
        if self.boot_id() != self._boot:
            raise InfraError(f"{self.transport.serial}: rebooted in the middle of an episode")

    def act(self, action: Action) -> str:
        if isinstance(action, Type) and not self._broadcasts:
            return self._type_keys(action.text)
        return super().act(action)

    def _type_keys(self, text: str) -> str:
        """Over `input text`, for phones without ADBKeyboard: ASCII only."""
        if not all(" " <= c <= "~" or c == "\n" for c in text):
            return "this phone can only be sent ASCII text: ADBKeyboard is not installed on it"
        if too_long(text):
            return TOO_LONG
        self._input("keycombination", CTRL_LEFT, KEY_A)
        self._input("keyevent", "KEYCODE_DEL")
        for i, line in enumerate(text.split("\n")):
            if i:
                self._input("keyevent", "KEYCODE_ENTER")
            # `input text` takes %s for a space, so a %s that is meant is sent in two parts.
            for part in line.replace("%s", "%\0s").split("\0"):
                if part:
                    self._input("text", part.replace(" ", "%s"))
        return ""


def png_size(png: bytes) -> tuple[int, int]:
    """Width and height in pixels, from the header."""
    return struct.unpack(">II", png[16:24])
