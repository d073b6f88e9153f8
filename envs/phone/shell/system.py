"""`dumpsys`, `wm`, `getprop`, `date`, `svc`, `sleep`: what the system says about itself."""

from __future__ import annotations

from datetime import datetime, timedelta

from envs.phone.phone import Phone
from envs.phone.shell.activity import ACTIVITY, task_id
from envs.phone.shell.command import Failure, Handler, number

DENSITY_DPI = 160
"""dpi at which a dp is a pixel."""
UNIX_EPOCH = datetime(1970, 1, 1)


def dumpsys(phone: Phone, words: list[str]) -> str:
    service = words[0] if words else ""
    services = {"window": _window, "activity": _activity, "input": _input, "display": _display,
                "battery": _battery, "location": _location}  # fmt: skip
    if service not in services:
        raise Failure(f"Can't find service: {service}", 20)
    return services[service](phone)


def _record(phone: Phone) -> str:
    package = phone.foreground.package
    return f"ActivityRecord{{{_token(package)} u0 {package}/{ACTIVITY} t{task_id(phone, package)}}}"


def _token(name: str) -> str:
    """An object's address as dumpsys prints it: made up, but the same for the same object."""
    return f"{sum(ord(c) * 31 ** (i % 5) for i, c in enumerate(name)) % 2**28:07x}"


def _window(phone: Phone) -> str:
    package = phone.window_package
    focus = f"Window{{{_token(package + 'w')} u0 {package}/{package}{ACTIVITY}}}"
    return (f"WINDOW MANAGER WINDOWS (dumpsys window windows)\n  mCurrentFocus={focus}\n"
            f"  mFocusedApp={_record(phone)}\n  mCurrentRotation=ROTATION_0\n"
            f"  mInputMethodWindow={'shown' if phone.tree().keyboard else 'null'}\n")  # fmt: skip


def _activity(phone: Phone) -> str:
    record = _record(phone)
    return (f"ACTIVITY MANAGER ACTIVITIES (dumpsys activity activities)\n  topResumedActivity={record}\n"
            f"  ResumedActivity: {record}\n")  # fmt: skip


def _input(phone: Phone) -> str:
    frame = f"[0, 0, {phone.width}, {phone.height}]"
    return ("INPUT MANAGER (dumpsys input)\n  Viewport INTERNAL: displayId=0, uniqueId=local:0, port=0, orientation=0, "
            f"logicalFrame={frame}, physicalFrame={frame}, deviceSize=[{phone.width}, {phone.height}], "
            "isActive=[1]\n")  # fmt: skip


def _display(phone: Phone) -> str:
    frame = f"Rect(0, 0 - {phone.width}, {phone.height})"
    return ("DISPLAY MANAGER (dumpsys display)\n  mViewports=[DisplayViewport{type=INTERNAL, valid=true, "
            f"isActive=true, displayId=0, uniqueId='local:0', physicalPort=0, orientation=0, logicalFrame={frame}, "
            f"physicalFrame={frame}, deviceWidth={phone.width}, deviceHeight={phone.height}}}]\n")  # fmt: skip


def _battery(phone: Phone) -> str:
    return ("Current Battery Service state:\n  AC powered: false\n  USB powered: true\n  status: 2\n  health: 2\n"
            "  present: true\n  level: 85\n  scale: 100\n  temperature: 250\n")  # fmt: skip


def _location(phone: Phone) -> str:
    longitude, latitude = phone.location
    return f"Location Manager State:\n  last location=Location[gps {latitude:.6f},{longitude:.6f} hAcc=5.0]\n"


def wm(phone: Phone, words: list[str]) -> str:
    if words == ["size"]:
        return f"Physical size: {phone.width}x{phone.height}\n"
    if words == ["density"]:
        return f"Physical density: {round(DENSITY_DPI * phone.scale)}\n"
    raise Failure(f"Unknown command: {' '.join(words)}", 255)


PROPERTIES = {
    "sys.boot_completed": "1",
    "dev.bootcomplete": "1",
    "init.svc.bootanim": "stopped",
    "ro.build.version.release": "13",
    "ro.build.version.sdk": "33",
    "ro.product.device": "emu64xa",
    "ro.product.model": "sdk_gphone64_x86_64",
    "ro.product.name": "sdk_gphone64_x86_64",
    "persist.sys.timezone": "UTC",
}


def getprop(phone: Phone, words: list[str]) -> str:
    if not words:
        return "".join(f"[{key}]: [{value}]\n" for key, value in sorted(PROPERTIES.items()))
    return PROPERTIES.get(words[0], words[1] if len(words) > 1 else "") + "\n"


def date(phone: Phone, words: list[str]) -> str:
    if words and not words[0].startswith("+"):
        try:
            new = _parse_date(words[0])
        except (ValueError, OverflowError):
            raise Failure(f"date: bad date '{words[0]}'", 1) from None
        phone.set_time(new)
    if words and words[0].startswith("+"):
        form = words[0][1:].replace("%s", str(round((phone.now - UNIX_EPOCH).total_seconds())))
        return phone.now.strftime(form) + "\n"
    return phone.now.strftime("%a %b %e %H:%M:%S UTC %Y") + "\n"


def _parse_date(word: str) -> datetime:
    """`MMDDhhmm[[CC]YY][.SS]`, as toybox reads it, or `@seconds`."""
    if word.startswith("@"):
        return UNIX_EPOCH + timedelta(seconds=int(word[1:]))
    stem, _, seconds = word.partition(".")
    year = stem[8:]
    if len(stem) not in (8, 10, 12) or not (stem + seconds).isdecimal():
        raise ValueError(word)
    century = {0: "2023", 2: f"20{year}", 4: year}[len(year)]
    return datetime.strptime(century + stem[:8] + (seconds or "00"), "%Y%m%d%H%M%S")


def svc(phone: Phone, words: list[str]) -> str:
    names = {"wifi": "wifi_on", "data": "mobile_data", "bluetooth": "bluetooth_on"}
    if len(words) == 2 and words[0] in names and words[1] in ("enable", "disable"):
        phone.settings["global"][names[words[0]]] = str(int(words[1] == "enable"))
        phone.changed()
        return ""
    if words[:1] == ["power"]:
        return ""
    raise Failure(f"Unknown command: {' '.join(words)}", 255)


def sleep(phone: Phone, words: list[str]) -> str:
    """Device time passes, the host does not wait."""
    if not words or not 0 <= number(words[0], "sleep"):
        raise Failure("sleep: Needs 1 argument", 1)
    phone.wait()
    return ""


COMMANDS: dict[str, Handler] = {
    "dumpsys": dumpsys, "wm": wm, "getprop": getprop, "date": date, "svc": svc, "sleep": sleep,
}  # fmt: skip
