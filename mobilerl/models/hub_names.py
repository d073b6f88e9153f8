"""Names of models on the Hugging Face Hub."""

from __future__ import annotations

import re
from pathlib import Path

_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)
_SNAPSHOT = re.compile(r"models--([^/]+)--([^/]+)/snapshots/")


def is_hub_id(model: str | Path) -> bool:
    """Whether `model` has the form `org/name` and does not begin with an existing folder."""
    return bool(_ID.fullmatch(str(model))) and not Path(str(model).partition("/")[0]).exists()


def hub_id_of(folder: str | Path) -> str | None:
    """`org/name` of a folder in the Hub's cache, which may be gone; None for other folders."""
    cached = _SNAPSHOT.search(f"{Path(folder).resolve().as_posix()}/")
    return f"{cached[1]}/{cached[2]}" if cached else None
