"""File names that fit a pattern."""

from __future__ import annotations

import re
from collections.abc import Callable

from envs.phone.shell.files import normal
from envs.phone.shell.regex import glob

Folders = dict[str, list[str]]
"""The names in every folder of the phone."""
_UNQUOTED = re.compile(r"(?<!\\)(?:\\\\)*[*?\[]")


def names(folders: Folders, cwd: str, pattern: str, spend: Callable[[int], None]) -> list[str]:
    """Sorted; [] when none fits. A leading dot must be matched by a dot."""
    found = ["/"] if pattern.startswith("/") else [""]
    parts = [part for part in pattern.split("/")]
    for i, part in enumerate(parts):
        if part == "" and i < len(parts) - 1:
            continue
        found = [name for base in found for name in _in(folders, cwd, base, part, i == len(parts) - 1, spend)]
    return sorted(found)


def _in(folders: Folders, cwd: str, base: str, part: str, last: bool, spend: Callable[[int], None]) -> list[str]:
    folder = normal(base if base.startswith("/") else f"{cwd}/{base}")
    spend(1)
    end = "" if last else "/"
    if part == "":
        return [base] if folder in folders else []
    if not _UNQUOTED.search(part):
        name = re.sub(r"\\(.)", r"\1", part, flags=re.DOTALL)
        path = normal(f"{folder}/{name}")
        # A folder on the way may be one that only exists as part of another name of a folder, such as /storage.
        exists = not last or path in folders or path.rsplit("/", 1)[1] in folders.get(folder, ())
        return [base + name + end] if exists else []
    matcher = glob(part)
    inside = folders.get(folder, [])
    spend(len(inside) >> 3)
    return [
        base + name + end
        for name in inside
        if (part.startswith((".", "\\.")) or not name.startswith("."))
        and matcher.full(name, spend)
        and (last or normal(f"{folder}/{name}") in folders)
    ]
