"""Opens the phones of `--serial` and checks that AndroidLab can run on them, before anything does.

All checks raise ConfigError with one line that says what to do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from mobilerl.config import ConfigError
from mobilerl.envs.androidlab.phone import LabPhone, console_of
from mobilerl.envs.base import InfraError
from mobilerl.envs.claims import Claim

_ADDRESS = re.compile(r"([^@]+)(?:@(.+):([0-9]{1,5}))?")
_SNAPSHOT = re.compile(r"[A-Za-z0-9_.-]+")


@dataclass(frozen=True, slots=True)
class Address:
    """`SERIAL[@ADB_HOST:ADB_PORT]`, a device of this machine's adb server or of another one."""

    serial: str
    host: str | None = None
    port: int | None = None

    @classmethod
    def parse(cls, text: str) -> Address:
        match = _ADDRESS.fullmatch(text)
        if match is None:
            raise ConfigError(f"--serial {text!r} is not SERIAL[@ADB_HOST:ADB_PORT], as in emulator-5554")
        return cls(match[1], match[2], int(match[3]) if match[3] else None)

    def __str__(self) -> str:
        return self.serial if self.host is None else f"{self.serial}@{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class OpenedPhone:
    """A phone that passed the checks. `screen` is WIDTHxHEIGHT; `located` says whether its location can be set."""

    device_id: str
    phone: LabPhone
    screen: str
    located: bool


def parse_addresses(texts: Sequence[str]) -> list[Address]:
    addresses = [Address.parse(text) for text in texts]
    if not addresses:
        raise ConfigError("--serial ADB_SERIAL is missing: it names the devices to run on; `adb devices` lists them")
    if twice := next((a for a in addresses if addresses.count(a) > 1), None):
        raise ConfigError(f"--serial {twice} is given twice; one device runs one episode at a time")
    return addresses


def open_phones(
    addresses: Sequence[Address],
    apps: Mapping[str, str],
    packages: Sequence[str],
    snapshot: str = "",
    claim: Claim | None = None,
) -> list[OpenedPhone]:
    """Opens and checks the phones, and takes them with `claim`. `apps` can be launched by name. `packages` are those
    that the tasks need. Raises ConfigError, also for a device that lacks one of them."""
    try:
        import mobilerl.envs.androidlab.adb  # noqa: F401
    except ImportError as error:
        raise ConfigError(f"AndroidLab is run over adb ({error}): pip install 'mobilerl[androidlab]'") from None
    if snapshot and not _SNAPSHOT.fullmatch(snapshot):
        raise ConfigError(f"--snapshot {snapshot!r} is no name of a snapshot; `adb emu avd snapshot list` shows them")
    return [_open(address, apps, packages, snapshot, claim or Claim()) for address in addresses]


def _open(
    address: Address, apps: Mapping[str, str], packages: Sequence[str], snapshot: str, claim: Claim
) -> OpenedPhone:
    from mobilerl.envs.androidlab.adb import LabTransport
    from mobilerl.envs.pool.adb import claim_phones

    console = console_of(address.serial, address.host)
    if snapshot and console is None:
        raise ConfigError(f"--snapshot: {address} is no emulator with a console (emulator-5554); leave --snapshot out")
    transport = LabTransport(address.serial, address.host, address.port)
    claim_phones(claim, [transport])
    phone = LabPhone(transport, apps, transport.root, console, snapshot)
    with _refusing("start the device, and see `adb devices`"):
        phone.device.connect()
    with _refusing("use a device that can be root, such as AndroidLab's AVD"):
        phone.become_root()
    with _refusing("the emulator's console must be reachable, with its token in ~/.emulator_console_auth_token"):
        # Every episode sets the location through the console, with or without a snapshot.
        listed = console.command("avd snapshot list" if snapshot else "avd name") if console else ""
    if snapshot and snapshot not in _names(listed):
        raise ConfigError(f"--snapshot: {address} has no snapshot {snapshot!r}; see `adb emu avd snapshot list`")
    with _refusing("restart the device"):
        installed = set(phone.device.look("pm", "list", "packages").split())
        width, height = phone.device.size()
    if missing := next((p for p in packages if f"package:{p}" not in installed), None):
        raise ConfigError(f"--serial {address} has no app {missing}; use AndroidLab's AVD, or other apps (--app)")
    return OpenedPhone(str(address), phone, f"{width}x{height}", console is not None)


@contextmanager
def _refusing(fix: str) -> Iterator[None]:
    try:
        yield
    except InfraError as fault:
        raise ConfigError(f"--serial {fault}; {fix}") from None


def _names(listed: str) -> list[str]:
    """Names of snapshots in the console's table of number (or dashes), name, size and date."""
    return [line.split()[1] for line in listed.splitlines() if len(line.split()) > 2]
