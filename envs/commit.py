"""The commit of a checkout of another project."""

from __future__ import annotations

import subprocess
from pathlib import Path


def commit_of(path: Path) -> str:
    """Commit of the checkout, with `+changes` if tracked files differ from it; `unknown` if git does not tell."""

    def git(*words: str) -> str:
        command = ["git", "-c", "core.fsmonitor=false", "-C", str(path), *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.strip()

    try:
        if Path(git("rev-parse", "--show-toplevel")).resolve() != path:
            return "unknown"  # a copy without its history inside another repository
        commit = git("rev-parse", "HEAD")
        return commit + ("+changes" if git("status", "--porcelain", "--untracked-files=no", ".") else "")
    except (OSError, subprocess.SubprocessError):
        return "unknown"
