"""Tables of tasks and devices over the run, from tasks.jsonl and fleet.jsonl (formats: docs/viewer.md)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mobilerl.training.run_log import FLEET_FILE, TASKS_FILE
from mobilerl.training.tracking import read_metrics

SOLVED_STREAK = 16
"""Number of consecutive successful trajectories after which a task counts as solved."""
MAX_COLUMNS = 240
"""Maximum number of columns of the device table; if a run has more iterations, a column covers several."""
LETTERS = {"leased": "l", "ready": "i", "refreshing": "f", "starting": "s", "quarantined": "q"}


def task_table(run: Path) -> list[dict[str, Any]]:
    """Table of tasks, {key, state, since, changes, played} each; [] without tasks.jsonl.

    state: active, solved, cooling, removed or set_aside. since: the iteration in which the state began. changes:
    [iteration, state] of the curriculum. played: [iteration, trajectories, successes]. Both are oldest first.
    """
    changes: dict[str, list[list[Any]]] = {}
    played: dict[str, list[list[int]]] = {}
    path = run / TASKS_FILE
    rows = read_metrics(path)
    try:
        for row in rows:
            for key, state in row["states"].items():
                changes.setdefault(key, []).append([row["iteration"], state])
            for key, (trajectories, successes) in row["played"].items():
                played.setdefault(key, []).append([row["iteration"], trajectories, successes])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"{path}: not in the format of docs/viewer.md: {error!r}") from error
    return [_task(key, changes.get(key, []), played.get(key, [])) for key in sorted({*changes, *played})]


def _task(key: str, changes: list[list[Any]], played: list[list[int]]) -> dict[str, Any]:
    since, state = changes[-1] if changes else (None, "unknown")
    solved = _solved_since(played)
    if solved is not None and state in ("active", "unknown"):
        state, since = "solved", solved
    return {"key": key, "state": state, "since": since, "changes": changes, "played": played}


def _solved_since(played: Sequence[Sequence[int]]) -> int | None:
    """Iteration in which the current streak of successes began; None if it is shorter than SOLVED_STREAK."""
    streak, since = 0, None
    for iteration, trajectories, successes in reversed(played):
        if successes < trajectories:
            break
        streak, since = streak + trajectories, iteration
    return since if streak >= SOLVED_STREAK else None


def app_columns(run: Path) -> dict[str, Any]:
    """`iteration` and the success rates by app, null where an app had no episode; {} without tasks.jsonl."""
    path = run / TASKS_FILE
    try:
        counted = [(row["iteration"], row["apps"]) for row in read_metrics(path) if "apps" in row]
        rows = [{app: won / tried for app, (tried, won) in apps.items()} for _, apps in counted]
    except (TypeError, ValueError, AttributeError, ZeroDivisionError) as error:
        raise ValueError(f"{path}: not in the format of docs/viewer.md: {error!r}") from error
    return {"iteration": [iteration for iteration, _ in counted], "apps": columns(rows)} if counted else {}


def columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Columns of values by key, null where a row lacks the key. Numbers are rounded to six digits."""
    keys = dict.fromkeys(key for row in rows for key in row)
    values = {key: [row.get(key) for row in rows] for key in keys}
    return {k: [float(f"{v:.6g}") if isinstance(v, float) else v for v in column] for k, column in values.items()}


def device_table(run: Path, index: Mapping[str, Any]) -> dict[str, Any]:
    """Table of devices: {columns, devices}, empty without fleet.jsonl. `columns` are [first, last] iterations. Device:

        {place, device, state, busy, faults, reason, episodes, busy_columns, states, fault_columns}

    episodes: number of its trajectories in `index`. states: one letter per column, for the state that took most of the
    time (l leased, i idle, f refreshing, s starting, q quarantined, "-" absent). busy_columns: percentage per column.
    fault_columns: [column, faults] of columns with faults.
    """
    rows = read_metrics(run / FLEET_FILE)
    width = -(-len(rows) // MAX_COLUMNS) or 1
    columns = [rows[i : i + width] for i in range(0, len(rows), width)]
    counts = Counter(index["devices"][row[7]] for row in index["rows"])
    try:
        places = dict.fromkeys(place for row in rows for place in row["devices"])
        return {
            "columns": [[column[0]["iteration"], column[-1]["iteration"]] for column in columns],
            "devices": [_device(place, columns, counts) for place in places],
        }
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{run / FLEET_FILE}: not in the format of docs/viewer.md: {error!r}") from error


def _device(place: str, columns: Sequence[Sequence[Mapping[str, Any]]], counts: Counter[str]) -> dict[str, Any]:
    last: dict[str, Any] = {"place": place, "device": "", "state": "unknown", "reason": ""}
    busy_columns, states, faults, names = [], [], [], set()
    for number, column in enumerate(columns):
        entries = [row["devices"][place] for row in column if place in row["devices"]]
        shares = _mean([entry["shares"] for entry in entries if entry["shares"]])
        states.append(LETTERS.get(max(shares, key=lambda s: shares[s]), "-") if shares else "-")
        busy_columns.append(round(100 * shares.get("leased", 0.0)))
        if failed := sum(entry["faults"] for entry in entries):
            faults.append([number, failed])
        for entry in entries:
            names.add(entry["device"])
            last |= {k: entry[k] for k in ("device", "state", "reason") if entry.get(k)}
    present = [b for b, s in zip(busy_columns, states, strict=True) if s != "-"]
    return last | {
        "busy": sum(present) / (100 * len(present)) if present else None,
        "faults": sum(n for _, n in faults),
        "episodes": sum(counts[name] for name in names),
        "busy_columns": busy_columns,
        "states": "".join(states),
        "fault_columns": faults,
    }


def _mean(shares: Sequence[Mapping[str, float]]) -> dict[str, float]:
    names = dict.fromkeys(name for share in shares for name in share)
    return {name: sum(share.get(name, 0.0) for share in shares) / len(shares) for name in names}
