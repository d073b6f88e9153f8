"""A live Android phone: a `Device` whose screen may move by itself or be rotated, and which may lack ADBKeyboard."""

from __future__ import annotations

import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass

from mobilerl.envs.base import Action, InfraError, Transport
from mobilerl.envs.device import BOOT_ID, TOO_LONG, Device, NoTree, too_long
from mobilerl.envs.retry import retry
from mobilerl.envs.text_fields import Fields

ADB_KEYBOARD = "com.android.adbkeyboard/.AdbIME"
DEFAULT_KEYBOARD = ("settings", "get", "secure", "default_input_method")
CTRL_LEFT, KEY_A = 113, 29
TREE_PAUSES_S = (0.5, 1.0, 2.0)
"""Pauses before each retry to get the UI tree of a screen that does not move."""
NO_FIELD = "no text field has the focus: tap one first"
NOT_ARRIVED = "the text did not arrive in the text field that has the focus"


@dataclass(frozen=True, slots=True)
class Settle:
    """A screen has settled when two screenshots `gap_s` apart are equal. After `limit_s` it is used as it is."""

    gap_s: float = 0.3
    limit_s: float = 3.0

    def __str__(self) -> str:
        return f"2 equal screenshots {self.gap_s:g} s apart, at most {self.limit_s:g} s"


class LiveDevice(Device):
    """Every method raises `InfraError` when the phone does not answer as a working phone does."""

    def __init__(
        self, transport: Transport, apps: Mapping[str, str] | None = None, settle: Settle | None = None
    ) -> None:
        super().__init__(transport, apps)
        self.settle = settle or Settle()
        self._screen: tuple[int, int] | None = None
        self._adb_keyboard = True
        """Whether ADBKeyboard is installed."""
        self._boot = ""
        self._tree: str | None = None
        """UI tree of the current screen; None if it was not read since the last action."""
        self._treeless = ""
        """Package of the app that gave no tree, however often it was asked."""

    def connect(self) -> None:
        """Raises InfraError unless the phone can be reached and has booted."""
        connect = getattr(self.transport, "connect", None)
        if connect is not None:  # a phone in this process needs no connection
            connect()
        if (said := self.look("getprop", "sys.boot_completed").strip()) != "1":
            raise InfraError(f"{self.transport.serial}: still booting (sys.boot_completed is {said!r})")

    def check(self) -> None:
        """Makes sure that the phone has booted and shows a screen, and keeps the screen on."""
        self.connect()
        self._run("svc", "power", "stayon", "true")  # otherwise the screen may go dark while the model thinks
        self._input("keyevent", "KEYCODE_WAKEUP")
        self.look_at_screen()

    def look_at_screen(self) -> bytes:
        """The screen as PNG. From now on taps use its coordinates, even when the phone has been rotated."""
        png = self.screenshot()
        self._screen = png_size(png)
        return png

    def prepare(self) -> None:
        """Hides the pointer bar that AndroidWorld shows, selects the keyboard, and notes the boot."""
        self._run("settings", "put", "system", "pointer_location", "0")
        self._adb_keyboard = ADB_KEYBOARD in self._run("ime", "list", "-s", "-a").stdout.split()
        if self._adb_keyboard:
            self._run("ime", "enable", ADB_KEYBOARD)
            self._run("ime", "set", ADB_KEYBOARD)
        self.remember_boot()

    def size(self) -> tuple[int, int]:
        return self._screen or super().size()

    def observe(self) -> tuple[bytes, str]:
        """The screen as PNG, once it has settled, and its UI tree as XML.

        The tree is "" while something moves, and so always for a running stopwatch or a video. If the screen did not
        settle, the tree is requested only once, because the phone waits 10 s for it to stand still.
        """
        until = time.monotonic() + self.settle.limit_s
        png, still = self.look_at_screen(), False
        while not still and time.monotonic() < until:
            time.sleep(self.settle.gap_s)
            before, png = png, self.look_at_screen()
            still = png == before
        return png, self.tree(TREE_PAUSES_S if still else ())

    def tree(self, pauses_s: tuple[float, ...]) -> str:
        """The UI tree; "" if the phone gives none, after a retry behind each pause.

        It is requested only once when the phone says that the screen never stands still, and of an app whose last
        screens gave none however often they were asked.
        """
        known = bool(self._treeless) and self._treeless == self.foreground_package()
        try:
            self._tree = retry(self._dump_xml, () if known else pauses_s)
            self._treeless = ""
        except InfraError as error:  # also when the phone is gone: then the next command fails
            self._tree = ""
            if pauses_s or isinstance(error, NoTree):
                self._treeless = self._treeless if known else self.foreground_package()
        return self._tree

    def boot_id(self) -> str:
        """An identifier that changes at every boot; "" on a phone that does not let adb's user read it."""
        said = self.transport.shell(("cat", BOOT_ID), self.timeout_s)
        return said.stdout.strip() if said.exit_code == 0 else ""

    def remember_boot(self) -> None:
        self._boot = self.boot_id()

    def check_boot(self) -> None:
        """Raises InfraError when the phone has rebooted since `remember_boot`."""
        if self.boot_id() != self._boot:
            raise InfraError(f"{self.transport.serial}: rebooted in the middle of an episode")

    def act(self, action: Action) -> str:
        try:
            return super().act(action)
        finally:
            self._tree = None

    def _type(self, text: str) -> str:
        """Types with ADBKeyboard if it is the selected keyboard: another one, which a person, an app or the agent may
        have selected meanwhile, ignores its broadcasts. Text that did not arrive is reported."""
        tree = self._tree if self._tree is not None or self._treeless else self.tree(())
        before = Fields.of(tree or "")
        note = super()._type(text) if self._selected() else self._type_keys(text)
        return note or self._report(text, before)

    def _selected(self) -> bool:
        return self._adb_keyboard and ADB_KEYBOARD == self.look(*DEFAULT_KEYBOARD).strip()

    def _report(self, text: str, before: Fields) -> str:
        """Why typed text did not arrive, or "" if it did or nobody can tell: there is no tree of the screen, or the
        text holds an Enter, which may have sent it off."""
        if "\n" in text or not before.texts or not (tree := self.tree(())):
            return ""
        after = Fields.of(tree)
        if after.received(text, before):
            return ""
        if after.focused is not None:
            return NOT_ARRIVED
        # Games and canvases show no field in the tree, but a keyboard.
        return "" if "mInputShown=true" in self.look("dumpsys", "input_method") else NO_FIELD

    def _type_keys(self, text: str) -> str:
        """Types with `input text`, for other keyboards than ADBKeyboard. ASCII only."""
        if not all(" " <= c <= "~" or c == "\n" for c in text):
            lacking = "not its keyboard" if self._adb_keyboard else "not installed on it"
            return f"this phone can only be sent ASCII text: ADBKeyboard is {lacking}"
        if too_long(text):
            return TOO_LONG
        self._input("keycombination", CTRL_LEFT, KEY_A)
        self._input("keyevent", "KEYCODE_DEL")
        for i, line in enumerate(text.split("\n")):
            if i:
                self._input("keyevent", "KEYCODE_ENTER")
            # `input text` reads %s as a space, so a literal %s is sent in two parts.
            for part in line.replace("%s", "%\0s").split("\0"):
                if part:
                    self._input("text", part.replace(" ", "%s"))
        return ""


def png_size(png: bytes) -> tuple[int, int]:
    """Width and height in pixels, read from the header."""
    return struct.unpack(">II", png[16:24])
