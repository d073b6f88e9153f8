"""A device, set up and observed as AndroidLab does it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mobilerl.envs.androidlab.tasks import device_line
from mobilerl.envs.base import InfraError, Launch, Transport
from mobilerl.envs.console import Console
from mobilerl.envs.live_device import LiveDevice
from mobilerl.envs.retry import PAUSES_S

LOCATION = "-122.156 37.438"
"""Longitude and latitude, as the console's `geo fix` takes them."""
DATE = "2024-05-10"
_SET_DATE = "051012002024.00"
"""Noon of `DATE`, as `MMDDhhmmCCYY.SS`."""
FAILED = "ERROR"
"""Takes the place of the output when a query fails, as AndroidLab's judges expect."""
UP_S = 60.0
POLL_S = 0.5
UI_FILE = "/sdcard/Android/data/com.example.android.xml_parser/files/ui.xml"
"""File to which the accessibility service of AndroidLab's AVD writes the UI tree of screens that never stand still."""
UI_FILE_AGE_S = 10
_EMULATOR = re.compile(r"emulator-(\d+)")


@dataclass(frozen=True, slots=True)
class Seen:
    """A screen. `xml` is "" if there is no UI tree."""

    screenshot: bytes
    width: int
    height: int
    xml: str
    package: str


class LabPhone:
    """One device. Every method raises `InfraError` when it does not answer as a working device does.

    `root` runs `adb root` and returns its output; None for a transport without adb. `console` is the emulator's
    console; None for a real device, whose location is not set. With `snapshot` every episode starts from that snapshot.
    """

    def __init__(
        self,
        transport: Transport,
        apps: Mapping[str, str],
        root: Callable[[], str] | None = None,
        console: Console | None = None,
        snapshot: str = "",
    ) -> None:
        self.device = LiveDevice(transport, apps)
        self._transport, self._root, self._console, self._snapshot = transport, root, console, snapshot
        self._service = False

    def prepare(self, package: str, set_date: bool) -> None:
        """Brings the device into the initial state of a task, before the app is started."""
        self.wait_until_up()  # a device that is away for a moment must not fail its next episodes
        if self._snapshot:
            if self._console is None:
                raise self._fault("has no console to load a snapshot through")
            self._console.command(f"avd snapshot load {self._snapshot}")
            self.wait_until_up()
        self.become_root()
        if self._console is not None:
            self._console.command(f"geo fix {LOCATION}")
        if set_date:
            said = self._transport.shell(("date", _SET_DATE))
            if self.device.look("date", "+%Y-%m-%d").strip() != DATE:
                reason = " ".join((said.stderr or said.stdout).split())[:80]
                raise self._fault(f"the date cannot be set to {DATE} ({reason}): it takes root")
        if not self._snapshot:  # an app that is still open would show its last page
            self.device.home()
            self._transport.shell(("am", "force-stop", package))
        self.device.remember_boot()

    def become_root(self) -> None:
        """Runs `adb root`, which setting the date needs. The device is gone for a moment afterwards."""
        if self._root is not None and "already" not in (said := self._root()):
            if "cannot" in said:
                raise self._fault(f"`adb root` says {said.strip()!r}")
            self.wait_until_up(root=True)

    def wait_until_up(self, root: bool = False) -> None:
        """With `root`, waits until the shell runs as root: adbd still answers as before until it restarts."""
        until = time.monotonic() + UP_S
        while True:
            try:
                self.device.connect()
                if not root or (said := self.device.look("id", "-u").strip()) == "0":
                    return
                raise self._fault(f"after `adb root` its shell is still uid {said!r}")
            except InfraError:
                if time.monotonic() >= until:
                    raise
            time.sleep(POLL_S)

    def launch(self, package: str) -> None:
        if reason := self.device.act(Launch(package)):
            raise self._fault(f"{package} does not start: {reason}")

    def watch(self, moving: bool) -> None:
        """Screens of `moving` apps are read through the accessibility service, if it is running."""
        self._service = False
        if moving:
            written = self._transport.shell(("stat", "-c", "%Y", UI_FILE)).stdout.strip()
            now = self.device.look("date", "+%s").strip()
            known = written.isdecimal() and now.isdecimal()
            self._service = known and abs(int(now) - int(written)) <= UI_FILE_AGE_S

    def see(self) -> Seen:
        screenshot = self.device.look_at_screen()
        return Seen(screenshot, *self.device.size(), self._tree(), self.device.foreground_package())

    def _tree(self) -> str:
        if self._service:
            return self._transport.pull(UI_FILE).decode(errors="replace")
        return self.device.tree(PAUSES_S)

    def query(self, query: str) -> str:
        """Output of an `adb shell ...` line, as AndroidLab's judges receive it."""
        result = self._transport.shell(device_line(query))
        return result.stdout.strip() if result.exit_code == 0 else FAILED

    def _fault(self, text: str) -> InfraError:
        return InfraError(f"{self._transport.serial}: {text}")


def console_of(serial: str, host: str | None = None) -> Console | None:
    """The console of an emulator by its serial (`emulator-5554`) on the adb server's machine; None for other
    devices."""
    match = _EMULATOR.fullmatch(serial)
    return Console(host or "127.0.0.1", int(match[1])) if match else None
