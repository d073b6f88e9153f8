r"""Backslash escapes, as `echo`, `printf`, `tr` and `$'...'` know them."""

from __future__ import annotations

import re

_LETTERS = dict(zip("abefnrtv\\\"'", "\a\b\x1b\f\n\r\t\v\\\"'", strict=True))
_REST = r"|x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|([abcefnrtv\\\x22']))"
_ECHO = re.compile(r"\\(?:0([0-7]{0,3})" + _REST)
_PRINTF = re.compile(r"\\(?:([0-7]{1,3})" + _REST)


def _byte(value: int) -> str:
    """A byte as text carries it."""
    value &= 0xFF
    return chr(value) if value < 0x80 else chr(0xDC00 + value)


def unescaped(text: str, echo: bool = False) -> tuple[str, bool]:
    r"""The text with its escapes resolved, and whether `\c` was among them. `echo` wants a 0 before octal digits."""
    out, at, stopped = [], 0, False
    for found in (_ECHO if echo else _PRINTF).finditer(text) if "\\" in text else ():
        out.append(text[at : found.start()])
        at = found.end()
        octal, hexadecimal, unicode, letter = found.groups()
        if letter == "c":
            stopped = True
        elif letter:
            out.append(found[0] if echo and letter in "\"'" else _LETTERS[letter])
        elif unicode:
            out.append(chr(int(unicode, 16)))
        else:
            out.append(_byte(int(hexadecimal, 16) if hexadecimal else int(octal or "0", 8)))
    return "".join(out) + text[at:], stopped


def echoed(words: list[str]) -> str:
    """What `echo` prints. As in mksh, escapes are resolved unless `-E` is given."""
    newline, escapes, at = True, True, 0
    while at < len(words) and re.fullmatch("-[neE]+", words[at]):
        newline = newline and "n" not in words[at]
        escapes = {"e": True, "E": False}.get(words[at].replace("n", "")[-1:], escapes)
        at += 1
    text, stopped = " ".join(words[at:]), False
    if escapes:
        text, stopped = unescaped(text, echo=True)
    return text + "\n" if newline and not stopped else text
