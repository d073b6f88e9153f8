"""Reads text files that people write, with any editor of any system."""

from __future__ import annotations

import codecs
from pathlib import Path

UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def read_text(path: Path) -> str:
    """The text without a byte order mark: UTF-8, or UTF-16 if it has the mark of that.

    Raises OSError, or UnicodeDecodeError (a ValueError) for other encodings.
    """
    content = path.read_bytes()
    return content.decode("utf-16" if content.startswith(UTF_16) else "utf-8-sig")
