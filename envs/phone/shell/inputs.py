"""`input`: touches, keys and text."""

from __future__ import annotations

from envs.phone.phone import Phone
from envs.phone.shell.command import Failure, Handler, number

USAGE = "Error: Unknown command: {}\nUsage: input [<source>] [-d DISPLAY_ID] <command> [<arg>...]"

KEYCODES = {"HOME": 3, "BACK": 4, "DPAD_CENTER": 23, "SPACE": 62, "ENTER": 66, "DEL": 67, "NUMPAD_ENTER": 160}
KEYCODES |= {str(d): 7 + d for d in range(10)}
KEYCODES |= {chr(ord("A") + i): 29 + i for i in range(26)}
_CHARACTERS = {7 + d: str(d) for d in range(10)} | {29 + i: chr(ord("a") + i) for i in range(26)} | {62: " "}
LAST_KEYCODE = 316


def run(phone: Phone, words: list[str]) -> str:
    if words[:1] and words[0] in ("touchscreen", "keyboard", "touchpad"):
        words = words[1:]
    if words[:1] == ["-d"]:
        words = words[2:]
    if not words:
        raise Failure(USAGE.format(""), 255)
    verbs = {"tap": _tap, "swipe": _swipe, "draganddrop": _swipe, "text": _text, "keyevent": _keyevent,
             "keycombination": _keycombination, "press": _ignore, "roll": _ignore}  # fmt: skip
    verb = verbs.get(words[0])
    if verb is None:
        raise Failure(USAGE.format(words[0]), 255)
    verb(phone, words[1:])
    return ""


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


def _text(phone: Phone, words: list[str]) -> None:
    if not words:
        raise Failure("Error: Invalid arguments for command: text", 255)
    text = words[0]
    if not text.isascii():  # the real command dies on a character that no key produces
        raise Failure("Error: Attempt to get length of null array", 255)
    phone.text(text.replace("%s", " "))


def _keyevent(phone: Phone, words: list[str]) -> None:
    for word in (w for w in words if not w.startswith("--")):
        _key(phone, _keycode(word))


def _keycode(word: str) -> int:
    if word.isdecimal() and int(word) <= LAST_KEYCODE:
        return int(word)
    code = KEYCODES.get(word.removeprefix("KEYCODE_"))
    # A key that does nothing on this phone (volume, power, ...) is still a key.
    if code is None and not word.startswith("KEYCODE_"):
        raise Failure(f"Error: Unknown keycode: {word}", 255)
    return code or 0


def _key(phone: Phone, code: int) -> None:
    if code == KEYCODES["HOME"]:
        phone.home()
    elif code == KEYCODES["BACK"]:
        phone.back()
    elif code in (KEYCODES["ENTER"], KEYCODES["NUMPAD_ENTER"], KEYCODES["DPAD_CENTER"]):
        phone.enter()
    elif code == KEYCODES["DEL"]:
        phone.delete_char()
    elif code in _CHARACTERS:
        phone.text(_CHARACTERS[code])


def _keycombination(phone: Phone, words: list[str]) -> None:
    codes = [_keycode(w) for w in words if not w.startswith("-")]
    if codes == [113, 29] or codes == [113, 67]:  # CTRL+A is followed by DEL; CTRL+DEL clears in one
        phone.clear_text()


def _ignore(phone: Phone, words: list[str]) -> None:
    """Trackball events: there is no trackball."""


COMMANDS: dict[str, Handler] = {"input": run}
