"""A checkout of AndroidLab: the tasks of its YAML files and the lengths of its human demonstrations.

Nothing of it is run here. Every error is one line that names file, task and field.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envs.androidlab.query import device_line
from envs.base import Task

SUITE = "androidlab"
TASKS = 138
"""Tasks of the published benchmark."""
REPOSITORY = "https://github.com/THUDM/Android-Lab"
CONFIG = Path("evaluation/config")
LENGTHS = "ground_truth_length.json"
OPERATION, QUERY = "operation", "query_detect"

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_PACKAGE = re.compile(r"[A-Za-z]\w*(\.[A-Za-z]\w*)+")
_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


class CheckoutError(ValueError):
    """A checkout that cannot be used; the message is one line with the cure."""


@dataclass(frozen=True, slots=True)
class LabTask:
    """One task. `module` is what holds its judge; `query` is its `adb_query`, "" where it has none."""

    id: str
    app: str
    package: str
    goal: str
    kind: str
    """`operation` or `query_detect`."""
    module: str
    query: str = ""

    @property
    def instruction(self) -> str:
        """As AndroidLab words it."""
        return f"You should use {self.app} to complete the following task: {self.goal}"

    def task(self, rounds: int) -> Task:
        """The task as an episode's, with a budget of `rounds` steps."""
        params = {"package": self.package, "kind": self.kind, "query": self.query}
        return Task(self.id, self.id, self.instruction, params, 0, rounds, SUITE, self.app)


@dataclass(frozen=True, slots=True)
class Checkout:
    path: Path
    commit: str
    """Of the checkout, with `+changes` where tracked files differ from it; `unknown` where git does not say."""
    tasks: tuple[LabTask, ...]
    human_lengths: dict[str, float]
    """Steps of the human demonstration by task id."""

    @property
    def apps(self) -> dict[str, str]:
        """Name of each app -> package."""
        return {task.app: task.package for task in self.tasks}

    def chosen(self, ids: Sequence[str] = (), apps: Sequence[str] = (), kind: str = "") -> list[LabTask]:
        """The tasks with these ids, of these apps and of this kind; everything where nothing is named."""
        _refuse_unknown("task", ids, [t.id for t in self.tasks])
        _refuse_unknown("app", apps, list(self.apps))
        chosen = [
            t for t in self.tasks
            if (not ids or t.id in ids) and (not apps or t.app in apps) and (not kind or t.kind == kind)
        ]  # fmt: skip
        if not chosen:
            raise CheckoutError("no task is left: no task has all that --task, --app and --kind ask for")
        return chosen


def read_checkout(path: Path | str) -> Checkout:
    """Raises CheckoutError for a folder that is no AndroidLab checkout, and for a task file that cannot be used."""
    path = Path(path).resolve()
    if not path.is_dir():
        raise CheckoutError(f"there is no folder {path}; get AndroidLab with `git clone {REPOSITORY}`")
    files = sorted((path / CONFIG).glob("*.yaml"))
    if not files:
        raise CheckoutError(
            f"{path} is no AndroidLab checkout: it has no {CONFIG}/*.yaml; get it with `git clone {REPOSITORY}`"
        )
    tasks: dict[str, LabTask] = {}
    for file in files:
        for task in _read_file(file, str(file.relative_to(path))):
            if task.id in tasks:
                raise CheckoutError(f"{file.relative_to(path)}: task {task.id}: the task_id is there twice; keep one")
            tasks[task.id] = task
    return Checkout(path, _commit(path), tuple(tasks.values()), _read_lengths(path))


# --- task files --------------------------------------------------------------------------------------------------


