"""Tasks of AndroidLab's YAML files. What cannot be used is skipped, with a reason of one line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envs.androidlab.packages import FILE, find_package
from envs.androidlab.query import device_line
from envs.base import Task

SUITE = "androidlab"
OPERATION, QUERY = "operation", "query_detect"

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_PACKAGE = re.compile(r"[A-Za-z]\w*(\.[A-Za-z]\w*)+")
_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


class _Unusable(ValueError):
    """Why a task or a file of tasks is skipped."""


@dataclass(frozen=True, slots=True)
class LabTask:
    """One task. `module` is what holds its judge; `query` is its `adb_query`, "" where it has none."""

    id: str
    app: str
    package: str
    goal: str
    kind: str
    """`query_detect`, or `operation` whatever else the task file says (AndroidLab's map_14 has `operations`)."""
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
class Skipped:
    """A task that cannot be used. `id` is its task_id, or where in which file it stands when it has none."""

    id: str
    app: str
    reason: str


def read_file(file: Path, name: str, packages: Mapping[str, str]) -> Iterator[LabTask | Skipped]:
    """The tasks of one file. `name` is the file's in reasons, `packages` the table of `read_packages`."""
    app = ""
    try:
        data = _load(file)
        app = _text(data, "APP")
        package = _package(data, app, packages)
        entries = data.get("tasks")
        if not isinstance(entries, list) or not entries:
            raise _Unusable("field tasks must be a list of tasks")
    except _Unusable as error:
        yield Skipped(name, app, str(error))
        return
    for number, entry in enumerate(entries, start=1):
        task_id = f"{name}, task number {number}"
        try:
            if not isinstance(entry, dict):
                raise _Unusable("it must have fields such as task_id and task")
            task_id = _text(entry, "task_id", _ID)
            yield _read_task(entry, task_id, app, package)
        except _Unusable as error:
            yield Skipped(task_id, app, str(error))


def _load(file: Path) -> dict[Any, Any]:
    import yaml

    try:
        data = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise _Unusable(f"it is not valid YAML: {' '.join(str(error).split())}") from None
    if not isinstance(data, dict):
        raise _Unusable("there must be APP, package and tasks at its top level")
    return data


def _package(data: dict[Any, Any], app: str, packages: Mapping[str, str]) -> str:
    """AndroidLab starts what its table names nearest to APP, and does not look at `package`."""
    if not packages:
        return _text(data, "package", _PACKAGE)
    package = find_package(app, packages)
    if not _PACKAGE.fullmatch(package):
        raise _Unusable(f"APP is {app!r}, whose package in {FILE} is {package!r}; it must be a package name")
    return package


def _read_task(entry: dict[Any, Any], task_id: str, app: str, package: str) -> LabTask:
    # AndroidLab plays a task of any metric_type, and looks for the module under evaluation.tasks, whatever stands
    # before its last name.
    kind = QUERY if entry.get("metric_type") == QUERY else OPERATION
    module = "evaluation.tasks." + _text(entry, "metric_func", _DOTTED).rpartition(".")[2]
    query = "" if entry.get("adb_query") is None else _text(entry, "adb_query")
    if query:
        try:
            device_line(query)
        except ValueError as error:
            raise _Unusable(f"field adb_query {error} (given: {query!r})") from None
    return LabTask(task_id, app, package, _text(entry, "task"), kind, module, query)


def _text(data: dict[Any, Any], field: str, form: re.Pattern[str] | None = None) -> str:
    if field not in data:
        raise _Unusable(f"field {field} is missing")
    value = data[field]
    if not isinstance(value, str) or not value.strip() or (form and not form.fullmatch(value.strip())):
        raise _Unusable(f"field {field} is {value!r}; it must be {_WANTED.get(form, 'a text')}")
    return value.strip()


_WANTED = {
    _ID: "a name of letters, digits, `_`, `-` and `.`",
    _PACKAGE: "a package name such as com.android.settings",
    _DOTTED: "a module's name such as evaluation.tasks.setting",
}
