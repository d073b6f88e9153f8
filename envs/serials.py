"""Serials of adb devices, as `adb devices` prints them, or HOST:PORT."""

from __future__ import annotations

import re

_WORD = r"[^\s,;:'\"\[\]{}]+"
_SERIAL = re.compile(rf"{_WORD}( {_WORD})*|[\w.\-]+:\d{{1,5}}|\[[0-9a-fA-F:]+\]:\d{{1,5}}")
_EMULATOR = re.compile(r"emulator-(\d{1,5})")
LOOPBACK = "127.0.0.1"
_LOOPBACKS = ("localhost", "[::1]", "::1")


def is_serial(text: str) -> bool:
    """Whether a device may have this serial. Names found by mDNS and those of some vendors contain spaces."""
    return _SERIAL.fullmatch(text) is not None


def address_of(serial: str) -> str:
    """One name for the names that an adb server may have for a device: `emulator-5554` is 127.0.0.1:5555."""
    if emulator := _EMULATOR.fullmatch(serial):
        return f"{LOOPBACK}:{int(emulator[1]) + 1}"
    host, colon, port = serial.rpartition(":")
    return f"{LOOPBACK}:{port}" if colon and host.lower() in _LOOPBACKS else serial


def server_address(host: str, port: int) -> str:
    return f"{LOOPBACK if host.lower() in _LOOPBACKS else host}:{port}"
