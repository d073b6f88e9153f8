"""`uiautomator` and `screencap`: the screen as XML and as a picture."""

from __future__ import annotations

from envs.phone import render, xml_dump
from envs.phone.phone import Phone
from envs.phone.shell import files
from envs.phone.shell.command import Failure, Handler

DEFAULT_DUMP = "/sdcard/window_dump.xml"


def uiautomator(phone: Phone, words: list[str]) -> str:
    if words[:1] != ["dump"]:
        raise Failure("Usage: uiautomator <subcommand> [options]", 1)
    target = next((w for w in words[1:] if not w.startswith("--")), DEFAULT_DUMP)
    xml = xml_dump.dump(phone.tree(), phone.window_package, phone.scale, phone.width, phone.height)
    said = f"UI hierchary dumped to: {target}\n"  # sic: the real tool's spelling
    if target == "/dev/tty":
        return xml + said
    files.write(phone, target, xml.encode())
    return said


def screencap(phone: Phone, words: list[str]) -> bytes:
    png = render.png(phone)
    target = next((w for w in words if not w.startswith("-")), "")
    if target:
        files.write(phone, target, png)
        return b""
    if "-p" not in words:
        raise Failure("screencap: only PNG is supported here; use -p", 1)
    return png


COMMANDS: dict[str, Handler] = {"uiautomator": uiautomator, "screencap": screencap}
