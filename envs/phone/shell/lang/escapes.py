"""`echo` with its backslash escapes."""

from __future__ import annotations

import re

_ESCAPE = re.compile(r"\\(?:0([0-7]{0,3})|x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|([abcefnrtv\\]))")
LETTERS = {"a": "\a", "b": "\b", "e": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\\": "\\"}


def byte(value: int) -> str:
    """A byte as text carries it."""
    value &= 0xFF
    return chr(value) if value < 0x80 else chr(0xDC00 + value)


def unescaped(text: str) -> tuple[str, bool]:
    r"""The text with its escapes resolved, and whether `\c` was among them."""
    if "\\" not in text:
        return text, False
    out, at, stopped = [], 0, False
    for found in _ESCAPE.finditer(text):
        out.append(text[at : found.start()])
        at = found.end()
        if found[4] == "c":
            stopped = True
        elif found[4]:
            out.append(LETTERS[found[4]])
        elif found[3]:
            out.append(chr(int(found[3], 16)))
        else:
            out.append(byte(int(found[2], 16) if found[2] else int(found[1] or "0", 8)))
    return "".join(out) + text[at:], stopped


def echoed(words: list[str]) -> str:
    """What `echo` prints. As in mksh, escapes are resolved unless `-E` is given."""
    newline, escapes, at = True, True, 0
    while at < len(words) and re.fullmatch("-[neE]+", words[at]):
        for letter in words[at][1:]:
            if letter == "n":
                newline = False
            else:
                escapes = letter == "e"
        at += 1
    text, stopped = unescaped(" ".join(words[at:])) if escapes else (" ".join(words[at:]), False)
    return text + "\n" if newline and not stopped else text
