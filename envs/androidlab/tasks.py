"""The tasks in AndroidLab's YAML files."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mobilerl.envs.base import Task

SUITE = "androidlab"
OPERATION, QUERY = "operation", "query_detect"
PACKAGES, PACKAGES_TABLE = Path("templates/packages.py"), "apps_dict"
_OPERATORS = "|&;<>()"
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_PACKAGE = re.compile(r"[A-Za-z]\w*(\.[A-Za-z]\w*)+")
_ANY = re.compile(r"(?s).+")
_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


@dataclass(frozen=True, slots=True)
class LabTask:
    """One task. `module` is the module of its judge, and `query` its `adb_query`, or "" if it has none."""

    id: str
    app: str
    package: str
    goal: str
    kind: str
    """`query_detect`, or `operation` for everything else (AndroidLab's map_14 has `operations`)."""
    module: str
    query: str = ""

    @property
    def instruction(self) -> str:
        """The instruction in AndroidLab's wording."""
        return f"You should use {self.app} to complete the following task: {self.goal}"

    def task(self, rounds: int) -> Task:
        """The task as an episode with a budget of `rounds` steps."""
        params = {"package": self.package, "kind": self.kind, "query": self.query}
        return Task(self.id, self.id, self.instruction, params, 0, rounds, SUITE, self.app)


@dataclass(frozen=True, slots=True)
class Skipped:
    """A task that cannot be judged."""

    id: str
    app: str
    reason: str


# --- files -------------------------------------------------------------------------------------------------------


def read_file(file: Path, packages: Mapping[str, str]) -> list[LabTask]:
    """The tasks of one file. `packages` is the table of `read_packages`. Raises ValueError for a malformed file."""
    import yaml

    try:
        data = yaml.safe_load(file.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise ValueError(f"it is not valid YAML: {' '.join(str(error).split())}") from None
    if not isinstance(data, dict) or not isinstance(data.get("tasks"), list):
        raise ValueError("there must be APP, package and a list of tasks at its top level")
    app = _text(data, "APP", _ANY)
    # AndroidLab starts the app whose name in the table is nearest to APP, and ignores `package`.
    package = find_package(app, packages) if packages else _text(data, "package", _PACKAGE)
    return [_read_task(entry, app, package) for entry in data["tasks"]]


def _read_task(entry: dict[Any, Any], app: str, package: str) -> LabTask:
    # AndroidLab runs tasks of any metric_type, and looks up the last part of the module's name under evaluation.tasks.
    task_id = _text(entry, "task_id", _ID)
    kind = QUERY if entry.get("metric_type") == QUERY else OPERATION
    module = "evaluation.tasks." + _text(entry, "metric_func", _DOTTED).rpartition(".")[2]
    query = "" if entry.get("adb_query") is None else _text(entry, "adb_query", _ANY)
    if query:
        try:
            device_line(query)
        except ValueError as error:
            raise ValueError(f"field adb_query of {task_id} {error} (given: {query!r})") from None
    return LabTask(task_id, app, package, _text(entry, "task", _ANY), kind, module, query)


def _text(data: dict[Any, Any], field: str, form: re.Pattern[str]) -> str:
    value = data.get(field)
    if not isinstance(value, str) or not form.fullmatch(value.strip()):
        raise ValueError(f"field {field} is {value!r}; it must be a text like {form.pattern}")
    return value.strip()


# --- names of apps -----------------------------------------------------------------------------------------------


def read_packages(checkout: Path) -> dict[str, str]:
    """App names -> packages, from a checkout's `templates/packages.py`, which is parsed but not run.

    In the order of the table; empty if there is no readable table.
    """
    try:
        tree = ast.parse((checkout / PACKAGES).read_text(encoding="utf-8"))
        assigned = [n for n in tree.body if isinstance(n, ast.Assign) and PACKAGES_TABLE in map(ast.unparse, n.targets)]
        return {str(name): str(package) for name, package in dict(ast.literal_eval(assigned[0].value)).items()}
    except (OSError, SyntaxError, ValueError, TypeError, IndexError):
        return {}


def find_package(name: str, packages: Mapping[str, str]) -> str:
    """The package of the app whose name is nearest to `name` in edit distance, as `bleucoins` is to `bluecoins`."""
    if name in packages:
        return packages[name]
    plain = _plain(name)
    return packages.get(plain) or packages[min(packages, key=lambda known: _edits(plain, _plain(known)))]


def _plain(name: str) -> str:
    return name.replace(" ", "").lower()


def _edits(a: str, b: str) -> int:
    """Levenshtein distance."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, start=1):
        above, row = row, [i]
        for j, y in enumerate(b, start=1):
            row.append(min(above[j] + 1, row[-1] + 1, above[j - 1] + (x != y)))
    return row[-1]


# --- queries -----------------------------------------------------------------------------------------------------


def device_line(query: str) -> str:
    """The command that reaches the device's shell when a host's shell runs an `adb shell ...` line.

    `adb shell 'getprop a.b'` sends `getprop a.b`: the host removes the quotes. What follows a `|` would run on the
    host; here it runs on the device, which has the same `grep`. Raises ValueError for anything but a pipeline.
    """
    lexer = shlex.shlex(query, posix=True, punctuation_chars=_OPERATORS)
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        tokens = list(lexer)
    except ValueError as error:
        raise ValueError(f"is not a shell line ({error})") from None
    if tokens[:2] != ["adb", "shell"] or len(tokens) < 3:
        raise ValueError("must begin with `adb shell `")
    for token in tokens:
        if token and token != "|" and set(token) <= set(_OPERATORS):
            raise ValueError(f"uses `{token}`; only `|` is supported")
    pipe = tokens.index("|") if "|" in tokens else len(tokens)
    filters = [token if token == "|" else shlex.quote(token) for token in tokens[pipe:]]
    return " ".join(tokens[2:pipe] + filters)
