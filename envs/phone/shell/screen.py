"""`uiautomator` and `screencap`: the screen as XML and as a picture."""

from __future__ import annotations

import struct

from envs.phone import render, xml_dump
from envs.phone.phone import Phone
from envs.phone.shell import files
from envs.phone.shell.command import Failure, Handler

DEFAULT_DUMP = "/sdcard/window_dump.xml"


def uiautomator(phone: Phone, words: list[str]) -> str:
    if words[:1] != ["dump"]:
        raise Failure("Usage: uiautomator <subcommand> [options]", 1)
    target = next((w for w in words[1:] if not w.startswith("--")), DEFAULT_DUMP)
    xml = xml_dump.dump(phone.tree(), phone.window_package, phone.scale, phone.width, phone.height, phone.rotation)
    said = f"UI hierchary dumped to: {target}\n"  # sic: the real tool's spelling
    if target == "/dev/tty":
        return xml + said
    files.write(phone, target, xml.encode())
    return said


def screencap(phone: Phone, words: list[str]) -> bytes:
    """`screencap [-p] [-d DISPLAY] [FILE]`; there is one display."""
    if "-d" in words:
        at = words.index("-d")
        words = words[:at] + words[at + 2 :]
    target = next((w for w in words if not w.startswith("-")), "")
    data = render.png(phone) if "-p" in words or target.endswith(".png") else _raw(phone)
    if not target:
        return data
    files.write(phone, target, data)
    return b""


def _raw(phone: Phone) -> bytes:
    """Width, height, pixel format (1: RGBA), colour space (1: sRGB), then the pixels."""
    return struct.pack("<IIII", phone.width, phone.height, 1, 1) + render.picture(phone).convert("RGBA").tobytes()


COMMANDS: dict[str, Handler] = {"uiautomator": uiautomator, "screencap": screencap}
