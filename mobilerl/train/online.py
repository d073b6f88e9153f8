"""The online loop. It reads like the paper's algorithm; every algorithm runs through it.

Sample tasks from the curriculum, collect groups, assign credit, insert into replay, update on mini-batches that mix
fresh and replayed rows, publish, move the curriculum, log, checkpoint.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from envs.base import MobileEnv, Task
from mobilerl.algorithms.replay import AdaptivePositiveReplay
from mobilerl.config import ConfigError, Recipe, ReplaySection, read_saved, save_recipe
from mobilerl.engines.base import Engine
from mobilerl.fleet import make_devices
from mobilerl.records import Group
from mobilerl.rollout.collector import Collector
from mobilerl.rollout.workers import RolloutWorkers
from mobilerl.setup import check_checkpoint, make_collector, make_engine, read_agent
from mobilerl.train import checkpoint
from mobilerl.train.credit import Credited, assign_credit
from mobilerl.train.learner import Learner
from mobilerl.train.metrics import rollout_metrics
from mobilerl.train.source import Ahead, GroupSource, InTurns
from mobilerl.train.tasks import TaskSampler, open_suite
from mobilerl.train.tracking import ProgressView, Tracker
from mobilerl.trajectory_files import save_trajectories

CONFIG_FILE = "config.json"
LEARNED = ("train/loss", "train/kl", "train/grad_norm", "train/clip_frac", "train/rollout_prob_diff_max")
"""Metrics that every iteration has; null where nothing was learned or the recipe has no KL term."""


def train(recipe: Recipe, run_dir: Path, resume: bool) -> None:
    """Runs (or goes on with) a training run. Raises ConfigError or CheckpointError for what the user can mend."""
    recipe = _open_run(recipe, run_dir, resume)
    if recipe.judge.reward:
        from mobilerl.judge.judge import check_judge

        check_judge(recipe.judge)
    tasks, envs = open_suite(recipe)
    asyncio.run(OnlineTrainer(recipe, run_dir, resume, tasks, envs).run())


def _open_run(recipe: Recipe, run_dir: Path, resume: bool) -> Recipe:
    """Claims the run directory for the recipe, or checks that it is the same recipe's."""
    saved = run_dir / CONFIG_FILE
    if not saved.is_file():
        if resume:
            raise ConfigError(f"{run_dir} holds no run to resume; leave --resume out to start one")
        check_checkpoint(recipe.model)
        recipe = _with_checkpoints_agent(recipe)
        run_dir.mkdir(parents=True, exist_ok=True)
        save_recipe(recipe, saved)
        return recipe
    if not resume:
        raise ConfigError(f"{run_dir} already holds a run; go on with it by --resume, or choose another --run-dir")
    recipe = _with_checkpoints_agent(recipe)
    before = read_saved(saved)
    changed = _differences(before.model_dump(), recipe.model_dump())
    changed = [c for c in changed if c not in ("train.iterations", "train.max_minutes")]
    if changed:
        raise ConfigError(
            f"{run_dir} belongs to another recipe ({', '.join(changed[:4])} differ): "
            f"resume with the settings of {saved}, or choose another --run-dir"
        )
    save_recipe(recipe, saved)
    return recipe


def _with_checkpoints_agent(recipe: Recipe) -> Recipe:
    """A policy must go on seeing and acting as it was trained to: its checkpoint's agent settings win.

    How long an episode may take is the devices' affair and not the policy's, so that stays the recipe's.
    """
    agent = read_agent(recipe.model) if recipe.model else None
    if agent is None:
        return recipe
    return recipe.model_copy(update={"agent": agent.model_copy(update={"deadline_s": recipe.agent.deadline_s})})


def _differences(a: dict[str, Any], b: dict[str, Any], prefix: str = "") -> list[str]:
    names: list[str] = []
    for key in a:
        if isinstance(a[key], dict) and isinstance(b.get(key), dict):
            names += _differences(a[key], b[key], f"{prefix}{key}.")
        elif a[key] != b.get(key):
            names.append(prefix + key)
    return names


