"""`settings`, `svc`, `wm`, `ime`, `cmd` and `service`: commands that change the state of system services."""

from __future__ import annotations

import re

from mobilerl.envs.phone import panels
from mobilerl.envs.phone.app import Page
from mobilerl.envs.phone.default_settings import DEFAULT_SETTINGS
from mobilerl.envs.phone.display import MAX_DENSITY, MIN_DENSITY
from mobilerl.envs.phone.phone import Phone
from mobilerl.envs.phone.shell.android import packages
from mobilerl.envs.phone.shell.android.activity import ADB_IME
from mobilerl.envs.phone.shell.command import Failure, Handler, dispatch
from mobilerl.envs.phone.system import NIGHT_MODES

IMES = (ADB_IME, "com.android.inputmethod.latin/.LatinIME")
ENABLED, DEFAULT = "enabled_input_methods", "default_input_method"
SET_TIME_ZONE = "3"
"""Transaction code of the service `alarm`."""
SMALLEST, TIMES_LARGER = 200, 3
"""Android limits a size override to between 200 pixels and three times the panel."""


def _put(phone: Phone, space: str, key: str, value: str) -> str:
    phone.settings[space][key] = value
    phone.invalidate()
    return ""


def settings(phone: Phone, words: list[str]) -> str:
    """`settings list|get|put|delete|reset system|secure|global [KEY [VALUE]]`."""
    table = phone.settings.get(words[1]) if len(words) > 1 else None
    if table is None:
        raise Failure(f"Invalid namespace '{' '.join(words[1:2])}'", 255)
    match words:
        case ["list", _]:
            return "".join(f"{key}={table[key]}\n" for key in sorted(table))
        case ["get", _, key]:
            return f"{table.get(key, 'null')}\n"
        case ["put", space, key, value, *_]:
            return _put(phone, space, key, value)
        case ["delete", _, key]:
            deleted = table.pop(key, None) is not None
            phone.invalidate()
            return f"Deleted {int(deleted)} rows\n"
        case ["reset", space, "trusted_defaults"]:
            phone.settings[space] = dict(DEFAULT_SETTINGS[space])
            phone.invalidate()
            return ""
    raise Failure("Bad arguments", 255)


def svc(phone: Phone, words: list[str]) -> str:
    names = {"wifi": "wifi_on", "data": "mobile_data", "bluetooth": "bluetooth_on"}
    match words:
        case [name, "enable" | "disable" as verb] if name in names:
            return _put(phone, "global", names[name], str(int(verb == "enable")))
        case ["power", *_]:
            return ""
    raise Failure(f"Unknown command: {' '.join(words)}", 255)


# --- wm ------------------------------------------------------------------------------------------------------------


def _size(phone: Phone, words: list[str]) -> str:
    display = phone.display
    if not words:
        override = "Override size: {}x{}\n".format(*display.size_override) if display.size_override else ""
        return f"Physical size: {display.width}x{display.height}\n{override}"
    if words == ["reset"]:
        display.size_override = None
    else:
        match = re.fullmatch(r"(\d{1,5})x(\d{1,5})", words[0])
        if match is None:
            raise Failure("Error: expected WxH or reset", 255)
        width = min(max(int(match[1]), SMALLEST), TIMES_LARGER * display.width)
        height = min(max(int(match[2]), SMALLEST), TIMES_LARGER * display.height)
        display.size_override = None if (width, height) == (display.width, display.height) else (width, height)
    phone.invalidate()
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
    phone.invalidate()
    return ""


# --- ime -----------------------------------------------------------------------------------------------------------


def _ime_list(phone: Phone, words: list[str]) -> str:
    """Lists the enabled keyboards, or with `-a` all, by name as with `-s`."""
    shown = IMES if "-a" in words else [i for i in IMES if i in phone.settings["secure"].get(ENABLED, "").split(":")]
    return "".join(f"{name}\n" for name in shown)


def _ime_enable(phone: Phone, words: list[str]) -> str:
    table, name = phone.settings["secure"], words[-1] if words else ""
    _check_known(name, IMES)
    enabled = [i for i in table.get(ENABLED, "").split(":") if i in IMES]
    state = "already" if name in enabled else "now"
    table[ENABLED] = ":".join([*(i for i in enabled if i != name), name])
    return f"Input method {name}: {state} enabled for user #0\n"


def _ime_set(phone: Phone, words: list[str]) -> str:
    table, name = phone.settings["secure"], words[-1] if words else ""
    _check_known(name, table.get(ENABLED, "").split(":"))
    table[DEFAULT] = name
    return f"Input method {name} selected for user #0\n"


def _check_known(name: str, names: tuple[str, ...] | list[str]) -> None:
    if name not in names or name not in IMES:
        raise Failure(f"Unknown input method {name} cannot be selected for user #0", 255)


# --- cmd and service -----------------------------------------------------------------------------------------------


def _panel(name: str) -> Handler:
    def show(phone: Phone, words: list[str]) -> str:
        phone.show_panel(Page(name))
        return ""

    return show


def _collapse(phone: Phone, words: list[str]) -> str:
    phone.close_panel(panels.SHADE)
    phone.close_panel(panels.QUICK_SETTINGS)
    return ""


def _post(phone: Phone, words: list[str]) -> str:
    """`cmd notification post [-t TITLE] TAG TEXT`. Posting the same tag again replaces the text."""
    title, rest = (words[1], words[2:]) if len(words) > 1 and words[0] in ("-t", "--title") else ("", words)
    if len(rest) != 2:
        raise Failure("usage: cmd notification post [-t TITLE] TAG TEXT", 255)
    tag, text = rest
    phone.notifications.pop(tag, None)
    phone.notifications[tag] = (title or tag, text)
    phone.invalidate()
    return f"posting:\n  {title or tag}: {text}\n"


def _night(phone: Phone, words: list[str]) -> str:
    """`cmd uimode night [MODE]` sets the mode of the dark theme, if one is given, and prints it."""
    if words and words[0] not in NIGHT_MODES:
        raise Failure("Error: mode must be 'yes', 'no', or 'auto', or 'custom_schedule'", 255)
    if words:
        _put(phone, "secure", "ui_night_mode", NIGHT_MODES[words[0]])
    stored = phone.settings["secure"].get("ui_night_mode")
    name = next((name for name, value in NIGHT_MODES.items() if value == stored), "unknown")
    return f"Night mode: {name}\n"


def service(phone: Phone, words: list[str]) -> str:
    """Accepts only UTC as the time zone, which is already set."""
    if words == ["call", "alarm", SET_TIME_ZONE, "s16", "UTC"]:
        return "Result: Parcel(00000000    '....')\n"
    raise Failure(f"service: not implemented: {' '.join(words)}", 255)


_statusbar = {"expand-notifications": _panel(panels.SHADE), "expand-settings": _panel(panels.QUICK_SETTINGS)}
COMMANDS: dict[str, Handler] = {
    **{"settings": settings, "svc": svc, "service": service, "wm": dispatch(size=_size, density=_density)},
    "ime": dispatch(list=_ime_list, enable=_ime_enable, set=_ime_set),
    "cmd": dispatch(
        package=packages.pm,
        statusbar=dispatch(collapse=_collapse, **_statusbar),
        notification=dispatch(post=_post),
        uimode=dispatch(night=_night),
    ),
}
