"""What a run writes of its iterations for people and for the viewer: metrics, boards, trajectories, advantages."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from envs.base import DeviceReport
from mobilerl.config import Recipe
from mobilerl.records import Group
from mobilerl.train.boards import Boards, write_advantages
from mobilerl.train.tasks import TaskSampler
from mobilerl.train.tracking import Tracker
from mobilerl.trajectory_files import save_trajectories


class RunLog:
    """Use as a context manager: wandb and TensorBoard want to be closed."""

    def __init__(self, recipe: Recipe, run_dir: Path) -> None:
        self.run_dir, self._train = run_dir, recipe.train
        settings = recipe.tracking
        name, whole = settings.name or run_dir.name, recipe.model_dump(mode="json")
        self._tracker = Tracker(run_dir, settings.wandb, settings.tensorboard, settings.project, name, whole)
        self._boards = Boards(run_dir)

    def __enter__(self) -> RunLog:
        return self

    def __exit__(self, *exception: object) -> None:
        self._tracker.close()

    def metrics(self, row: Mapping[str, Any]) -> None:
        self._tracker.log(row)

    def boards(
        self, iteration: int, sampler: TaskSampler, groups: Sequence[Group], devices: Sequence[DeviceReport]
    ) -> None:
        """How the tasks of `groups` went, which tasks are in which state, and how the devices fared."""
        reasons = {task: why.reason for task, why in sampler.losses.set_aside.items()}
        self._boards.record(iteration, sampler.curriculum, groups, sampler.key, devices, reasons)

    def keeps(self, iteration: int) -> bool:
        """Whether trajectories of this iteration are to be kept."""
        every = self._train.trajectories_every
        return bool(every) and (iteration % every == 0 or iteration == 1)

    def trajectories(
        self, iteration: int, groups: Sequence[Group], advantages: Mapping[str, float | Sequence[float]]
    ) -> None:
        """Keeps the first ones, and by their ids the advantages of those that have any."""
        chosen = [t for g in groups for t in g.trajectories][: self._train.trajectories_kept]
        save_trajectories(self.run_dir, iteration, chosen)
        kept = [t for t in chosen if t.id in advantages]
        write_advantages(self.run_dir, iteration, kept, [advantages[t.id] for t in kept])

    def forget_after(self, iteration: int) -> None:
        """Drops what was written of every later iteration: a resumed run writes it anew."""
        self._tracker.truncate_after(iteration)
        self._boards.truncate_after(iteration)
        for path in (self.run_dir / "trajectories").glob("iter-*.jsonl"):
            if int(path.stem.removeprefix("iter-")) > iteration:
                path.unlink()
        shutil.rmtree(self.run_dir / "view", ignore_errors=True)
