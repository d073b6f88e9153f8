"""Conversion of text to bytes, and the backslash escapes of `echo`."""

from __future__ import annotations

import re

_LETTERS = dict(zip("abefnrtv\\", "\a\b\x1b\f\n\r\t\v\\", strict=True))
_ESCAPE = re.compile(r"\\([abefnrtv\\])")


def to_bytes(text: str) -> bytes:
    """Encodes text. Bytes of a file that are not UTF-8 are lone surrogates in the text, and are restored unchanged."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")


def to_text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def unescape(text: str) -> str:
    return _ESCAPE.sub(lambda found: _LETTERS[found[1]], text)
