"""The environment of these tests in the form that the recipes expect, so that they install nothing."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[2]


def pretend_installed(venv: Path, extras: Iterable[str] = ("core", "local", "local,tracking")) -> Path:
    """Makes a folder to be used as VENV, with the stamps of these extras; returns it."""
    scripts = venv / "bin"
    scripts.mkdir(parents=True)
    for name, words in (("python", ""), ("mobilerl", "-m mobilerl ")):
        (scripts / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {words}"$@"\n')
        (scripts / name).chmod(0o755)
    wanted = hashlib.sha256((ROOT / "pyproject.toml").read_bytes() + (ROOT / "constraints.txt").read_bytes())
    for names in extras:
        (venv / f".mobilerl-{names}").write_text(f"{wanted.hexdigest()}  -\n")
    return venv
