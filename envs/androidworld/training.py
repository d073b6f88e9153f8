"""AndroidWorld as a training suite: devices and tasks from servers that were checked."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from envs.androidworld.address import parse_addresses
from envs.androidworld.env import BOOT_WAIT_S, AndroidWorldEnv
from envs.androidworld.startup import Say, Suite, open_servers
from envs.androidworld.tasks import check_training_seed, trainable, training_tasks
from envs.base import Task

TRAIN_SEED = 1000


def open_training(servers: Sequence[str], per_template: int, templates: Sequence[str] = (), seed: int = TRAIN_SEED,
                  step_cap: int | None = None, boot_wait_s: float = BOOT_WAIT_S, say: Say = print,
                  free_reward: bool = False) -> tuple[list[AndroidWorldEnv], list[Task]]:  # fmt: skip
    """One device per server (`http://HOST:PORT[,ADB_SERIAL]`), and `per_template` instances of every task.

    All instances are of one suite seed, so that servers are given their suite once. `free_reward`: instances that give
    their reward for nothing are played as well. Not to be called from a running event loop. Raises ValueError, in one
    line, for servers that cannot be used, and for what `training_suite` refuses.
    """
    suite = training_suite(per_template, templates, seed, free_reward)
    opened = asyncio.run(open_servers(parse_addresses(servers), suite, boot_wait_s, say))
    tasks = training_tasks(opened[0].goals, seed, per_template, step_cap)
    return [server.env(boot_wait_s, free_reward) for server in opened], tasks


def training_suite(
    per_template: int, templates: Sequence[str] = (), seed: int = TRAIN_SEED, free_reward: bool = False
) -> Suite:
    """`per_template` instances of those of `templates` (by default of all) that can be trained on.

    ValueError for a seed that is kept for tests, and for templates of which none can be trained on.
    """
    check_training_seed(seed)
    return Suite(seed, per_template, trainable(templates, free_reward))
