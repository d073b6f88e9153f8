"""A pool's devices over adb: emulators, phones on a cable, or ports of containers."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from mobilerl.envs.adb import AdbTransport
from mobilerl.envs.base import Health, InfraError, MobileEnv
from mobilerl.envs.claims import Claim
from mobilerl.envs.console import Console
from mobilerl.envs.device import Device

Reset = Literal["keep", "app_data", "snapshot", "fresh"]
"""How a device is reset between episodes. `keep`: not at all, because the suite's own set-up starts from a known state;
`app_data`: clears the data of every app installed later; `snapshot`: the emulator loads a snapshot; `fresh`: another
device takes its place."""
MakeEnv = Callable[[str, AdbTransport], MobileEnv]
"""(device id, transport) -> environment of the device."""
BOOT_POLL_S, RETURN_POLL_S = 0.5, 2.0
SNAPSHOT = "default_boot"
COMMAND_S = 10.0
MIN_FREE_KB = 64 << 10
EARLIEST = 1_577_836_800
"""2020-01-01 as a Unix time. An earlier clock was never set."""
_FOCUS = re.compile(r"mCurrentFocus=(.*)")


@dataclass(frozen=True, slots=True)
class AdbServer:
    """Address of the adb server. None means this machine's own, which is started if it does not run."""

    host: str | None = None
    port: int | None = None

    def start(self) -> None:
        """Starts the server if it does not run; otherwise all devices would try at once. Raises InfraError."""
        self.transport("adb server").state()

    def transport(self, serial: str) -> AdbTransport:
        return AdbTransport(serial, self.host, self.port)


class AdbDevice:
    """Implements `mobilerl.envs.pool.PooledDevice`. The reset `snapshot` needs `console`."""

    def __init__(
        self,
        device_id: str,
        transport: AdbTransport,
        make_env: MakeEnv,
        reset: Reset = "keep",
        console: Console | None = None,
    ) -> None:
        self.transport, self.reset, self.console = transport, reset, console
        self.env = make_env(device_id, transport)
        self._device = Device(transport, timeout_s=COMMAND_S)

    def wrap(self, wrapper: Callable[[Any], MobileEnv]) -> None:
        """Puts an environment that `wrapper` makes from this one in its place."""
        self.env = wrapper(self.env)

    async def wait_for_boot(self) -> None:
        """Waits until adb reaches the device and it has booted. The caller sets the deadline."""
        while not await asyncio.to_thread(self._has_booted):
            await asyncio.sleep(BOOT_POLL_S)

    def _has_booted(self) -> bool:
        return _answers(self.transport, "1")

    async def refresh(self) -> bool:
        if self.reset == "app_data":
            await asyncio.to_thread(self._clear_apps)
        elif self.reset == "snapshot":
            if self.console is None:
                raise InfraError(f"{self.transport.serial}: has no console to load a snapshot through")
            await asyncio.to_thread(self.console.command, f"avd snapshot load {SNAPSHOT}")
            await self.wait_for_boot()
        return self.reset != "fresh"

    def _clear_apps(self) -> None:
        for line in self._device.look("pm", "list", "packages", "-3").splitlines():
            package = line.removeprefix("package:").strip()
            if self._device.look("pm", "clear", package).strip() != "Success":
                raise InfraError(f"{self.transport.serial}: cannot clear the data of {package}")

    async def check(self) -> Health:
        return await asyncio.to_thread(self._check)

    def _check(self) -> Health:
        try:
            self.transport.connect()
            reason = _complaint(self._device)
        except InfraError as error:
            reason = str(error) or repr(error)
        return Health(not reason, reason)

    async def lost(self) -> bool:
        return await asyncio.to_thread(self._lost)

    def _lost(self) -> bool:
        try:
            return self.transport.state() != "device"
        except InfraError:
            return True

    async def destroy(self, failed: bool = False) -> None:
        await self.env.close()


class AdbProvider:
    """Devices that were started elsewhere. They cannot be replaced, only reconnected. `claim` takes them while the
    provider is open."""

    replaces = False

    def __init__(
        self,
        serials: Sequence[str],
        make_env: MakeEnv,
        server: AdbServer,
        reset: Reset = "keep",
        claim: Claim | None = None,
    ) -> None:
        self.serials, self.make_env, self.server, self.reset = tuple(serials), make_env, server, reset
        self.claim = claim or Claim()

    async def open(self) -> None:
        """Raises InfraError when there is no adb server and none can be started, and the claim's own error for a device
        that another run uses."""
        try:
            claim_phones(self.claim, map(self.server.transport, self.serials))
            await asyncio.to_thread(self.server.start)
        except BaseException:
            self.claim.release()
            raise

    async def create(self, number: int, generation: int) -> AdbDevice:
        serial = self.serials[number]
        device_id = serial if generation == 0 else f"{serial}.{generation}"
        device = AdbDevice(device_id, self.server.transport(serial), self.make_env, self.reset)
        await asyncio.to_thread(device.transport.connect)
        await device.wait_for_boot()
        return device

    def name(self, number: int) -> str:
        return self.serials[number]

    async def wait_for_return(self, number: int) -> None:
        """Waits forever if the device can be reached all the time: then something else is wrong with it."""
        transport, away = self.server.transport(self.serials[number]), False
        while not (answers := await asyncio.to_thread(_answers, transport)) or not away:
            away |= not answers
            await asyncio.sleep(RETURN_POLL_S)

    async def discard(self, number: int, failed: bool = True) -> None:
        """Does nothing: the device keeps running."""

    async def close(self) -> None:
        """Releases the devices, which keep running."""
        self.claim.release()


def claim_phones(claim: Claim, phones: Iterable[AdbTransport]) -> None:
    for phone in phones:
        claim.take(f"the {phone.unique_name}", "wait until it ends, or use another device")


def _answers(transport: AdbTransport, boot_completed: str = "") -> bool:
    """Whether the device runs a command and, if given, has this state of the boot."""
    try:
        transport.connect()
        said = transport.shell(("getprop", "sys.boot_completed"), COMMAND_S).stdout.strip()
    except InfraError:
        return False
    return boot_completed in ("", said)


def _complaint(device: Device) -> str:
    """The first requirement that the device does not meet, or "".

    Checks the boot, the clock, the free disk space, that the screen is not black, and that the home screen comes up.
    Takes about six commands and leaves the phone at its home screen.
    """

    def says(*words: str) -> str:
        return device.look(*words).strip()

    if says("getprop", "sys.boot_completed") != "1":
        return "the boot has not completed"
    clock = says("date", "+%s")
    if not clock.isdecimal() or int(clock) < EARLIEST:
        return f"the clock says {clock!r}"
    if (free := _free_kb(says("df", "-k", "/data"))) is not None and free < MIN_FREE_KB:
        return f"only {free} KB are free on /data; a fresh device has more"
    device.home()
    focus = _FOCUS.search(device.look("dumpsys", "window"))
    if focus is None or focus[1] == "null" or "Not Responding" in focus[1]:
        return f"the home screen does not come up (focus: {focus[1] if focus else 'none'})"
    device.screenshot()  # raises for a black one
    return ""


def _free_kb(df: str) -> int | None:
    """The column "Available" of the last line; None when `df` prints something else."""
    words = df.splitlines()[-1].split() if df else []
    return int(words[3]) if len(words) >= 6 and words[3].isdecimal() else None
