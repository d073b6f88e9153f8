"""`date`, `svc`, `sleep`, and the commands of the modules that are about the system as a whole."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from envs.phone.phone import UNIX_EPOCH, Phone
from envs.phone.shell import dumps, packages, processes, properties, services, window
from envs.phone.shell.command import Failure, Handler, number
from envs.phone.shell.properties import PROPERTIES

__all__ = ["COMMANDS", "PROPERTIES", "UNIX_EPOCH"]
LAST_YEAR = 2100
_ISO = {
    "d": "%Y-%m-%d",
    "date": "%Y-%m-%d",
    "h": "%Y-%m-%dT%H+00:00",
    "hours": "%Y-%m-%dT%H+00:00",
    "m": "%Y-%m-%dT%H:%M+00:00",
    "minutes": "%Y-%m-%dT%H:%M+00:00",
    "s": "%Y-%m-%dT%H:%M:%S+00:00",
    "seconds": "%Y-%m-%dT%H:%M:%S+00:00",
}
_DATES = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%d", "%H:%M:%S", "%H:%M")


def date(phone: Phone, words: list[str]) -> str:
    """`date [-u] [-I[TIMESPEC]] [-d DATE] [-s] [+FORMAT] [SET]`; the phone's clock is in UTC."""
    shown, form, rest = None, "%a %b %e %H:%M:%S UTC %Y", list(words)
    while rest:
        word = rest.pop(0)
        if word.startswith("+"):
            form = word[1:]
        elif word.startswith("-I") and (word[2:] or "d") in _ISO:
            form = _ISO[word[2:] or "d"]
        elif word in ("-d", "-r", "-D") and rest:
            value = rest.pop(0)
            shown = _parsed(phone, value) if word == "-d" else shown
        elif word not in ("-u", "-s"):
            _set(phone, word)
    try:
        return _formatted(shown or phone.now, form) + "\n"
    except ValueError:
        raise Failure(f"date: bad format '{form}'", 1) from None


def _set(phone: Phone, word: str) -> None:
    new = _parsed(phone, word)
    if not UNIX_EPOCH.year <= new.year <= LAST_YEAR:
        raise Failure(f"date: bad date '{word}'", 1)
    phone.set_time(new)


def _formatted(when: datetime, form: str) -> str:
    """strftime for a clock in UTC that counts whole seconds."""
    ours = {"s": str(round((when - UNIX_EPOCH).total_seconds())), "N": "000000000", "z": "+0000", "Z": "UTC"}
    form = re.sub(
        r"%(\d?)(.)",
        lambda m: ours[m[2]][: int(m[1] or 9)] if m[1] and m[2] == "N" else ours[m[2]] if m[2] in ours else m[0],
        form,
    )
    return when.strftime(form)


def _parsed(phone: Phone, word: str) -> datetime:
    """`MMDDhhmm[[CC]YY][.SS]`, as toybox reads it, `@seconds`, or an ISO date."""
    try:
        if word.startswith("@"):
            return UNIX_EPOCH + timedelta(seconds=int(word[1:].partition(".")[0]))
        if "-" in word or ":" in word:
            return _iso_date(phone, word)
        stem, _, seconds = word.partition(".")
        if len(stem) not in (8, 10, 12) or not (stem + seconds).isdecimal():
            raise ValueError(word)
        year = {8: str(phone.now.year), 10: f"20{stem[8:]}", 12: stem[8:]}[len(stem)]
        return datetime.strptime(year + stem[:8] + (seconds or "00"), "%Y%m%d%H%M%S")
    except (ValueError, OverflowError):
        raise Failure(f"date: bad date '{word}'", 1) from None


def _iso_date(phone: Phone, word: str) -> datetime:
    for form in _DATES:
        try:
            found = datetime.strptime(word, form)
        except ValueError:
            continue
        return datetime.combine(phone.now.date(), found.time()) if "%Y" not in form else found
    raise ValueError(word)


def svc(phone: Phone, words: list[str]) -> str:
    names = {
        "wifi": ("global", "wifi_on"),
        "data": ("global", "mobile_data"),
        "bluetooth": ("global", "bluetooth_on"),
        "nfc": ("secure", "nfc_on"),
    }
    if len(words) == 2 and words[0] in names and words[1] in ("enable", "disable"):
        space, key = names[words[0]]
        phone.settings[space][key] = str(int(words[1] == "enable"))
        phone.changed()
        return ""
    if words[:1] == ["power"]:
        if words[1:2] == ["reboot"]:
            phone.boot()
        return ""
    raise Failure(f"Unknown command: {' '.join(words)}", 255)


def sleep(phone: Phone, words: list[str]) -> str:
    """Device time passes, the host does not wait."""
    if not words or not 0 <= number(words[0], "sleep"):
        raise Failure("sleep: Needs 1 argument", 1)
    phone.wait()
    return ""


COMMANDS: dict[str, Handler] = {
    "date": date,
    "svc": svc,
    "sleep": sleep,
    **dumps.COMMANDS,
    **packages.COMMANDS,
    **processes.COMMANDS,
    **properties.COMMANDS,
    **services.COMMANDS,
    **window.COMMANDS,
}