def make_replay(settings: ReplaySection) -> AdaptivePositiveReplay | None:
    if settings.type == "none":
        return None
    return AdaptivePositiveReplay(
        settings.capacity, settings.kappa, settings.gamma, settings.max_age, order=settings.order
    )


class OnlineTrainer:
    """One run: its engine, curriculum, replay and random state, all of which a checkpoint holds."""

    def __init__(
        self, recipe: Recipe, run_dir: Path, resume: bool, tasks: Sequence[Task], envs: Sequence[MobileEnv] | None
    ) -> None:
        self.recipe, self.run_dir, self.envs = recipe, run_dir, envs
        self.sampler = TaskSampler(tasks, recipe.algorithm.curriculum)
        self.replay = make_replay(recipe.algorithm.replay)
        self.rng = random.Random(recipe.train.seed)
        self.iteration = 0
        self.saved_iteration: int | None = None
        self.elapsed_s = 0.0
        self.engine: Engine = make_engine(
            recipe.model, recipe.engine, recipe.collect.temperature, reference=recipe.algorithm.loss.kl_coef > 0,
            seed=recipe.train.seed,
        )  # fmt: skip
        self.learner = Learner(self.engine, recipe.algorithm, recipe.train)
        self.tracker = Tracker(
            run_dir, recipe.tracking.wandb, recipe.tracking.tensorboard, recipe.tracking.project,
            recipe.tracking.name or run_dir.name,
        )  # fmt: skip
        checkpoint.clean(run_dir)
        if resume:
            self._restore()

    # --- the loop --------------------------------------------------------------------------------------------

    async def run(self) -> None:
        train = self.recipe.train
        self._started = time.monotonic() - self.elapsed_s
        collector, source = self._make_collector()
        with self.tracker, ProgressView(train.iterations) as view:
            async with collector:
                while self.iteration < train.iterations and not self._out_of_time() and self.sampler.has_tasks:
                    with view.watching(lambda: self._doing(collector)):
                        metrics = await self._iterate(collector, source)
                    view.update(metrics)
                    if self.iteration % train.checkpoint_every == 0:
                        self._save()
            if self.saved_iteration != self.iteration:
                self._save()
            if not self.sampler.has_tasks:
                view.status("stopped: the curriculum removed every task (see algorithm.curriculum.revisit_every)")

    async def _iterate(self, collector: Collector | RolloutWorkers, source: GroupSource) -> dict[str, float]:
        self.iteration += 1
        before = collector.counts.copy()
        busy, began = collector.busy_s, time.monotonic()
        groups, credited = await self._collect(source)
        collected = time.monotonic()
        if self.replay is not None:
            self.replay.insert(
                [c.trajectory for c in credited], [c.advantage for c in credited], self.iteration
            )
        useful = [c for c in credited if c.informative or not self.recipe.algorithm.credit.drop_constant_groups]
        learned = await self._learn(useful)
        updated = time.monotonic()
        version = self.engine.version
        self.engine.publish()
        self.sampler.record(groups)
        times = {"rollout": collected - began, "update": updated - collected, "publish": time.monotonic() - updated}
        metrics = {
            "iteration": self.iteration,
            "time_s": time.monotonic() - self._started,
            **rollout_metrics(groups, version, times["rollout"], collector.busy_s - busy, collector.devices),
            **_counted(collector.counts - before),
            **dict.fromkeys(LEARNED),
            **learned,
            "rollout/informative": len(useful) / len(credited) if credited else None,
            **collector.status(),
            "replay/size": len(self.replay) if self.replay is not None else 0,
            **{f"curriculum/{k}": n for k, n in self.sampler.curriculum.counts().items()},
            **{f"time/{k}_s": v for k, v in times.items()},
        }
        self.tracker.log(metrics)
        self._write_trajectories(groups)
        return metrics

    async def _collect(self, source: GroupSource) -> tuple[list[Group], list[Credited]]:
        """Groups of this iteration with their credit; constant groups are replaced while refills are left."""
        settings = self.recipe.algorithm.credit
        wanted = self.recipe.collect.tasks_per_iteration
        groups = await source.take(wanted, f"{self.iteration:06d}-0")
        credited = assign_credit(groups, settings)
        for refill in range(1, settings.max_refills + 1 if settings.drop_constant_groups else 1):
            missing = wanted - _informative_groups(groups, credited)
            if missing <= 0:
                break
            more = await source.take(missing, f"{self.iteration:06d}-{refill}")
            groups += more
            credited += assign_credit(more, settings)
        return groups, credited

    async def _learn(self, credited: Sequence[Credited]) -> dict[str, float]:
        if self.recipe.collect.max_staleness == 0:
            return self.learner.learn(credited, self.replay, self.rng)
        return await asyncio.to_thread(self.learner.learn, credited, self.replay, self.rng)

    def _make_collector(self) -> tuple[Collector | RolloutWorkers, GroupSource]:
        recipe, staleness = self.recipe, self.recipe.collect.max_staleness
        if recipe.collect.workers:
            workers = RolloutWorkers(recipe, self.engine)
            return workers, InTurns(workers, self.sampler, self.rng)
        devices = self.envs or make_devices(recipe, run_dir=self.run_dir)
        collector = make_collector(recipe, self.engine, devices)
        if staleness == 0:
            return collector, InTurns(collector, self.sampler, self.rng)
        return collector, Ahead(collector, self.sampler, self.rng, staleness, lambda: self.engine.version)

    def _doing(self, collector: Collector | RolloutWorkers) -> str:
        status = collector.status().items()
        fleet = ", ".join(f"{n:g} {name.removeprefix('fleet/')}" for name, n in status if n and name[:5] == "fleet")
        return f"iteration {self.iteration}" + (f"; devices: {fleet}" if fleet else "")

    def _out_of_time(self) -> bool:
        limit = self.recipe.train.max_minutes
        return limit is not None and time.monotonic() - self._started > 60 * limit

    def _write_trajectories(self, groups: Sequence[Group]) -> None:
        train = self.recipe.train
        if train.trajectories_every and (self.iteration % train.trajectories_every == 0 or self.iteration == 1):
            chosen = [t for g in groups for t in g.trajectories][: train.trajectories_kept]
            save_trajectories(self.run_dir, self.iteration, chosen)

    # --- persistence -----------------------------------------------------------------------------------------

    def _save(self) -> None:
        state = {
            "elapsed_s": time.monotonic() - self._started,
            "sampler": self.sampler.state_dict(),
            "rng": checkpoint.rng_to_json(self.rng),
        }
        train = self.recipe.train
        checkpoint.save(
            self.run_dir, self.iteration, self.engine, self.recipe.agent, self.replay, state, train.keep_checkpoints
        )
        self.saved_iteration = self.iteration

    def _restore(self) -> None:
        """From the newest checkpoint; a run that was killed before its first one starts again from the beginning."""
        folder = checkpoint.latest(self.run_dir)
        if folder is None:
            self.tracker.truncate_after(0)
            return
        state = checkpoint.read_state(folder)
        checkpoint.load_engine(folder, self.engine)
        if self.replay is not None:
            checkpoint.load_replay(folder, state, self.replay)
        self.sampler.load_state_dict(state["sampler"])
        checkpoint.rng_from_json(self.rng, state["rng"])
        self.iteration = self.saved_iteration = state["iteration"]
        self.elapsed_s = state["elapsed_s"]
        self.tracker.truncate_after(self.iteration)
        self._drop_later_trajectories()

    def _drop_later_trajectories(self) -> None:
        for path in (self.run_dir / "trajectories").glob("iter-*.jsonl"):
            if int(path.stem.removeprefix("iter-")) > self.iteration:
                path.unlink()
        shutil.rmtree(self.run_dir / "view", ignore_errors=True)


def _informative_groups(groups: Sequence[Group], credited: Sequence[Credited]) -> int:
    useful = {c.trajectory.id for c in credited if c.informative}
    return sum(g.trajectories[0].id in useful for g in groups)


def _counted(counts: Counter[str]) -> dict[str, float]:
    names = ("infra_errors", "retried", "lost_groups", "stale_groups")
    return {f"rollout/{name}": counts.get(name, 0) for name in names}
