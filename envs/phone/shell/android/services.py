"""`settings`, `svc`, `wm`, `ime`, `cmd` and `service`: changing the state of system services."""

from __future__ import annotations

import re

from envs.phone import panels
from envs.phone.app import Page
from envs.phone.phone import DEFAULT_SETTINGS, Phone
from envs.phone.shell.android import activity, dumps, inputs, packages
from envs.phone.shell.android.activity import ADB_IME
from envs.phone.shell.command import Failure, Handler, dispatch, without_user

SPACES = ("system", "secure", "global")
IMES = (ADB_IME, "com.android.inputmethod.latin/.LatinIME")
ENABLED, DEFAULT = "enabled_input_methods", "default_input_method"
SET_TIME_ZONE = "3"
"""Transaction of the service `alarm`."""
SMALLEST, TIMES_LARGER = 200, 3
"""Android keeps an override of the size between 200 pixels and three times the panel."""
MIN_DENSITY, MAX_DENSITY = 72, 1000


def _put(phone: Phone, space: str, key: str, value: str) -> str:
    phone.settings[space][key] = value
    phone.changed()
    return ""


def settings(phone: Phone, words: list[str]) -> str:
    words = without_user(words)
    if len(words) < 2:
        raise Failure("Bad arguments", 255)
    verb, space, *rest = words
    if space not in SPACES:
        raise Failure(f"Invalid namespace '{space}'", 255)
    table = phone.settings[space]
    counts = {"list": 0, "get": 1, "delete": 1, "put": 2, "reset": 1}
    if verb not in counts or len(rest) < counts[verb]:
        raise Failure("Bad arguments" if verb in counts else f"Invalid command: {verb}", 255)
    if verb == "list":
        return "".join(f"{key}={table[key]}\n" for key in sorted(table))
    if verb == "get":
        return f"{table.get(rest[0], 'null')}\n"
    if verb == "put":
        return _put(phone, space, rest[0], rest[1])
    if verb == "reset":
        phone.settings[space] = dict(DEFAULT_SETTINGS[space]) if rest[0] == "trusted_defaults" else table
        phone.changed()
        return ""
    deleted = table.pop(rest[0], None) is not None
    phone.changed()
    return f"Deleted {int(deleted)} rows\n"


def svc(phone: Phone, words: list[str]) -> str:
    names = {"wifi": "wifi_on", "data": "mobile_data", "bluetooth": "bluetooth_on", "nfc": "nfc_on"}
    if len(words) == 2 and words[0] in names and words[1] in ("enable", "disable"):
        space = "secure" if words[0] == "nfc" else "global"
        return _put(phone, space, names[words[0]], str(int(words[1] == "enable")))
    if words[:1] != ["power"]:
        raise Failure(f"Unknown command: {' '.join(words)}", 255)
    if words[1:2] == ["reboot"]:
        phone.boot()
    return ""


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
    if not words:
        return "free\n" if table.get("accelerometer_rotation") == "1" else f"lock {table.get('user_rotation', '0')}\n"
    if words == ["free"]:
        return _put(phone, "system", "accelerometer_rotation", "1")
    if words[0] != "lock" or words[1:] not in ([], ["0"], ["1"], ["2"], ["3"]):
        raise Failure(f"Error: expected free or lock, not {words[0]}", 255)
    table["user_rotation"] = words[1] if len(words) > 1 else table.get("user_rotation", "0")
    return _put(phone, "system", "accelerometer_rotation", "0")


_wm = dispatch(
    **{"size": _size, "density": _density},
    **dict.fromkeys(("user-rotation", "set-user-rotation"), _rotation),
    **dict.fromkeys(("dismiss-keyguard", "fixed-to-user-rotation"), lambda phone, words: ""),
)


def wm(phone: Phone, words: list[str]) -> str | bytes:
    return _wm(phone, words[:1] + words[3:] if words[1:2] == ["-d"] else words)


# --- ime -----------------------------------------------------------------------------------------------------------


