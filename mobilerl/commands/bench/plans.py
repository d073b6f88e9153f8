"""Baselines, and the arguments that they were taken with."""

from __future__ import annotations

import contextlib
import io
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Plan:
    """A part's baseline, and the words after `mobilerl` that it was taken with."""

    part: str
    baseline: dict[str, Any]
    words: list[str]


def committed() -> Path:
    """The folder of the baselines that come with this release."""
    from benchmarks import compare

    return Path(compare.__file__).parent / "baselines"


def read_plan(folder: Path, part: str) -> Plan:
    """ValueError where there is no baseline, or its command is not one that measures `part`."""
    from benchmarks.compare import load

    file = folder / f"{part}.json"
    if not file.exists():
        raise ValueError(f"there is no baseline {file}; `mobilerl bench {part} --save {file}` takes one")
    baseline = load(file)
    command = baseline.get("command")
    try:
        words = shlex.split(command) if isinstance(command, str) else []
    except ValueError:  # a quotation that does not end
        words = []
    if baseline["part"] != part or words[:3] != ["mobilerl", "bench", part]:
        raise ValueError(f"{file} is not of `mobilerl bench {part}` (part {baseline['part']!r}, command {command!r})")
    _check_words(file, words[1:])
    return Plan(part, baseline, words[1:])


def _check_words(file: Path, words: Sequence[str]) -> None:
    from mobilerl.cli import make_parser

    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            _, unknown = make_parser().parse_known_args(words)
    except SystemExit:
        raise ValueError(f"{file}: its command cannot be used: {' '.join(said.getvalue().split())}") from None
    if unknown:
        raise ValueError(f"{file}: its command cannot be used: {unknown[0]!r} is not known")
