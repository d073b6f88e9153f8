"""Data as scripts. A page opened from disk may load scripts but may not fetch files, so every piece of data that is
loaded when it is needed is a script of one call, `receive("data/NAME", VALUE)`, in `view/data/NAME.js`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


def to_json(value: Any) -> str:
    """JSON that can stand inside a script element: no character of it can end the element or start a comment."""
    text = json.dumps(value, separators=(",", ":"))  # ASCII only: U+2028 and its like are escaped too
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def write_script(view: Path, name: str, value: Any) -> None:
    """Writes `view/<name>.js`; `name` is what the page asks for."""
    write_file(view / f"{name}.js", f"receive({to_json(name)},{to_json(value)});\n")


def write_file(path: Path, text: str) -> None:
    """As a whole, but without waiting for the disk: what a power cut loses is built again."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8")
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