def _read_file(file: Path, name: str) -> list[LabTask]:
    try:
        import yaml
    except ImportError:
        raise CheckoutError("AndroidLab's task files need PyYAML: pip install 'mobilerl[androidlab]'") from None
    try:
        data = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise CheckoutError(f"{name} is not valid YAML: {' '.join(str(error).split())}") from None
    if not isinstance(data, dict):
        raise CheckoutError(f"{name}: there must be APP, package and tasks at its top level")
    app = _text(data, "APP", name)
    package = _text(data, "package", name, _PACKAGE)
    entries = data.get("tasks")
    if not isinstance(entries, list) or not entries:
        raise CheckoutError(f"{name}: field tasks must be a list of tasks")
    return [_read_task(entry, i, app, package, name) for i, entry in enumerate(entries, start=1)]


def _read_task(entry: Any, number: int, app: str, package: str, file: str) -> LabTask:
    if not isinstance(entry, dict):
        raise CheckoutError(f"{file}: task number {number} must have fields such as task_id and task")
    task_id = _text(entry, "task_id", f"{file}: task number {number}", _ID)
    where = f"{file}: task {task_id}"
    kind = _text(entry, "metric_type", where)
    if kind not in (OPERATION, QUERY):
        raise CheckoutError(f"{where}: field metric_type is {kind!r}; it must be {OPERATION} or {QUERY}")
    # AndroidLab looks for the module under evaluation.tasks, whatever stands before its last name.
    module = "evaluation.tasks." + _text(entry, "metric_func", where, _DOTTED).rpartition(".")[2]
    query = "" if entry.get("adb_query") is None else _text(entry, "adb_query", where)
    if query:
        try:
            device_line(query)
        except ValueError as error:
            raise CheckoutError(f"{where}: field adb_query {error} (given: {query!r})") from None
    return LabTask(task_id, app, package, _text(entry, "task", where), kind, module, query)


def _text(data: dict[Any, Any], field: str, where: str, form: re.Pattern[str] | None = None) -> str:
    if field not in data:
        raise CheckoutError(f"{where}: field {field} is missing")
    value = data[field]
    if not isinstance(value, str) or not value.strip() or (form and not form.fullmatch(value.strip())):
        raise CheckoutError(f"{where}: field {field} is {value!r}; it must be {_WANTED.get(form, 'a text')}")
    return value.strip()


_WANTED = {
    _ID: "a name of letters, digits, `_`, `-` and `.`",
    _PACKAGE: "a package name such as com.android.settings",
    _DOTTED: "a module's name such as evaluation.tasks.setting",
}


# --- what stands beside them -------------------------------------------------------------------------------------


def _read_lengths(path: Path) -> dict[str, float]:
    file = next(iter(sorted((path / "evaluation").rglob(LENGTHS))), None)
    if file is None:
        raise CheckoutError(
            f"{path} has no {LENGTHS} under evaluation/, which RRR needs; check out the repository whole"
        )
    name = file.relative_to(path)
    try:
        lengths = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise CheckoutError(f"{name} is not valid JSON: {error}") from None
    if not isinstance(lengths, dict):
        raise CheckoutError(f"{name}: it must map task ids to numbers of steps")
    for task_id, length in lengths.items():
        if isinstance(length, bool) or not isinstance(length, int | float) or length <= 0:
            raise CheckoutError(f"{name}: task {task_id}: the length is {length!r}; it must be a number above 0")
    return {task_id: float(length) for task_id, length in lengths.items()}


def _commit(path: Path) -> str:
    def git(*words: str) -> str:
        command = ["git", "-c", "core.fsmonitor=false", "-C", str(path), *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.strip()

    try:
        if Path(git("rev-parse", "--show-toplevel")).resolve() != path:
            return "unknown"  # a copy without a history, inside a repository of something else
        commit = git("rev-parse", "HEAD")
        return commit + ("+changes" if git("status", "--porcelain", "--untracked-files=no", ".") else "")
    except (OSError, subprocess.SubprocessError):
        return "unknown"


def _refuse_unknown(what: str, names: Sequence[str], known: Sequence[str]) -> None:
    if unknown := next((name for name in names if name not in known), None):
        near = ", ".join(sorted(known)) if len(known) <= 20 else "--list shows them all"
        raise CheckoutError(f"the checkout has no {what} {unknown!r}; {near}")
