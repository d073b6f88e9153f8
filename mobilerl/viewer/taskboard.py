"""The task board: what the curriculum made of every task, and how its episodes went."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mobilerl.train.boards import TASKS_FILE
from mobilerl.train.tracking import read_metrics

SOLVED_STREAK = 16
"""So many trajectories in a row without a failure make a task solved."""


def task_board(run: Path, index: Mapping[str, Any]) -> dict[str, Any]:
    """{tasks: [{key, state, since, changes, played}], missing: what the run did not note, in words}.

    `state` is active, solved, cooling, removed, set_aside or, for a run that did not note it, unknown. `since` is the
    iteration in which it began, null when unknown. `changes` are [iteration, state] of the curriculum, `played`
    [iteration, trajectories, successes], both oldest first.
    """
    rows = read_metrics(run / TASKS_FILE)
    if rows:
        return {"tasks": _noted(rows, run / TASKS_FILE), "missing": []}
    states, iteration, keys = _checkpoint_states(run)
    missing = [f"The run has no {TASKS_FILE}: this board is put together from the trajectories that were kept."]
    if states:
        missing.append(f"States are those of the checkpoint of iteration {iteration}; since when is not known.")
    else:
        missing.append("Which tasks were cooling or removed is not known.")
    played = _played(index, keys)
    tasks = [_task(key, [], played.get(key, []), states.get(key, "unknown")) for key in sorted({*played, *states})]
    return {"tasks": tasks, "missing": missing}


def _noted(rows: Sequence[Mapping[str, Any]], path: Path) -> list[dict[str, Any]]:
    changes: dict[str, list[list[Any]]] = {}
    played: dict[str, list[list[int]]] = {}
    try:
        for row in rows:
            for key, state in row["states"].items():
                changes.setdefault(key, []).append([row["iteration"], state])
            for key, (trajectories, successes) in row["played"].items():
                played.setdefault(key, []).append([row["iteration"], trajectories, successes])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"{path}: not as mobilerl.train.boards writes it: {error!r}") from error
    return [_task(key, changes.get(key, []), played.get(key, [])) for key in sorted({*changes, *played})]


def _task(key: str, changes: list[list[Any]], played: list[list[int]], state: str = "unknown") -> dict[str, Any]:
    since = None
    if changes:
        since, state = changes[-1]
    solved = _solved_since(played)
    if solved is not None and state in ("active", "unknown"):
        state, since = "solved", solved
    return {"key": key, "state": state, "since": since, "changes": changes, "played": played}


def _solved_since(played: Sequence[Sequence[int]]) -> int | None:
    """Where the unbroken row of successes began that lasts until now; None when it is shorter than SOLVED_STREAK."""
    streak, since = 0, None
    for iteration, trajectories, successes in reversed(played):
        if successes < trajectories:
            break
        streak, since = streak + trajectories, iteration
    return since if streak >= SOLVED_STREAK else None


# --- runs without tasks.jsonl --------------------------------------------------------------------------------------


def _checkpoint_states(run: Path) -> tuple[dict[str, str], int | None, set[str]]:
    """From the newest checkpoint's failure curriculum, if there is one: states by key, its iteration, and the keys."""
    for path in sorted((run / "checkpoints").glob("iter-*/state.json"), reverse=True):
        try:
            state = json.loads(path.read_bytes())
            tasks = state["sampler"]["curriculum"]["tasks"]
            states = {
                key: "removed" if h["removed"] else "cooling" if h["cooldown_left"] else "active"
                for key, h in tasks.items()
            }
            return states, state["iteration"], set(states)
        except (ValueError, KeyError, TypeError, AttributeError):
            continue  # another curriculum's, or a checkpoint that is being written
    return {}, None, set()


def _played(index: Mapping[str, Any], keys: set[str]) -> dict[str, list[list[int]]]:
    """Of the stored trajectories of training, by task id, or by template where the curriculum's keys are templates."""
    tasks, sources = index["tasks"], index["sources"]
    by_template = any(task["template"] in keys for task in tasks)
    counts: dict[str, dict[int, list[int]]] = {}
    for source, _, task, outcome, *_ in index["rows"]:
        iteration = sources[source]["number"]
        if iteration is None or outcome == "infra_error":
            continue
        key = tasks[task]["template" if by_template else "id"]
        count = counts.setdefault(key, {}).setdefault(iteration, [0, 0])
        count[0] += 1
        count[1] += outcome == "success"
    return {key: [[i, *counted[i]] for i in sorted(counted)] for key, counted in counts.items()}
