"""Estimates how long a run takes (`--dry-run`) from its own metrics or from a few seconds of rollout and learning."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path

from mobilerl.algorithms.base import Algorithm, make_algorithm
from mobilerl.config import Recipe
from mobilerl.engines.registry import engine_kind, make_trainer_engine
from mobilerl.records import Group
from mobilerl.records.engine import Engine
from mobilerl.suites.base import make_suite
from mobilerl.suites.fleet import make_devices
from mobilerl.system.terminal import duration
from mobilerl.training.learner import learn, step_counter
from mobilerl.training.progress import TimeLeft
from mobilerl.training.run import Run
from mobilerl.training.setup import make_collector, make_resources, reads_screenshots
from mobilerl.training.tasks import TaskSampler
from mobilerl.training.tracking import read_metrics

MEASURED_S = 15.0
"""Longest time to measure rollout, in seconds; an idle machine needs less."""
INSTANCES = 4
"""Instances per template to measure with: making all the instances of a run takes a while."""
LARGEST_MB = 100
"""Largest checkpoint that is loaded to measure with, in MB of weights."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Seconds per phase of one iteration and per evaluation, and environment steps per iteration."""

    rollout_s: float
    update_s: float
    eval_s: float
    env_steps: float


def estimate(run: Run) -> str:
    """Describes how long the run is likely to take and what the estimate is based on, or why there is none."""
    recipe = run.recipe
    left = TimeLeft(recipe.train.iterations, recipe.train.max_minutes, recipe.train.max_env_steps)
    if run.resume:
        path = run.run_dir / "metrics.jsonl"
        seconds = [left.after(row) for row in read_metrics(path) if row["iteration"]]
        if seconds and seconds[-1] is not None:
            return f"likely time left: {duration(seconds[-1])}, as long as the last iterations in {path} took"
    if reason := _not_measured(run):
        limit = f"at most {recipe.train.max_minutes:g} minutes; " if recipe.train.max_minutes is not None else ""
        return f"{limit}no estimate of the time: {reason}. The lines of the run's iterations have one"
    began = time.monotonic()
    if (measured := measure(recipe)) is None:
        return f"no estimate of the time: no episode ended within {MEASURED_S:g} s"
    both = measured.rollout_s, measured.update_s
    iteration_s = max(both) if recipe.rollout.max_staleness else sum(both)
    if recipe.eval.every:
        iteration_s += measured.eval_s / recipe.eval.every
    left.after({"iteration": 0, "time_s": 0.0, "rollout/env_steps": 0})
    row = {"iteration": 1, "time_s": iteration_s, "rollout/env_steps": measured.env_steps}
    total = iteration_s + (left.after(row) or 0.0)
    return (
        f"likely time: {duration(total)} to the first limit of [train], {duration(iteration_s)} an iteration "
        f"({both[0]:.1f} s of collection, {both[1]:.1f} s of learning). Measured on this machine with this model in "
        f"{duration(time.monotonic() - began)}; a rough figure, since episodes change in length and other programs "
        "may run"
    )


def _not_measured(run: Run) -> str:
    """Why the run cannot be estimated from a few seconds on this machine; empty if it can."""
    recipe = run.recipe
    size = sum(path.stat().st_size for path in Path(recipe.model).glob("*.safetensors")) / 1e6
    if recipe.engine.type != "local":
        return f"{engine_kind(recipe.engine).name} would have to be started"
    if not run.in_process:
        return "the devices would have to be started"
    if recipe.judge.reward or recipe.rollout.scorer:
        return "the judge or scorer would have to be asked"
    if recipe.algorithm.stored_trajectories:
        return "learning from stored trajectories comes first"
    return f"the model of {size:.0f} MB takes too long to load and to try" if size > LARGEST_MB else ""


def measure(recipe: Recipe) -> Measured | None:
    """Plays and learns for a few seconds in this process. Returns None if no episode ended in that time."""
    if recipe.has_rollout_workers:  # each worker has one thread
        recipe = recipe.model_copy(update={"engine": recipe.engine.model_copy(update={"threads": 1})})
    with closing(make_trainer_engine(recipe)) as engine:
        return asyncio.run(_measure(recipe, engine))


async def _measure(recipe: Recipe, engine: Engine) -> Measured | None:
    few = recipe.tasks.model_copy(update={"per_template": INSTANCES})
    suite = make_suite(recipe.model_copy(update={"tasks": few}))
    rollout, size = recipe.rollout, recipe.algorithm.group_size
    algorithm = make_algorithm(recipe.algorithm, make_resources(recipe, engine))
    rng = random.Random(recipe.train.seed)
    known, devices = suite.open()
    sampler = TaskSampler(known, recipe.algorithm.curriculum)
    sampler.use_values(algorithm.instruction_values)
    draw = reads_screenshots(recipe, algorithm)
    tasks = sampler.sample(min(rollout.tasks_per_iteration, max(1, recipe.fleet.count // size)), rng)
    groups: list[Group] = []
    began = time.monotonic()
    async with make_collector(recipe, engine, devices or make_devices(recipe), in_process=True) as collector:
        for number, task in enumerate(tasks):
            await collector.dispatch(task, f"measured-{number:03d}", draw=draw)
        with suppress(TimeoutError):
            async with asyncio.timeout(MEASURED_S):
                async for group in collector.ready(len(tasks)):
                    groups.append(group)
        # Episodes still running are on average half played.
        played_s, ended = time.monotonic() - began, collector.counts["finished"] + collector.playing / 2
    if not groups:
        return None
    processes = min(rollout.workers, os.cpu_count() or 1) if recipe.has_rollout_workers else 1
    episode_s = played_s / ended / processes
    episodes = rollout.tasks_per_iteration * size
    steps = sum(len(t.steps) for g in groups for t in g.trajectories) / sum(len(g.trajectories) for g in groups)
    held_out = suite.held_out(recipe.eval.instances) if recipe.eval.every else {}
    # Workers help to compute gradients unless they are playing at the time.
    learners = 1 if rollout.max_staleness else processes
    return Measured(
        rollout_s=episodes * episode_s,
        update_s=_learning_s(recipe, engine, algorithm, groups) * rollout.tasks_per_iteration / len(groups) / learners,
        eval_s=sum(map(len, held_out.values())) * episode_s,
        env_steps=episodes * steps,
    )


def _learning_s(recipe: Recipe, engine: Engine, algorithm: Algorithm, groups: Sequence[Group]) -> float:
    """Seconds to learn from all samples of `groups`, extrapolated from one full mini-batch.

    Raises NotFinite if no step can be taken.
    """
    algorithm.add(groups, 1)
    samples = [sample for batch in algorithm.mini_batches(random.Random(0)) for sample in batch]
    if not samples:
        return 0.0
    batch = list(islice(cycle(samples), recipe.algorithm.mini_batch_size))
    steps = step_counter(algorithm)
    for _ in range(2):  # the first one is slower
        began = time.monotonic()
        learn(engine, algorithm, [batch], steps)
        batch_s = time.monotonic() - began
        if batch_s > MEASURED_S:
            break
    steps.check("no step can be taken", ended=True)
    return batch_s * len(samples) / len(batch)
