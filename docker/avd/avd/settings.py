"""The settings of a container: environment variables, checked before anything starts."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address
from pathlib import Path

from avd import BAD_SETTINGS, Failure

OVERHEAD_MB = 1024
"""Memory that the emulator needs in addition to the phone's own. An estimate."""
CGROUP_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
"""Files with the memory limit in bytes, of control groups v2 (which may say "max") and v1."""
_NAME = re.compile(r"[A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class Settings:
    """Sizes in MB, times in seconds. The adb port is always the console port plus 1."""

    home: Path
    avd_home: Path
    avd_name: str
    snapshot: str
    memory_mb: int
    cores: int
    gpu: str
    boot_timeout: int
    """0 means the default for the kind of boot (emulator.py)."""
    console_port: int
    grpc_port: int
    forward: str
    """Address to which the ports are bound: "auto" for the container's own, "none", or an IPv4 address."""
    task_server: str
    """Program of the server that sets up and scores tasks; "" for none."""
    task_port: int
    adb_key: str
    """Text of a private key, from ADBKEY or a mounted file; "" if there is neither."""
    token: str
    """Console token. If it is "", the emulator creates one."""
    kvm: Path
    ready_file: Path

    @property
    def serial(self) -> str:
        return f"emulator-{self.console_port}"

    @property
    def adb_port(self) -> int:
        return self.console_port + 1

    @property
    def avd(self) -> Path:
        return self.avd_home / f"{self.avd_name}.avd"

    @property
    def has_snapshot(self) -> bool:
        return (self.avd / "snapshots" / self.snapshot).is_dir()


def read(given: Mapping[str, str]) -> Settings:
    """Reads and checks all settings. Raises Failure for the first one that is wrong."""
    home = Path(given.get("HOME") or "/root")
    return Settings(
        home=home,
        avd_home=Path(given.get("ANDROID_AVD_HOME") or home / ".android" / "avd"),
        avd_name=_name(given, "AVD_NAME", "Pixel_6_API_33"),
        snapshot=_name(given, "SNAPSHOT", "default_boot"),
        memory_mb=_number(given, "MEMORY_MB", 2048, 512, 65536),
        cores=_number(given, "CORES", 2, 1, 64),
        gpu=_name(given, "GPU", "swiftshader_indirect"),
        boot_timeout=_number(given, "BOOT_TIMEOUT", 0, 0, 7200),
        console_port=_number(given, "CONSOLE_PORT", 5554, 1024, 65534),
        grpc_port=_number(given, "GRPC_PORT", 8554, 1024, 65535),
        forward=_address(given),
        task_server=_task_server(given),
        task_port=_number(given, "TASK_PORT", 5000, 1024, 65535),
        adb_key=_key(given),
        token=_token(given),
        kvm=Path(given.get("KVM_DEVICE") or "/dev/kvm"),
        ready_file=Path(given.get("READY_FILE") or "/tmp/avd-ready"),
    )


def check_kvm(device: Path) -> None:
    """Opens the device like the emulator does. Raises Failure with the fix."""
    try:
        os.close(os.open(device, os.O_RDWR))
    except FileNotFoundError:
        fix = "start the container with --device /dev/kvm (a fleet: fleet.kvm = true)"
        raise _wrong(f"there is no {device}: {fix}; on the host `modprobe kvm_intel` or `kvm_amd` makes it") from None
    except PermissionError:
        fix = 'start the container with --device /dev/kvm, and if not as root --group-add "$(stat -c %g /dev/kvm)"'
        raise _wrong(f"{device} is there, but user {os.getuid()} may not open it: {fix}") from None
    except OSError as error:
        fix = "switch virtualization on in the host's firmware, or nested virtualization where the host is virtual"
        raise _wrong(f"{device} does not open ({error.strerror}): {fix}") from None


def check_memory(settings: Settings, limit_files: Sequence[Path] = CGROUP_LIMITS) -> None:
    """Raises Failure if the container's limit is too low: the kernel would kill the emulator without a message."""
    needed = settings.memory_mb + OVERHEAD_MB
    words = [file.read_text().strip() for file in limit_files if file.is_file()]
    limits = [int(word) >> 20 for word in words if word.isdecimal()]
    if limits and min(limits) < needed:
        had = f"the container may use {min(limits)} MB of memory, the emulator needs about {needed}"
        raise _wrong(f"{had}: raise the limit (a fleet: fleet.memory_mb), or lower MEMORY_MB")


def _wrong(message: str) -> Failure:
    return Failure(message, BAD_SETTINGS)


def _number(given: Mapping[str, str], name: str, default: int, low: int, high: int) -> int:
    text = given.get(name) or str(default)
    if not (text.isascii() and text.isdecimal() and low <= int(text) <= high):
        raise _wrong(f"{name} is {text!r}: give a whole number from {low} to {high}")
    return int(text)


def _name(given: Mapping[str, str], name: str, default: str) -> str:
    text = given.get(name) or default
    if not _NAME.fullmatch(text):
        raise _wrong(f"{name} is {text!r}: use letters, digits and . _ - only")
    return text


def _address(given: Mapping[str, str]) -> str:
    text = given.get("FORWARD_ADDRESS") or "auto"
    if text not in ("auto", "none"):
        try:
            IPv4Address(text)
        except AddressValueError:
            raise _wrong(f"FORWARD_ADDRESS is {text!r}: give an IPv4 address of the container, auto or none") from None
    return text


def _task_server(given: Mapping[str, str]) -> str:
    path = given.get("TASK_SERVER", "")
    if path and not Path(path).is_file():
        raise _wrong(f"TASK_SERVER: there is no file {path}; build the image with ANDROIDWORLD_COMMIT, or set it empty")
    return path


def _key(given: Mapping[str, str]) -> str:
    """ADBKEY, else the file ADBKEY_FILE, else the Docker secret adbkey."""
    if given.get("ADBKEY"):
        return given["ADBKEY"]
    named = given.get("ADBKEY_FILE", "")
    file = Path(named or "/run/secrets/adbkey")
    try:
        return file.read_text()
    except FileNotFoundError:
        if not named:
            return ""
        raise _wrong(f"ADBKEY_FILE: there is no file {named}; mount it: -v ~/.android/adbkey:{named}:ro") from None
    except (OSError, UnicodeDecodeError) as error:
        raise _wrong(f"{file} cannot be read as a key: {error}; mount ~/.android/adbkey there") from None


def _token(given: Mapping[str, str]) -> str:
    token = given.get("TOKEN", "")
    if not re.fullmatch(r"[!-~]*", token):
        raise _wrong("TOKEN has blanks or other odd characters: give the one word of ~/.emulator_console_auth_token")
    return token
