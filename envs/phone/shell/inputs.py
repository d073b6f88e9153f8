"""`input`: touches, keys and text."""

from __future__ import annotations

from collections.abc import Callable

from envs.phone import panels, telephony
from envs.phone.app import Page
from envs.phone.phone import Phone
from envs.phone.shell.command import Failure, Handler, number
from envs.phone.shell.keycodes import CHARACTERS, KEYCODES, LAST_KEYCODE

USAGE = "Error: Unknown command: {}\nUsage: input [<source>] [-d DISPLAY_ID] <command> [<arg>...]"
SOURCES = {
    "touchscreen",
    "keyboard",
    "touchpad",
    "mouse",
    "stylus",
    "dpad",
    "trackball",
    "touchnavigation",
    "joystick",
    "gamepad",
}
MOVE_AS_SWIPE_MS = 300
VOLUME_TOP = 15


def run(phone: Phone, words: list[str]) -> str:
    if words[:1] and words[0] in SOURCES:
        words = words[1:]
    if words[:1] == ["-d"]:
        words = words[2:]
    if not words:
        raise Failure(USAGE.format(""), 255)
    verbs = {
        "tap": _tap,
        "swipe": _swipe,
        "draganddrop": _swipe,
        "text": _text,
        "keyevent": _keyevent,
        "motionevent": _motion,
        "keycombination": _keycombination,
        "press": _ignore,
        "roll": _ignore,
    }
    verb = verbs.get(words[0])
    if verb is None:
        raise Failure(USAGE.format(words[0]), 255)
    if phone.awake or verb is _keyevent:  # a dark screen takes no touches
        verb(phone, words[1:])
    return ""


# --- touches -------------------------------------------------------------------------------------------------------


def _tap(phone: Phone, words: list[str]) -> None:
    x, y = _numbers(words, "tap", (2,))
    phone.tap(x, y)


def _swipe(phone: Phone, words: list[str]) -> None:
    x, y, x2, y2, *duration = _numbers(words, "swipe", (4, 5))
    phone.swipe(x, y, x2, y2, int(duration[0]) if duration else 300)


def _motion(phone: Phone, words: list[str]) -> None:
    """`motionevent DOWN|MOVE|UP X Y`: what the finger did becomes a tap, a long press or a swipe when it is lifted.

    Seconds pass with inputs only, so a press is long when something like `sleep` came between DOWN and UP.
    """
    if not words or words[0] not in ("DOWN", "MOVE", "UP", "CANCEL"):
        raise Failure("Error: Invalid arguments for command: motionevent", 255)
    if words[0] == "CANCEL":
        phone.finger = None
        return
    x, y = _numbers(words[1:], "motionevent", (2,))
    if words[0] == "DOWN":
        phone.finger = (x, y, phone.inputs)
    elif words[0] == "UP" and phone.finger is not None:
        (x0, y0, since), phone.finger = phone.finger, None
        phone.swipe(x0, y0, x, y, 1000 if phone.inputs > since else MOVE_AS_SWIPE_MS)


def _numbers(words: list[str], command: str, counts: tuple[int, ...]) -> list[float]:
    if len(words) not in counts:
        raise Failure(f"Error: Invalid arguments for command: {command}", 255)
    return [number(w, command) for w in words]


def _ignore(phone: Phone, words: list[str]) -> None:
    """Trackball events: there is no trackball."""


# --- keys ----------------------------------------------------------------------------------------------------------


def _text(phone: Phone, words: list[str]) -> None:
    if not words:
        raise Failure("Error: Invalid arguments for command: text", 255)
    text = words[0]
    if not text.isascii():  # the real command dies on a character that no key produces
        raise Failure("Error: Attempt to get length of null array", 255)
    phone.text(text.replace("%s", " "))


def _keyevent(phone: Phone, words: list[str]) -> None:
    for word in (w for w in words if not w.startswith("--")):
        press(phone, _keycode(word))


