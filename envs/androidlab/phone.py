"""A device as AndroidLab sets it up and looks at it."""

from __future__ import annotations

import re
import struct
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from envs.androidlab.query import FAILED, device_line
from envs.base import Action, InfraError, Transport
from envs.console import Console
from envs.device import Device

LOCATION = "-122.156 37.438"
"""Longitude and latitude, as the console's `geo fix` takes them."""
DATE = "2024-05-10"
_SET_DATE = "051012002024.00"
"""Noon of `DATE`, as `MMDDhhmmCCYY.SS`."""
UP_S = 60.0
POLL_S = 0.5
UI_FILE = "/sdcard/Android/data/com.example.android.xml_parser/files/ui.xml"
"""Where the accessibility service of AndroidLab's AVD keeps the UI tree of screens that never stand still."""
UI_FILE_AGE_S = 10
_EMULATOR = re.compile(r"emulator-(\d+)")


@dataclass(frozen=True, slots=True)
class Seen:
    """A screen. `xml` is "" when there is no tree to be had."""

    screenshot: bytes
    width: int
    height: int
    xml: str
    package: str


class _Screen(Device):
    """A device whose size is that of its last screenshot, so that taps hit also when it has been turned."""

    shown: tuple[int, int] | None = None

    def size(self) -> tuple[int, int]:
        return self.shown or super().size()


class LabPhone:
    """One device. Every method raises `InfraError` when it does not answer as a working device does.

    `root` runs `adb root` and returns what it says; None for a transport without adb. `console` is the emulator's, None
    for a device that is no emulator: it gets no location. With `snapshot` the emulator goes back to that one first.
    """

    def __init__(self, transport: Transport, apps: Mapping[str, str], root: Callable[[], str] | None = None,
                 console: Console | None = None, snapshot: str = "") -> None:  # fmt: skip
        self.device = _Screen(transport, apps)
        self._transport, self._root, self._console = transport, root, console
        self._snapshot = snapshot
        self._service = False
        self._boot_id = ""

    # --- set-up ----------------------------------------------------------------------------------------------

    def prepare(self, package: str, set_date: bool) -> None:
        """Brings the device into a task's first state, before its app is started."""
        self.device.shown = None
        self.wait_until_up()  # a device that is away for a moment would fail every episode it is given meanwhile
        if self._snapshot:
            self.console.command(f"avd snapshot load {self._snapshot}")
            self.wait_until_up()
        self.become_root()
        if self._console is not None:
            self._console.command(f"geo fix {LOCATION}")
        if set_date:
            self._set_date()
        if not self._snapshot:  # an app that was left open would show the page it was left on
            self.device.home()
            self._transport.shell(("am", "force-stop", package))
        self._boot_id = self.device.boot_id()

    @property
    def console(self) -> Console:
        if self._console is None:
            raise InfraError(f"{self._transport.serial}: has no console to load a snapshot through")
        return self._console

    def become_root(self) -> None:
        """`adb root`, which the date needs; the device is gone for a moment after it."""
        if self._root is not None and "already" not in (said := self._root()):
            if "cannot" in said:
                raise InfraError(f"{self._transport.serial}: `adb root` says {said.strip()!r}")
            self.wait_until_up(root=True)

    def wait_until_up(self, root: bool = False) -> None:
        """`root`: until its shell is root's. Before adbd restarts, it answers as if nothing were to happen."""
        until = time.monotonic() + UP_S
        while True:
            try:
                self.connect()
                if root and (said := self.device.look("id", "-u").strip()) != "0":
                    raise InfraError(f"{self._transport.serial}: after `adb root` its shell is still uid {said!r}")
                return
            except InfraError:
                if time.monotonic() >= until:
                    raise
            time.sleep(POLL_S)

    def connect(self) -> None:
        connect = getattr(self._transport, "connect", None)
        if connect is not None:  # a phone of this process has nothing to connect
            connect()
        if (said := self.device.look("getprop", "sys.boot_completed").strip()) != "1":
            raise InfraError(f"{self._transport.serial}: still booting (sys.boot_completed is {said!r})")

    def _set_date(self) -> None:
        said = self._transport.shell(("date", _SET_DATE))
        if self.device.look("date", "+%Y-%m-%d").strip() != DATE:
            reason = " ".join((said.stderr or said.stdout).split())[:80]
            raise InfraError(f"{self._transport.serial}: the date cannot be set to {DATE} ({reason}): it takes root")

    def launch(self, package: str) -> None:
        launcher = "android.intent.category.LAUNCHER"
        result = self._transport.shell(("monkey", "-p", package, "-c", launcher, "1"))
        if "Events injected" not in result.stdout:
            said = " ".join((result.stdout + result.stderr).split())[-120:]
            raise InfraError(f"{self._transport.serial}: {package} does not start: {said}")

    def watch(self, moving: bool) -> None:
        """`moving` apps are read through the accessibility service, where it is alive."""
        self._service = moving and self._service_is_alive()

    def _service_is_alive(self) -> bool:
        written = self._transport.shell(("stat", "-c", "%Y", UI_FILE)).stdout.strip()
        now = self.device.look("date", "+%s").strip()
        return written.isdecimal() and now.isdecimal() and abs(int(now) - int(written)) <= UI_FILE_AGE_S

    # --- looking and acting ----------------------------------------------------------------------------------

    def see(self) -> Seen:
        screenshot = self.device.screenshot()
        self.device.shown = width, height = struct.unpack(">II", screenshot[16:24])
        return Seen(screenshot, width, height, self._tree(), self.device.foreground_package())

    def _tree(self) -> str:
        if self._service:
            return self._transport.pull(UI_FILE).decode(errors="replace")
        try:
            return self.device.dump_xml()
        except InfraError:  # also of a device that is gone: whatever is asked of it next says so
            return ""

    def query(self, query: str) -> str:
        """Output of an `adb shell ...` line, as AndroidLab's judges get it."""
        result = self._transport.shell(device_line(query))
        return result.stdout.strip() if result.exit_code == 0 else FAILED

    def act(self, action: Action) -> str:
        return self.device.act(action)

    def check_boot(self) -> None:
        if self.device.boot_id() != self._boot_id:
            raise InfraError(f"{self._transport.serial}: rebooted in the middle of an episode")


def console_of(serial: str, host: str | None = None) -> Console | None:
    """The console of an emulator's serial (`emulator-5554`) on the adb server's machine; None for other devices."""
    match = _EMULATOR.fullmatch(serial)
    return Console(host or "127.0.0.1", int(match[1])) if match else None
