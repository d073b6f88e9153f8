"""Files that a run writes each iteration besides checkpoints: metrics, tasks, devices, trajectories, advantages.

The formats are described in docs/files.md and docs/viewer.md.
"""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mobilerl.config import Recipe, save_recipe
from mobilerl.config.reading import CONFIG_FILE
from mobilerl.envs.base import DeviceReport, Task
from mobilerl.models.checkpoint_folder import iteration_of
from mobilerl.records import Group, Trajectory
from mobilerl.records.files import save_trajectories
from mobilerl.system.atomic_files import write_atomic
from mobilerl.training.tracking import Tracker, append_row, read_metrics, truncate_rows

if TYPE_CHECKING:  # the viewer imports this module and must not need torch
    from mobilerl.algorithms.curriculum import Curriculum
    from mobilerl.training.tasks import TaskSampler

log = logging.getLogger(__name__)
KEPT = 64
"""Maximum number of trajectories saved per iteration."""
SHOWN = 4
"""Episodes drawn for the mirrors per saved iteration, each the first of its group."""
TASKS_FILE, FLEET_FILE, ADVANTAGES = "tasks.jsonl", "fleet.jsonl", "advantages"
SHAPED_REWARDS = "shaped_rewards"


class RunLog:
    """Writes the log files of a run. A context manager, because the mirrors have to be closed."""

    def __init__(self, recipe: Recipe, run_dir: Path) -> None:
        self.run_dir, self._recipe, self._train = run_dir, recipe, recipe.train
        self._tracker = Tracker(run_dir, recipe.tracking, recipe.model_dump(mode="json"))
        self._status = StatusLog(run_dir)
        self._claimed = False
        self._held: list[Mapping[str, Any]] = []

    def __enter__(self) -> RunLog:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        self._tracker.close(error)

    @property
    def has_begun(self) -> bool:
        """Whether this start has something to save: a row of metrics, or one that is held."""
        return self._claimed or bool(self._held)

    def keep_directory(self) -> None:
        """Saves the recipe: at first, and when the run directory was deleted, so that the run can still be resumed.

        A directory belongs to a run from here on, and not before: a start that fails must not stand in the way of the
        next one with other settings. Called before every checkpoint and every row of metrics.
        """
        saved = (self.run_dir / CONFIG_FILE).is_file()
        if self._claimed and not saved:
            log.warning("%s was deleted during the run; it is written again, without what it held", self.run_dir)
        if not (self._claimed and saved):
            self.run_dir.mkdir(parents=True, exist_ok=True)
            save_recipe(self._recipe, self.run_dir / CONFIG_FILE)
        self._claimed = True
        rows, self._held = self._held, []
        for row in rows:
            self._tracker.log(row)

    def hold(self, row: Mapping[str, Any]) -> None:
        """Keeps a row until the next one or the next checkpoint: no device has answered yet."""
        self._held.append(row)

    def metrics(self, row: Mapping[str, Any]) -> None:
        self.keep_directory()
        self._tracker.log(row)

    def status(
        self, iteration: int, sampler: TaskSampler, groups: Sequence[Group], devices: Sequence[DeviceReport]
    ) -> None:
        """Records the states and results of tasks and the states of devices."""
        reasons = {task: why.reason for task, why in sampler.excluded.set_aside.items()}
        self._status.record(iteration, sampler.curriculum, groups, sampler.key, devices, reasons)

    def keeps(self, iteration: int) -> bool:
        """Whether this iteration's trajectories are saved."""
        every = self._train.trajectories_every
        return bool(every) and (iteration % every == 0 or iteration == 1)

    def trajectories(
        self,
        iteration: int,
        groups: Sequence[Group],
        advantages: Mapping[str, float | Sequence[float]],
        shaped_rewards: Mapping[str, float],
    ) -> None:
        """Saves the first KEPT trajectories with their advantages and shaped rewards (by id), and mirrors SHOWN."""
        chosen = [t for g in groups for t in g.trajectories][:KEPT]
        save_trajectories(self.run_dir, iteration, chosen)
        kept = [t for t in chosen if t.id in advantages]
        write_advantages(self.run_dir, iteration, kept, [advantages[t.id] for t in kept])
        shaped = {t.id: round(shaped_rewards[t.id], 6) for t in chosen if t.id in shaped_rewards}
        if shaped:
            _write_by_id(self.run_dir / SHAPED_REWARDS, iteration, shaped)
        self._tracker.episodes(iteration, [g.trajectories[0] for g in groups if g.trajectories][:SHOWN])

    def truncate_after(self, iteration: int) -> None:
        """Drops all later iterations, which a resumed run writes again."""
        self._tracker.truncate_after(iteration)
        self._status.truncate_after(iteration)
        folders = ("trajectories", ADVANTAGES, SHAPED_REWARDS)
        for path in [path for folder in folders for path in self.run_dir.glob(f"{folder}/iter-*.json*")]:
            number = iteration_of(path.stem)
            if number is not None and number > iteration:
                path.unlink()
        shutil.rmtree(self.run_dir / "view", ignore_errors=True)


