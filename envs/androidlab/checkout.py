"""A checkout of AndroidLab: the tasks of its YAML files and the lengths of its human demonstrations.

No code of the checkout is run here.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mobilerl.envs.androidlab.tasks import LabTask, read_file, read_packages
from mobilerl.envs.commit import commit_of

TASKS = 138
"""Number of tasks of the published benchmark."""
REPOSITORY = "https://github.com/THUDM/Android-Lab"
CONFIG = Path("evaluation/config")
LENGTHS = "ground_truth_length.json"


class CheckoutError(ValueError):
    """The checkout cannot be used. The message is one line and says what to do."""


@dataclass(frozen=True, slots=True)
class Checkout:
    path: Path
    commit: str
    """As `commit_of` tells it."""
    tasks: tuple[LabTask, ...]
    human_lengths: dict[str, float]
    """Number of steps in the human demonstration, by task id."""
    packages: dict[str, str]
    """AndroidLab's app names -> packages, including those of other benchmarks."""

    @property
    def apps(self) -> dict[str, str]:
        """Names of the tasks' apps -> packages."""
        return {task.app: task.package for task in self.tasks}

    def select_tasks(self, ids: Sequence[str] = (), apps: Sequence[str] = (), kind: str = "") -> list[LabTask]:
        """The tasks with these ids, apps and kind; an empty argument selects all. Raises CheckoutError if none
        match."""
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
    """Raises CheckoutError if the folder is not an AndroidLab checkout, or one of its task files is malformed."""
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
    return Checkout(path, commit_of(path), tuple(tasks.values()), _read_lengths(path), packages)


def _read_lengths(path: Path) -> dict[str, float]:
    file = next(iter(sorted((path / "evaluation").rglob(LENGTHS))), None)
    if file is None:
        raise CheckoutError(f"{path} has no {LENGTHS} under evaluation/, which RRR needs; check it out completely")
    lengths = json.loads(file.read_bytes())
    return {name: float(length) for name, length in lengths.items() if type(length) in (int, float) and length > 0}


def _check_known(what: str, names: Sequence[str], known: Sequence[str]) -> None:
    if unknown := next((name for name in names if name not in known), None):
        near = ", ".join(sorted(known)) if len(known) <= 20 else "--list shows them all"
        raise CheckoutError(f"the checkout has no {what} {unknown!r}; {near}")