def _keycode(word: str) -> int:
    if word.isdecimal() and int(word) <= LAST_KEYCODE:
        return int(word)
    code = KEYCODES.get(word.removeprefix("KEYCODE_"))
    # A key that does nothing on this phone (media, camera, ...) is still a key.
    if code is None and not word.startswith("KEYCODE_"):
        raise Failure(f"Error: Unknown keycode: {word}", 255)
    return code or 0


def press(phone: Phone, code: int) -> None:
    """Presses one key."""
    name = next((n for n, c in KEYCODES.items() if c == code), "")
    if not phone.awake and name not in _POWER:
        return
    if name in _KEYS:
        _KEYS[name](phone)
    elif code in CHARACTERS:
        phone.text(CHARACTERS[code])


def _lit(phone: Phone, on: bool) -> None:
    phone.awake = on
    phone.changed()


def _volume(phone: Phone, change: int) -> None:
    table = phone.settings["system"]
    level = table.get("volume_music", "0")
    table["volume_music"] = str(min(max(0, (int(level) if level.isdecimal() else 0) + change), VOLUME_TOP))
    phone.changed()


def _recents(phone: Phone) -> None:
    """The first press lists the recent apps, a second one goes to the one used before."""
    if phone.panel is None or phone.panel.name != panels.RECENTS:
        phone.show_panel(Page(panels.RECENTS))
        return
    running = phone.running()
    phone.close_panel()
    if others := [a for a in running if a is not phone.foreground]:
        phone.launch(others[0].package)


def _paste(phone: Phone) -> None:
    if phone.clipboard:
        phone.text(phone.clipboard)


def _copy(phone: Phone) -> None:
    page = phone.foreground.page
    if phone.typing:
        phone.clipboard = page.fields.get(page.focus, "")


def _cut(phone: Phone) -> None:
    _copy(phone)
    phone.clear_text()


_POWER: dict[str, Callable[[Phone], None]] = {
    "POWER": lambda phone: _lit(phone, not phone.awake),
    "SLEEP": lambda phone: _lit(phone, False),
    "SOFT_SLEEP": lambda phone: _lit(phone, False),
    "WAKEUP": lambda phone: _lit(phone, True),
}
_KEYS: dict[str, Callable[[Phone], None]] = {
    **_POWER,
    "HOME": Phone.home,
    "BACK": Phone.back,
    "ENTER": Phone.enter,
    "NUMPAD_ENTER": Phone.enter,
    "DPAD_CENTER": Phone.enter,
    "DEL": Phone.delete_char,
    "APP_SWITCH": _recents,
    "NOTIFICATION": lambda phone: phone.show_panel(Page(panels.SHADE)),
    "CALL": telephony.answer,
    "ENDCALL": telephony.hang_up,
    "VOLUME_UP": lambda phone: _volume(phone, 1),
    "VOLUME_DOWN": lambda phone: _volume(phone, -1),
    "VOLUME_MUTE": lambda phone: _volume(phone, -VOLUME_TOP),
    "PASTE": _paste,
    "COPY": _copy,
    "CUT": _cut,
}
_WITH_CTRL: dict[str, Callable[[Phone], None]] = {
    "A": Phone.clear_text,
    "DEL": Phone.clear_text,
    "C": _copy,
    "V": _paste,
    "X": _cut,
}
"""CTRL+A is followed by a key that replaces what it has selected, so the field is emptied at once."""


def _keycombination(phone: Phone, words: list[str]) -> None:
    if words[:1] == ["-t"]:
        words = words[2:]
    names = {c: n for n, c in KEYCODES.items()}
    keys = [names.get(_keycode(w), "") for w in words if not w.startswith("-")]
    if keys[:1] in (["CTRL_LEFT"], ["CTRL_RIGHT"]) and len(keys) == 2 and keys[1] in _WITH_CTRL:
        _WITH_CTRL[keys[1]](phone)


COMMANDS: dict[str, Handler] = {"input": run}