def write_advantages(
    run_dir: Path, iteration: int, trajectories: Sequence[Trajectory], advantages: Sequence[float | Sequence[float]]
) -> Path:
    """Writes advantages, one per trajectory or one per step. Raises ValueError unless there are as many as steps."""
    content: dict[str, list[float]] = {}
    for trajectory, advantage in zip(trajectories, advantages, strict=True):
        steps = len(trajectory.steps)
        per_step = [advantage] * steps if isinstance(advantage, (int, float)) else advantage
        if len(per_step) != steps:
            raise ValueError(f"trajectory {trajectory.id} has {steps} steps and {len(per_step)} advantages")
        content[trajectory.id] = [round(float(a), 6) for a in per_step]
    return _write_by_id(run_dir / ADVANTAGES, iteration, content)


def _write_by_id(folder: Path, iteration: int, content: Mapping[str, Any]) -> Path:
    path = folder / f"iter-{iteration:06d}.json"
    write_atomic(path, json.dumps(content, allow_nan=False, separators=(",", ":")).encode())
    return path


class StatusLog:
    """Appends to tasks.jsonl and fleet.jsonl. A resumed run calls `truncate_after` first."""

    def __init__(self, run_dir: Path) -> None:
        self._tasks_path, self._fleet_path = run_dir / TASKS_FILE, run_dir / FLEET_FILE
        self._states: dict[str, str] = {}
        self._devices: dict[str, DeviceReport] = {}
        self._set_aside: set[str] = set()

    def record(
        self,
        iteration: int,
        curriculum: Curriculum,
        groups: Iterable[Group],
        key: Callable[[Task], str],
        devices: Sequence[DeviceReport] = (),
        set_aside: Mapping[str, str] | None = None,
    ) -> None:
        """Appends one iteration to tasks.jsonl and, if there are devices, to fleet.jsonl.

        `key` maps a task to its key in the curriculum. `set_aside` holds the reasons of all excluded tasks by id; the
        curriculum drops a key once all its tasks are excluded.
        """
        states = dict.fromkeys(self._states, "set_aside")
        for state in ("active", "cooling", "removed"):
            states |= dict.fromkeys(sorted(getattr(curriculum, state)), state)
        played: dict[str, list[int]] = {}
        apps: dict[str, list[int]] = {}
        for group in groups:
            for count in (played.setdefault(key(group.task), [0, 0]), apps.setdefault(group.task.app, [0, 0])):
                count[0] += len(group.trajectories)
                count[1] += sum(t.success for t in group.trajectories)
        changed = {k: state for k, state in states.items() if self._states.get(k) != state}
        row: dict[str, Any] = {"iteration": iteration, "states": changed, "played": played, "apps": apps}
        new = {task: why for task, why in (set_aside or {}).items() if task not in self._set_aside}
        if new:
            row["set_aside"] = new
        append_row(self._tasks_path, row)
        self._states = states
        self._set_aside |= new.keys()
        if devices:
            entries = {d.place: _device_entry(d, self._devices.get(d.place)) for d in devices}
            append_row(self._fleet_path, {"iteration": iteration, "devices": entries})
            self._devices = {d.place: d for d in devices}

    def truncate_after(self, iteration: int) -> None:
        """Drops all later iterations and reads the task states back."""
        truncate_rows(self._tasks_path, iteration)
        truncate_rows(self._fleet_path, iteration)
        self._states, self._set_aside = {}, set()
        for row in read_metrics(self._tasks_path):
            self._states |= row["states"]
            self._set_aside |= row.get("set_aside", {}).keys()


def _device_entry(now: DeviceReport, before: DeviceReport | None) -> dict[str, Any]:
    """Entry of one device in fleet.jsonl; `before` is its previous report, if any."""
    if before is not None and sum(now.seconds.values()) < sum(before.seconds.values()):
        before = None  # its process was restarted and counts from zero
    spent = {s: t - (before.seconds.get(s, 0.0) if before else 0.0) for s, t in now.seconds.items()}
    total = sum(spent.values())
    shares = {s: round(t / total, 3) for s, t in spent.items() if t > 0.0005 * total} if total > 0 else {}
    faults = now.faults - (before.faults if before else 0)
    row = {"device": now.device_id, "state": str(now.state), "shares": shares, "faults": faults}
    return row | ({"reason": now.reason} if faults else {})
