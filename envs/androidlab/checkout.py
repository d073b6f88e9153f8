"""A checkout of AndroidLab: the tasks of its YAML files and the lengths of its human demonstrations.

Nothing of it is run here.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from envs.androidlab.tasks import LabTask, read_file, read_packages

TASKS = 138
"""Tasks of the published benchmark."""
REPOSITORY = "https://github.com/THUDM/Android-Lab"
CONFIG = Path("evaluation/config")
LENGTHS = "ground_truth_length.json"


class CheckoutError(ValueError):
    """A checkout that cannot be used. The message is one line and says what to do."""


@dataclass(frozen=True, slots=True)
class Checkout:
    path: Path
    commit: str
    """Of the checkout, with `+changes` where tracked files differ from it; `unknown` where git does not say."""
    tasks: tuple[LabTask, ...]
    human_lengths: dict[str, float]
    """Steps of the human demonstration by task id."""
    packages: dict[str, str]
    """AndroidLab's names of apps -> packages, those of other benchmarks among them."""

    @property
    def apps(self) -> dict[str, str]:
        """Name of each app of the tasks -> package."""
        return {task.app: task.package for task in self.tasks}

    def chosen(self, ids: Sequence[str] = (), apps: Sequence[str] = (), kind: str = "") -> list[LabTask]:
        """The tasks with these ids, of these apps and of this kind; everything where nothing is named."""
        _check_known("task", ids, [t.id for t in self.tasks])
        _check_known("app", apps, list(self.apps))
        tasks = [
            t
            for t in self.tasks
            if (not ids or t.id in ids) and (not apps or t.app in apps) and (not kind or t.kind == kind)
        ]
        if not tasks:
            raise CheckoutError("no task matches --task, --app and --kind")
        return tasks


def read_checkout(path: Path | str) -> Checkout:
    """Raises CheckoutError for a folder that is no AndroidLab checkout, and for a task that is none of AndroidLab."""
    try:
        import yaml  # noqa: F401
    except ImportError:
        raise CheckoutError("AndroidLab's task files need PyYAML: pip install 'mobilerl[androidlab]'") from None
    path = Path(path).resolve()
    if not path.is_dir():
        raise CheckoutError(f"there is no folder {path}; get AndroidLab with `git clone {REPOSITORY}`")
    files = sorted((path / CONFIG).glob("*.yaml"))
    if not files:
        raise CheckoutError(f"{path} is no AndroidLab checkout: it has no {CONFIG}/*.yaml; `git clone {REPOSITORY}`")
    packages = read_packages(path)
    tasks: dict[str, LabTask] = {}
    for file in files:
        try:
            tasks |= {task.id: task for task in read_file(file, packages)}
        except ValueError as error:
            raise CheckoutError(f"{file.relative_to(path)}: {error}; check out {REPOSITORY} again") from None
    return Checkout(path, _commit(path), tuple(tasks.values()), _read_lengths(path), packages)


def _read_lengths(path: Path) -> dict[str, float]:
    file = next(iter(sorted((path / "evaluation").rglob(LENGTHS))), None)
    if file is None:
        raise CheckoutError(f"{path} has no {LENGTHS} under evaluation/, which RRR needs; check it out completely")
    lengths = json.loads(file.read_text(encoding="utf-8"))
    return {name: float(length) for name, length in lengths.items() if type(length) in (int, float) and length > 0}


def _commit(path: Path) -> str:
    def git(*words: str) -> str:
        command = ["git", "-c", "core.fsmonitor=false", "-C", str(path), *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.strip()

    try:
        if Path(git("rev-parse", "--show-toplevel")).resolve() != path:
            return "unknown"  # a copy without a history, inside another repository
        commit = git("rev-parse", "HEAD")
        return commit + ("+changes" if git("status", "--porcelain", "--untracked-files=no", ".") else "")
    except (OSError, subprocess.SubprocessError):
        return "unknown"


def _check_known(what: str, names: Sequence[str], known: Sequence[str]) -> None:
    if unknown := next((name for name in names if name not in known), None):
        near = ", ".join(sorted(known)) if len(known) <= 20 else "--list shows them all"
        raise CheckoutError(f"the checkout has no {what} {unknown!r}; {near}")
