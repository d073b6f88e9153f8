r"""Text as bytes, and backslash escapes as `echo`, `printf`, `tr` and `$'...'` interpret them."""

from __future__ import annotations

import re

_LETTERS = dict(zip("abefnrtv\\\"'", "\a\b\x1b\f\n\r\t\v\\\"'", strict=True))
_REST = r"|x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|([abcefnrtv\\\x22']))"
_ECHO = re.compile(r"\\(?:0([0-7]{0,3})" + _REST)
_PRINTF = re.compile(r"\\(?:([0-7]{1,3})" + _REST)


def to_bytes(text: str) -> bytes:
    """Encodes text. Bytes of a file that are not UTF-8 are lone surrogates in text and come out unchanged."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")


def to_text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def unescaped(text: str, echo: bool = False) -> tuple[str, bool]:
    r"""The text with its escapes resolved, and whether it contains `\c`. With `echo`, octal digits follow a 0."""
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
            value = int(hexadecimal, 16) if hexadecimal else int(octal or "0", 8) & 0xFF
            out.append(to_text(bytes([value])))
    return "".join(out) + text[at:], stopped
