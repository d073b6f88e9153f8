"""`cmd`, `ime` and `service`: system services by name."""

from __future__ import annotations

from envs.phone import panels
from envs.phone.app import Page
from envs.phone.phone import Phone
from envs.phone.shell import activity, dumps, inputs, packages, settings, window
from envs.phone.shell.command import Failure, Handler

ADB_IME = "com.android.adbkeyboard/.AdbIME"
LATIN_IME = "com.android.inputmethod.latin/.LatinIME"
IMES = (ADB_IME, LATIN_IME)
ENABLED, DEFAULT = "enabled_input_methods", "default_input_method"
SET_TIME_ZONE = "3"
"""Transaction of the service `alarm`."""


# --- keyboards -----------------------------------------------------------------------------------------------------


def ime(phone: Phone, words: list[str]) -> str:
    verbs = {"list": _ime_list, "enable": _ime_enable, "disable": _ime_disable, "set": _ime_set, "reset": _ime_reset}
    if not words or words[0] not in verbs:
        raise Failure(f"Unknown command: {' '.join(words[:1])}", 255)
    rest = words[1:]
    return verbs[words[0]](phone, rest[2:] if rest[:1] == ["--user"] else rest)


def _enabled(phone: Phone) -> list[str]:
    return [i for i in phone.settings["secure"].get(ENABLED, "").split(":") if i in IMES]


def _ime_list(phone: Phone, words: list[str]) -> str:
    shown = IMES if "-a" in words else _enabled(phone)
    if "-s" in words:
        return "".join(f"{i}\n" for i in shown)
    return "".join(f"mId={i} mSettingsActivityName=null mIsVrOnly=false\n  mIsDefaultResId=0x0\n" for i in shown)


def _known(words: list[str]) -> str:
    name = words[-1] if words else ""
    if name not in IMES:
        raise Failure(f"Unknown input method {name} cannot be selected for user #0", 255)
    return name


def _ime_enable(phone: Phone, words: list[str]) -> str:
    name, enabled = _known(words), _enabled(phone)
    if name in enabled:
        return f"Input method {name}: already enabled for user #0\n"
    phone.settings["secure"][ENABLED] = ":".join([*enabled, name])
    return f"Input method {name}: now enabled for user #0\n"


def _ime_disable(phone: Phone, words: list[str]) -> str:
    name = _known(words)
    left = [i for i in _enabled(phone) if i != name]
    phone.settings["secure"][ENABLED] = ":".join(left)
    if phone.settings["secure"].get(DEFAULT) == name:
        phone.settings["secure"][DEFAULT] = next(iter(left), "")
    return f"Input method {name}: now disabled for user #0\n"


def _ime_set(phone: Phone, words: list[str]) -> str:
    name = _known(words)
    if name not in _enabled(phone):
        raise Failure(f"Unknown input method {name} cannot be selected for user #0", 255)
    phone.settings["secure"][DEFAULT] = name
    return f"Input method {name} selected for user #0\n"


def _ime_reset(phone: Phone, words: list[str]) -> str:
    phone.settings["secure"] |= {ENABLED: ":".join(IMES), DEFAULT: ADB_IME}
    return f"Reset current and enabled IMEs for user #0\nNewly selected IME: {ADB_IME}\nNewly enabled IMEs: {IMES}\n"


# --- cmd -----------------------------------------------------------------------------------------------------------


def cmd(phone: Phone, words: list[str]) -> str:
    handlers = {
        "package": packages.pm,
        "activity": activity.am,
        "settings": settings.run,
        "window": window.run,
        "input": inputs.run,
        "input_method": ime,
        "statusbar": _statusbar,
        "uimode": _uimode,
        "wifi": _wifi,
        "bluetooth_manager": _bluetooth,
        "connectivity": _connectivity,
        "appops": lambda p, w: "",
        "notification": lambda p, w: "",
        "deviceidle": lambda p, w: "",
        "location": _location,
        "battery": _nothing,
        "overlay": lambda p, w: "",
    }
    if words[:1] in (["-l"], ["-w"]):
        return "Currently running services:\n" + "".join(f"  {name}\n" for name in sorted(dumps.SERVICES))
    if not words:
        raise Failure("cmd: No service specified; use -l to list all services", 255)
    if words[0] in handlers:
        return handlers[words[0]](phone, words[1:])
    if words[0] in dumps.SERVICES or words[0] == "clipboard":
        raise Failure("No shell command implementation.", 255)
    raise Failure(f"cmd: Can't find service: {words[0]}", 20)


