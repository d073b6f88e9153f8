"""`input`: touches, keys and text."""

from __future__ import annotations

import re
from collections.abc import Callable

from mobilerl.envs.phone import panels, telephony
from mobilerl.envs.phone.app import Page
from mobilerl.envs.phone.phone import Phone
from mobilerl.envs.phone.shell.command import Failure, Handler, number

SOURCES = ("touchscreen", "keyboard")
VOLUME_TOP = 15

# --- key codes -----------------------------------------------------------------------------------------------------

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
KEYCODES = {
    **{"HOME": 3, "BACK": 4, "CALL": 5, "ENDCALL": 6, "VOLUME_UP": 24, "VOLUME_DOWN": 25, "POWER": 26, "SPACE": 62},
    **{"ENTER": 66, "DEL": 67, "CTRL_LEFT": 113, "VOLUME_MUTE": 164, "APP_SWITCH": 187, "SLEEP": 223, "WAKEUP": 224},
    **{digit: 7 + i for i, digit in enumerate("0123456789")},
    **{letter: 29 + i for i, letter in enumerate(_LETTERS)},
}
"""Android's key codes by name, without the prefix `KEYCODE_`. Other keys have no effect on this phone."""
NAMES = {code: name for name, code in KEYCODES.items()}


def run(phone: Phone, words: list[str]) -> str:
    if words[:1] and words[0] in SOURCES:
        words = words[1:]
    verb = _VERBS.get(words[0]) if words else None
    if verb is None:
        raise Failure(f"Error: Unknown command: {''.join(words[:1])}", 255)
    if phone.awake or verb is _keyevent:  # a screen that is off ignores touches
        verb(phone, words[1:])
    return ""


# --- touches -------------------------------------------------------------------------------------------------------


def _tap(phone: Phone, words: list[str]) -> None:
    x, y = _numbers(words, "tap", (2,))
    phone.tap(x, y)


def _swipe(phone: Phone, words: list[str]) -> None:
    x, y, x2, y2, *duration = _numbers(words, "swipe", (4, 5))
    phone.swipe(x, y, x2, y2, int(duration[0]) if duration else 300)


def _numbers(words: list[str], command: str, counts: tuple[int, ...]) -> list[float]:
    if len(words) not in counts:
        raise Failure(f"Error: Invalid arguments for command: {command}", 255)
    return [number(w, command) for w in words]


# --- keys ----------------------------------------------------------------------------------------------------------


def _text(phone: Phone, words: list[str]) -> None:
    if not words:
        raise Failure("Error: Invalid arguments for command: text", 255)
    if not words[0].isascii():  # the real command crashes on characters that no key produces
        raise Failure("Error: Attempt to get length of null array", 255)
    phone.text(words[0].replace("%s", " "))


def _keyevent(phone: Phone, words: list[str]) -> None:
    for word in words:
        if not word.startswith("--"):
            press(phone, _keycode(word))


def _keycode(word: str) -> int:
    if not re.fullmatch("[A-Z0-9_]{1,40}", word):
        raise Failure(f"Error: Unknown keycode: {word}", 255)
    return int(word) if word.isdecimal() else KEYCODES.get(word.removeprefix("KEYCODE_"), 0)


def press(phone: Phone, code: int) -> None:
    """Presses one key."""
    name = NAMES.get(code, "")
    if not phone.awake and name not in _POWER:
        return
    if name in _KEYS:
        _KEYS[name](phone)
    elif len(name) == 1 or name == "SPACE":
        phone.text(name.lower() if len(name) == 1 else " ")


def _light(phone: Phone, on: bool) -> None:
    phone.awake = on
    phone.invalidate()


def _volume(phone: Phone, change: int) -> None:
    table = phone.settings["system"]
    level = table.get("volume_music", "0")
    table["volume_music"] = str(min(max(0, (int(level) if level.isdecimal() else 0) + change), VOLUME_TOP))
    phone.invalidate()


def _recents(phone: Phone) -> None:
    """The first press lists the recent apps; the second switches to the previous app."""
    if phone.panel is None or phone.panel.name != panels.RECENTS:
        phone.show_panel(Page(panels.RECENTS))
        return
    running = phone.running()
    phone.close_panel()
    if others := [a for a in running if a is not phone.foreground]:
        phone.launch(others[0].package)


def _keycombination(phone: Phone, words: list[str]) -> None:
    """CTRL+A is always followed by a key that replaces the selection, so the field is cleared at once."""
    if [NAMES.get(_keycode(word)) for word in words] == ["CTRL_LEFT", "A"]:
        phone.clear_text()


_POWER: dict[str, Callable[[Phone], None]] = {
    "POWER": lambda phone: _light(phone, not phone.awake),
    "SLEEP": lambda phone: _light(phone, False),
    "WAKEUP": lambda phone: _light(phone, True),
}
_KEYS: dict[str, Callable[[Phone], None]] = {
    **_POWER,
    **{"HOME": Phone.home, "BACK": Phone.back, "DEL": Phone.delete_char, "APP_SWITCH": _recents},
    **{"ENTER": Phone.enter, "CALL": telephony.answer, "ENDCALL": telephony.hang_up},
    "VOLUME_UP": lambda phone: _volume(phone, 1),
    "VOLUME_DOWN": lambda phone: _volume(phone, -1),
    "VOLUME_MUTE": lambda phone: _volume(phone, -VOLUME_TOP),
}
_VERBS: dict[str, Callable[[Phone, list[str]], None]] = {
    **{"tap": _tap, "swipe": _swipe, "draganddrop": _swipe},
    **{"text": _text, "keyevent": _keyevent, "keycombination": _keycombination},
}
COMMANDS: dict[str, Handler] = {"input": run}
