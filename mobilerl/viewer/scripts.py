"""Data scripts, which a page loads on demand."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


def to_json(value: Any) -> str:
    """JSON that is safe inside a script element: it cannot end the element or start a comment."""
    text = json.dumps(value, separators=(",", ":"))  # ASCII only, so U+2028 and the like are escaped too
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def write_script(view: Path, name: str, value: Any) -> None:
    """Writes `view/<name>.js`, which calls `receive(name, value)`, since a page opened from disk may load scripts but
    not fetch files."""
    write_file(view / f"{name}.js", f"receive({to_json(name)},{to_json(value)});\n")


def write_file(path: Path, text: str) -> None:
    """Replaces the file atomically, without syncing it to disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8")
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