def _statusbar(phone: Phone, words: list[str]) -> str:
    verb = words[0] if words else ""
    pages = {"expand-notifications": panels.SHADE, "expand-settings": panels.QUICK_SETTINGS}
    if verb in pages:
        phone.show_panel(Page(pages[verb]))
    elif verb == "collapse":
        phone.close_panel(panels.SHADE)
        phone.close_panel(panels.QUICK_SETTINGS)
    else:
        raise Failure(f"Unknown command: {verb}", 255)
    return ""


def _uimode(phone: Phone, words: list[str]) -> str:
    values = {"yes": "2", "no": "1", "auto": "0"}
    if words[:1] != ["night"] or len(words) > 1 and words[1] not in values:
        raise Failure(f"Unknown command: {' '.join(words)}", 255)
    if len(words) > 1:
        phone.settings["secure"]["ui_night_mode"] = values[words[1]]
        phone.changed()
    now = phone.settings["secure"].get("ui_night_mode")
    return f"Night mode: {next((name for name, value in values.items() if value == now), 'no')}\n"


def _switched(phone: Phone, key: str, on: bool) -> str:
    phone.settings["global"][key] = str(int(on))
    phone.changed()
    return ""


def _wifi(phone: Phone, words: list[str]) -> str:
    if words[:1] == ["set-wifi-enabled"] and words[1:2] in (["enabled"], ["disabled"]):
        return _switched(phone, "wifi_on", words[1] == "enabled")
    if words[:1] == ["status"]:
        return f"Wifi is {'enabled' if phone.settings['global'].get('wifi_on') == '1' else 'disabled'}\n"
    raise Failure(f"Unknown command: {' '.join(words[:1])}", 255)


def _bluetooth(phone: Phone, words: list[str]) -> str:
    if words[:1] in (["enable"], ["disable"]):
        _switched(phone, "bluetooth_on", words[0] == "enable")
        return f"{words[0].title()[:-1]}ing Bluetooth\n"
    raise Failure(f"Unknown command: {' '.join(words[:1])}", 255)


def _connectivity(phone: Phone, words: list[str]) -> str:
    if words[:1] != ["airplane-mode"]:
        raise Failure(f"Unknown command: {' '.join(words[:1])}", 255)
    if words[1:2] in (["enable"], ["disable"]):
        return _switched(phone, "airplane_mode_on", words[1] == "enable")
    return "enabled\n" if phone.settings["global"].get("airplane_mode_on") == "1" else "disabled\n"


def _location(phone: Phone, words: list[str]) -> str:
    if words[:1] == ["set-location-enabled"] and words[1:2] in (["true"], ["false"]):
        phone.settings["secure"]["location_mode"] = "3" if words[1] == "true" else "0"
        phone.changed()
        return ""
    if words[:1] == ["is-location-enabled"]:
        return "true\n" if phone.settings["secure"].get("location_mode") != "0" else "false\n"
    raise Failure(f"Unknown command: {' '.join(words[:1])}", 255)


def _nothing(phone: Phone, words: list[str]) -> str:
    raise Failure("the battery of an embedded phone is always at 85 %", 255)


# --- service -------------------------------------------------------------------------------------------------------


def service(phone: Phone, words: list[str]) -> str:
    if words[:1] == ["list"]:
        names = sorted(dumps.SERVICES)
        return f"Found {len(names)} services:\n" + "".join(
            f"{i}\t{n}: [android.os.I{n}]\n" for i, n in enumerate(names)
        )
    if len(words) >= 2 and words[0] == "check":
        return f"Service {words[1]}: {'found' if words[1] in dumps.SERVICES else 'not found'}\n"
    if words[:3] == ["call", "alarm", SET_TIME_ZONE] and words[3:4] == ["s16"]:
        if words[4:] != ["UTC"]:
            raise Failure(f"service: the clock of an embedded phone is in UTC, not {' '.join(words[4:])}", 255)
        return "Result: Parcel(00000000    '....')\n"
    if words[:1] == ["call"] and len(words) >= 3:
        raise Failure(f"service: transaction {words[2]} of {words[1]} is not implemented", 255)
    raise Failure("service: No action specified.", 10)


COMMANDS: dict[str, Handler] = {"ime": ime, "cmd": cmd, "service": service}
