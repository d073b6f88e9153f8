"""The checkpoint folders of a warm-up's run directory: what was left half-written, and `final/`."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from mobilerl.atomic_files import put_folder, remove_leftovers, sync_folder

FOLDERS = ("init", "recitals", "lessons", "stage1", "stage2-round*", "final")
"""Each is made as `.NAME.tmp`, where ranks train with the help of `.NAME.job`, and then renamed."""


def remove_unfinished(run_dir: Path, *folders: Path) -> None:
    """What a killed process left half-written: checkpoints, jobs of ranks, and files here and in `folders`."""
    for name in FOLDERS:
        for rest in (*run_dir.glob(f".{name}.tmp"), *run_dir.glob(f".{name}.job")):
            shutil.rmtree(rest, ignore_errors=True)
    for folder in (run_dir, *folders):
        remove_leftovers(folder)


def put_final(checkpoint: Path, run_dir: Path, leave_out: Sequence[str] = ()) -> Path:
    """Copies a checkpoint, but its files of the names `leave_out`, to `final/`; returns that."""
    final, temporary = run_dir / "final", run_dir / ".final.tmp"
    shutil.rmtree(temporary, ignore_errors=True)
    shutil.copytree(checkpoint, temporary, ignore=shutil.ignore_patterns(*leave_out))
    sync_folder(temporary)  # before the old one is gone
    shutil.rmtree(final, ignore_errors=True)
    put_folder(temporary, final)
    return final
