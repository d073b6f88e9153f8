"""The environment of these tests in the form that the recipes expect, so that they install nothing."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable
from pathlib import Path

import prepared

ROOT = Path(__file__).parents[2]


def pretend_installed(
    venv: Path, extras: Iterable[str] = ("core", "local", "local,tracking"), forks: bool = True
) -> Path:
    """Makes a folder to be used as VENV, with the stamps of these extras; returns it. Its `mobilerl` runs in a fork of
    an imported process, or with `forks` false as it would for a user."""
    scripts = venv / "bin"
    scripts.mkdir(parents=True)
    for name, words in (("python", ""), ("mobilerl", "-m mobilerl ")):
        (scripts / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {words}"$@"\n')
        (scripts / name).chmod(0o755)
    if forks:
        (scripts / "mobilerl").unlink()
        (scripts / "mobilerl").symlink_to(prepared.program())
    files = ("pyproject.toml", "constraints.txt", "recipes/cluster/constraints.txt")
    wanted = hashlib.sha256(b"".join((ROOT / name).read_bytes() for name in files))
    for names in extras:
        (venv / f".mobilerl-{names}").write_text(f"{wanted.hexdigest()}  -\n")
    return venv
