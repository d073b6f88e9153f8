"""Data scripts, which a page loads on demand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mobilerl.system.atomic_files import write_atomic


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
    write_atomic(path, text.encode(), sync=False)
