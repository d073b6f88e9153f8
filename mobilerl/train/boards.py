"""What a run notes of its tasks and devices, so that `mobilerl view` can show them.

    tasks.jsonl                   per iteration: which tasks changed their state, and how the played ones went
    fleet.jsonl                   per iteration and device: its state, where its time went, its faults
    advantages/iter-000010.json   {trajectory id: advantage of each step}, for the trajectories that are written

The first two are only appended to, one line per iteration; `mobilerl.train.tracking.read_metrics` reads them, a last
line that a crash cut short included.

tasks.jsonl, one line:

    {"iteration": 12, "states": {"ClockAlarm": "cooling"}, "played": {"ClockAlarm": [8, 0], "NotesAdd": [8, 5]}}

`states` holds the tasks whose state (`active`, `cooling`, `removed`, `set_aside`) is another one than after the
iteration before: all of them in the first line. `played` holds trajectories and successes of the iteration. A key is
what the curriculum counts by: a task's id, or its template (`set_aside` once all of its tasks are). A line also has
`"set_aside": {task id: reason}` where tasks were set aside since the line before.

fleet.jsonl, one line:

    {"iteration": 12, "devices": {"3": {"device": "avd-3.1", "state": "ready", "faults": 1,
                                        "shares": {"leased": 0.81, "ready": 0.19}, "reason": "avd-3: black screen"}}}

A key is a place of the pool, whose device may be replaced. `state` is the one at the iteration's end, `shares` how its
time was spent since the line before (they add up to 1; empty when no time passed), `faults` how often it failed since.
`reason`, the last failure's, is there only with faults.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from envs.base import DeviceReport, Task
from mobilerl.atomic_files import write_atomic
from mobilerl.records import Group, Trajectory
from mobilerl.train.tracking import read_metrics

TASKS_FILE, FLEET_FILE, ADVANTAGES = "tasks.jsonl", "fleet.jsonl", "advantages"


class Curriculum(Protocol):
    """Every task is in exactly one of the three."""

    @property
    def active(self) -> frozenset[str]: ...
    @property
    def cooling(self) -> frozenset[str]: ...
    @property
    def removed(self) -> frozenset[str]: ...


def task_states(curriculum: Curriculum) -> dict[str, str]:
    return {key: state for state in ("active", "cooling", "removed") for key in sorted(getattr(curriculum, state))}


def task_row(
    iteration: int, states: Mapping[str, str], before: Mapping[str, str], groups: Iterable[Group],
    key: Callable[[Task], str], set_aside: Mapping[str, str],
) -> dict[str, Any]:  # fmt: skip
    """A line of tasks.jsonl. `before`: the states after the iteration before; `key`: what the curriculum counts by;
    `set_aside`: since then, task ids and reasons."""
    played: dict[str, list[int]] = {}
    for group in groups:
        count = played.setdefault(key(group.task), [0, 0])
        count[0] += len(group.trajectories)
        count[1] += sum(t.success for t in group.trajectories)
    changed = {k: state for k, state in states.items() if before.get(k) != state}
    row = {"iteration": iteration, "states": changed, "played": played}
    return row | ({"set_aside": dict(set_aside)} if set_aside else {})


def fleet_row(iteration: int, devices: Iterable[DeviceReport], before: Mapping[str, DeviceReport]) -> dict[str, Any]:
    """A line of fleet.jsonl. `before`: by place, the reports of the line before."""
    return {"iteration": iteration, "devices": {d.place: _device(d, before.get(d.place)) for d in devices}}


def _device(now: DeviceReport, before: DeviceReport | None) -> dict[str, Any]:
    if before is not None and sum(now.seconds.values()) < sum(before.seconds.values()):
        before = None  # its process was started again and counts from zero
    spent = {s: t - (before.seconds.get(s, 0.0) if before else 0.0) for s, t in now.seconds.items()}
    total = sum(spent.values())
    shares = {s: round(t / total, 3) for s, t in spent.items() if t > 0.0005 * total} if total > 0 else {}
    faults = now.faults - (before.faults if before else 0)
    row = {"device": now.device_id, "state": str(now.state), "shares": shares, "faults": faults}
    return row | ({"reason": now.reason} if faults else {})


def write_advantages(
    run_dir: Path, iteration: int, trajectories: Sequence[Trajectory], advantages: Sequence[float | Sequence[float]]
) -> Path:
    """One advantage per trajectory, or one per step of it. ValueError when there are more or fewer than steps."""
    content: dict[str, list[float]] = {}
    for trajectory, advantage in zip(trajectories, advantages, strict=True):
        steps = len(trajectory.steps)
        given = [advantage] * steps if isinstance(advantage, (int, float)) else advantage
        content[trajectory.id] = [round(float(a), 6) for a in given]
        if len(given) != steps:
            raise ValueError(f"trajectory {trajectory.id} has {steps} steps and {len(given)} advantages")
    path = run_dir / ADVANTAGES / f"iter-{iteration:06d}.json"
    write_atomic(path, json.dumps(content, allow_nan=False, separators=(",", ":")).encode())
    return path


class Boards:
    """Writes tasks.jsonl and fleet.jsonl of one run. A resumed run calls `truncate_after` before it goes on."""

    def __init__(self, run_dir: Path) -> None:
        self.run_dir = run_dir
        self._states: dict[str, str] = {}
        self._devices: dict[str, DeviceReport] = {}
        self._set_aside: set[str] = set()

    def record(
        self, iteration: int, curriculum: Curriculum, groups: Iterable[Group], key: Callable[[Task], str],
        devices: Sequence[DeviceReport] = (), set_aside: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        """Appends an iteration to both files, to fleet.jsonl only where there are devices to report.

        `set_aside`: of the whole run, reasons by task id. The curriculum has forgotten a key of which no task is left.
        """
        states = dict.fromkeys(self._states, "set_aside") | task_states(curriculum)
        new = {task: why for task, why in (set_aside or {}).items() if task not in self._set_aside}
        self._append(TASKS_FILE, task_row(iteration, states, self._states, groups, key, new))
        self._states = states
        self._set_aside |= new.keys()
        if devices:
            self._append(FLEET_FILE, fleet_row(iteration, devices, self._devices))
            self._devices = {d.place: d for d in devices}

    def truncate_after(self, iteration: int) -> None:
        """Forgets every later iteration, the advantages included: a resumed run writes them anew."""
        for name in (TASKS_FILE, FLEET_FILE):
            path = self.run_dir / name
            if path.exists():
                kept = [row for row in read_metrics(path) if row["iteration"] <= iteration]
                write_atomic(path, "".join(map(_line, kept)).encode())
        self._states, self._set_aside = {}, set()
        for row in read_metrics(self.run_dir / TASKS_FILE):
            self._states |= row["states"]
            self._set_aside |= row.get("set_aside", {}).keys()
        for path in (self.run_dir / ADVANTAGES).glob("iter-*.json"):
            if int(path.stem.removeprefix("iter-")) > iteration:
                path.unlink()

    def _append(self, name: str, row: Mapping[str, Any]) -> None:
        with open(self.run_dir / name, "ab") as f:
            f.write(_line(row).encode())
            f.flush()
            os.fsync(f.fileno())


def _line(row: Mapping[str, Any]) -> str:
    return json.dumps(row, allow_nan=False, separators=(",", ":")) + "\n"
