"""AndroidWorld as a training suite, on running servers or on containers that the run starts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from mobilerl.config import AndroidWorldSuiteSection, Recipe
from mobilerl.envs.androidworld.env import AndroidWorldEnv
from mobilerl.envs.androidworld.startup import Goals, Server, Suite, open_servers, parse_addresses, read_goals
from mobilerl.envs.androidworld.tasks import (
    DEVELOPMENT_SEED,
    EVAL_SEEDS,
    FREE_BY_DESIGN,
    TRAINING_SEED,
    make_task,
    trainable,
)
from mobilerl.envs.base import Devices, MobileEnv, Task
from mobilerl.envs.claims import run_name
from mobilerl.envs.pool import DevicePool
from mobilerl.system.terminal import say

if TYPE_CHECKING:
    from mobilerl.envs.androidworld.containers import AndroidWorldContainers


class AndroidWorldSuite:
    """Implements `mobilerl.suites.base.Suite`."""

    extra = "androidworld"
    has_server = True
    in_process = False

    def __init__(self, recipe: Recipe) -> None:
        assert isinstance(recipe.suite, AndroidWorldSuiteSection)
        self._recipe, self._settings, self._tasks = recipe, recipe.suite, recipe.tasks
        self._free_reward = recipe.judge.reward  # which replaces the tasks' own
        self._development: list[Task] = []

    def check(self) -> None:
        trainable(self._tasks.templates, self._free_reward)

    def open(self, run_dir: Path | None = None) -> tuple[list[Task], Devices | Sequence[MobileEnv]]:
        settings, tasks = self._settings, self._tasks
        left_out = FREE_BY_DESIGN & (set(tasks.templates) or FREE_BY_DESIGN)
        if left_out and not self._free_reward:
            say(f"left out, because their reward is free by design: {', '.join(sorted(left_out))}")
        suite = Suite(TRAINING_SEED, tasks.per_template, trainable(tasks.templates, self._free_reward))
        devices: Devices | Sequence[MobileEnv]
        if settings.servers:
            addresses = parse_addresses(settings.servers)
            servers = asyncio.run(open_servers(addresses, suite, say=say, user=run_name(run_dir)))
            server, devices = servers[0], [s.env(free_reward=self._free_reward) for s in servers]
        else:
            devices, containers = container_pool(self._recipe, suite, run_dir)
            server = asyncio.run(containers.start_first(say))
        if self._recipe.eval.every:
            try:
                self._development = self._development_tasks(server, suite.names)
            except BaseException:
                if isinstance(devices, DevicePool):
                    asyncio.run(devices.close())
                raise
        return self._make_tasks(suite, server.goals), devices

    def _make_tasks(self, suite: Suite, goals: Goals) -> list[Task]:
        return [
            make_task(name, index, goal, suite.seed, suite.combinations, self._settings.step_cap)
            for (name, index), goal in sorted(goals.items())
        ]

    def _development_tasks(self, server: Server, names: Sequence[str]) -> list[Task]:
        """Instances of the development seed whose parameters no training instance has, so far as their goals tell: in a
        new suite, a goal is its template with the parameters filled in."""
        suite = Suite(DEVELOPMENT_SEED, self._recipe.eval.instances, names)
        goals = asyncio.run(read_goals(server.address.url, suite))
        trained = {(name, goal) for (name, _), goal in server.goals.items()}
        unseen = {key: goal for key, goal in goals.items() if (key[0], goal) not in trained}
        say(f"evaluating on {len(unseen)} of {len(goals)} instances of seed {suite.seed}: training has the others")
        return self._make_tasks(suite, unseen)

    def held_out(self, per_template: int) -> dict[str, list[Task]]:
        """Development instances, once `open` has asked a server for their goals."""
        return {"success_rate": self._development} if self._development else {}

    def env_factory(self) -> Callable[..., MobileEnv]:
        from mobilerl.envs.androidworld.containers import make_env

        return partial(make_env, free_reward=self._free_reward)


make = AndroidWorldSuite


def is_held_out(task: Task) -> bool:
    return task.seed in EVAL_SEEDS or task.seed == DEVELOPMENT_SEED


def container_pool(
    recipe: Recipe,
    suite: Suite,
    run_dir: Path | None = None,
    wrap: Callable[[AndroidWorldEnv], MobileEnv] = lambda env: env,
) -> tuple[DevicePool, AndroidWorldContainers]:
    """Makes a pool of `fleet.count` containers with AndroidWorld, and its provider, without starting anything. `wrap`
    wraps each environment."""
    from mobilerl.envs.androidworld.containers import AndroidWorldContainers
    from mobilerl.suites.fleet import check_packages, docker_provider, pool_settings

    fleet, count = recipe.fleet, recipe.fleet.count
    check_packages(fleet)
    containers = AndroidWorldContainers(docker_provider(recipe, run_dir), suite, fleet.boot_s, wrap)
    return DevicePool(containers, pool_settings(recipe, count, fleet.spares)), containers