def ime(phone: Phone, words: list[str]) -> str:
    table, (verb, *rest) = phone.settings["secure"], without_user(words) or [""]
    enabled = [i for i in table.get(ENABLED, "").split(":") if i in IMES]
    if verb == "list":
        shown = IMES if "-a" in rest else enabled
        if "-s" in rest:
            return "".join(f"{i}\n" for i in shown)
        return "".join(f"mId={i} mSettingsActivityName=null mIsVrOnly=false\n  mIsDefaultResId=0x0\n" for i in shown)
    if verb == "reset":
        table |= {ENABLED: ":".join(IMES), DEFAULT: ADB_IME}
        return f"Reset current and enabled IMEs for user #0\nNewly selected IME: {ADB_IME}\n"
    if verb not in ("enable", "disable", "set"):
        raise Failure(f"Unknown command: {verb}", 255)
    name = rest[-1] if rest else ""
    if name not in (enabled if verb == "set" else IMES):
        raise Failure(f"Unknown input method {name} cannot be selected for user #0", 255)
    if verb == "set":
        table[DEFAULT] = name
        return f"Input method {name} selected for user #0\n"
    state = "already" if verb == "enable" and name in enabled else "now"
    enabled = [*(i for i in enabled if i != name), *([name] if verb == "enable" else [])]
    table[ENABLED] = ":".join(enabled)
    if table.get(DEFAULT) == name and verb == "disable":
        table[DEFAULT] = next(iter(enabled), "")
    return f"Input method {name}: {state} {verb}d for user #0\n"


# --- cmd and service -----------------------------------------------------------------------------------------------


def _wifi(phone: Phone, words: list[str]) -> str:
    if words[:1] == ["status"]:
        return f"Wifi is {'enabled' if phone.settings['global'].get('wifi_on') == '1' else 'disabled'}\n"
    if words not in (["set-wifi-enabled", "enabled"], ["set-wifi-enabled", "disabled"]):
        raise Failure(f"Unknown command: {' '.join(words)}", 255)
    return svc(phone, ["wifi", words[1].removesuffix("d")])


def _airplane_mode(phone: Phone, words: list[str]) -> str:
    if words[:1] != ["airplane-mode"]:
        raise Failure(f"Unknown command: {' '.join(words)}", 255)
    if words[1:2] in (["enable"], ["disable"]):
        return _put(phone, "global", "airplane_mode_on", str(int(words[1] == "enable")))
    return "enabled\n" if phone.settings["global"].get("airplane_mode_on") == "1" else "disabled\n"


def _panel(name: str) -> Handler:
    return lambda phone, words: phone.show_panel(Page(name)) or ""


def _collapse(phone: Phone, words: list[str]) -> str:
    phone.close_panel(panels.SHADE)
    phone.close_panel(panels.QUICK_SETTINGS)
    return ""


_SHELL_SERVICES: dict[str, Handler] = {
    **{"package": packages.pm, "activity": activity.am, "settings": settings, "window": wm, "input": inputs.run},
    **{"input_method": ime, "wifi": _wifi, "connectivity": _airplane_mode},
    "bluetooth_manager": lambda phone, words: svc(phone, ["bluetooth", *words]),
    "statusbar": dispatch(
        **{"expand-notifications": _panel(panels.SHADE), "expand-settings": _panel(panels.QUICK_SETTINGS)},
        collapse=_collapse,
    ),
    **dict.fromkeys(("appops", "notification", "deviceidle", "overlay"), lambda phone, words: ""),
}


def cmd(phone: Phone, words: list[str]) -> str | bytes:
    if not words:
        raise Failure("cmd: No service specified", 255)
    if words[0] in _SHELL_SERVICES:
        return _SHELL_SERVICES[words[0]](phone, words[1:])
    if words[0] in dumps.SERVICES or words[0] == "clipboard":
        raise Failure("No shell command implementation.", 255)
    raise Failure(f"cmd: Can't find service: {words[0]}", 20)


def service(phone: Phone, words: list[str]) -> str:
    """`service check NAME`, and setting the time zone, which is UTC."""
    if len(words) >= 2 and words[0] == "check":
        return f"Service {words[1]}: {'found' if words[1] in dumps.SERVICES else 'not found'}\n"
    if words == ["call", "alarm", SET_TIME_ZONE, "s16", "UTC"]:
        return "Result: Parcel(00000000    '....')\n"
    raise Failure(f"service: not implemented: {' '.join(words)}", 255)


COMMANDS: dict[str, Handler] = {"settings": settings, "svc": svc, "wm": wm, "ime": ime, "cmd": cmd, "service": service}
