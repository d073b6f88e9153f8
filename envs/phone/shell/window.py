"""`wm`: size, density and rotation of the screen."""

from __future__ import annotations

import re

from envs.phone.phone import Phone
from envs.phone.shell.command import Failure, Handler

SMALLEST, TIMES_LARGER = 200, 3
"""Android keeps an override between 200 pixels and three times the panel."""
MIN_DENSITY, MAX_DENSITY = 72, 1000


def run(phone: Phone, words: list[str]) -> str:
    verbs = {
        "size": _size,
        "density": _density,
        "user-rotation": _rotation,
        "set-user-rotation": _rotation,
        "dismiss-keyguard": lambda p, w: "",
        "fixed-to-user-rotation": lambda p, w: "",
    }
    if not words or words[0] not in verbs:
        raise Failure(f"Unknown command: {' '.join(words[:1])}", 255)
    rest = words[3:] if words[1:2] == ["-d"] else words[1:]
    return verbs[words[0]](phone, rest)


def _size(phone: Phone, words: list[str]) -> str:
    display = phone.display
    if not words:
        said = f"Physical size: {display.width}x{display.height}\n"
        if display.size_override:
            said += "Override size: {}x{}\n".format(*display.size_override)
        return said
    if words == ["reset"]:
        display.size_override = None
    else:
        match = re.fullmatch(r"(\d{1,5})x(\d{1,5})", words[0])
        if match is None:
            raise Failure("Error: expected WxH or reset", 255)
        width = min(max(int(match[1]), SMALLEST), TIMES_LARGER * display.width)
        height = min(max(int(match[2]), SMALLEST), TIMES_LARGER * display.height)
        display.size_override = None if (width, height) == (display.width, display.height) else (width, height)
    phone.changed()
    return ""


def _density(phone: Phone, words: list[str]) -> str:
    display = phone.display
    if not words:
        override = f"Override density: {display.density_override}\n" if display.density_override else ""
        return f"Physical density: {display.physical_density}\n{override}"
    if words == ["reset"]:
        display.density_override = None
    elif words[0].isdecimal() and MIN_DENSITY <= int(words[0]) <= MAX_DENSITY:
        density = int(words[0])
        display.density_override = None if density == display.physical_density else density
    else:
        raise Failure(f"Error: density must be >= {MIN_DENSITY}", 255)
    phone.changed()
    return ""


def _rotation(phone: Phone, words: list[str]) -> str:
    table = phone.settings["system"]
    if words == ["free"]:
        table["accelerometer_rotation"] = "1"
    elif words[:1] == ["lock"] and words[1:] in ([], ["0"], ["1"], ["2"], ["3"]):
        table["accelerometer_rotation"] = "0"
        table["user_rotation"] = words[1] if len(words) > 1 else table.get("user_rotation", "0")
    elif not words:
        return "free\n" if table.get("accelerometer_rotation") == "1" else f"lock {table.get('user_rotation', '0')}\n"
    else:
        raise Failure(f"Error: expected free or lock, not {words[0]}", 255)
    phone.changed()
    return ""


COMMANDS: dict[str, Handler] = {"wm": run}
