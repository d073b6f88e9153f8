"""The environment of these tests in the form that the recipes expect, so that they install nothing."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable
from pathlib import Path

import prepared

ROOT = Path(__file__).parents[2]


def pretend_installed(
    venv: Path, extras: Iterable[str] = ("core", "local", "local,tracking"), mobilerl: Path | None = None
) -> Path:
    """Makes a folder to be used as VENV, with the stamps of these extras; returns it. `mobilerl`: the program in it,
    `prepared.program()` by default."""
    scripts = venv / "bin"
    scripts.mkdir(parents=True)
    for name, program in (("python", sys.executable), ("mobilerl", mobilerl or prepared.program())):
        (scripts / name).write_text(f'#!/bin/sh\nexec "{program}" "$@"\n')
        (scripts / name).chmod(0o755)
    files = ("pyproject.toml", "constraints.txt", "recipes/cluster/constraints.txt")
    wanted = hashlib.sha256(b"".join((ROOT / name).read_bytes() for name in files))
    for names in extras:
        (venv / f".mobilerl-{names}").write_text(f"{wanted.hexdigest()}  -\n")
    return venv
