"""What plays a run's episodes, as the recipe says: in this process or in workers, in turns with learning or ahead."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from envs.base import Devices, MobileEnv
from mobilerl.config import Recipe
from mobilerl.engines.base import Engine
from mobilerl.fleet import make_devices
from mobilerl.rollout.workers import RolloutWorkers
from mobilerl.setup import make_collector
from mobilerl.train.source import Ahead, GroupSource, InTurns, OneAhead, Players
from mobilerl.train.tasks import TaskSampler


def make_players(
    recipe: Recipe, run_dir: Path, engine: Engine, sampler: TaskSampler, rng: random.Random,
    devices: Devices | Sequence[MobileEnv] | None,
) -> tuple[Players, GroupSource]:  # fmt: skip
    """A collector, to be entered, and what takes an iteration's groups from it. `devices`: those there are already."""
    staleness = recipe.collect.max_staleness
    if recipe.plays_in_workers:
        workers = RolloutWorkers(recipe, engine, run_dir)
        return workers, (OneAhead if staleness else InTurns)(workers, sampler, rng)
    collector = make_collector(recipe, engine, devices or make_devices(recipe, run_dir))
    if staleness == 0:
        return collector, InTurns(collector, sampler, rng)
    return collector, Ahead(collector, sampler, rng, staleness, lambda: engine.version)
