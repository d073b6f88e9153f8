"""Collecting groups on scripted devices."""

from __future__ import annotations

from scripted_env import ScriptedActor, ScriptedEnv, make_task, run

from mobilerl.rollout.collector import Collector, CollectorSettings
from mobilerl.rollout.episode import EpisodeSettings

TASKS = [make_task(name) for name in "abcde"]


def fleet(n: int) -> list[ScriptedEnv]:
    return [ScriptedEnv(f"d{i}") for i in range(n)]


def collect(envs, tasks=TASKS, actor=None, deadline_s=60.0, **wanted):
    """(groups, collector) of one `collect`."""
    options = CollectorSettings(**{"group_size": 4, "episode": EpisodeSettings(deadline_s=deadline_s), **wanted})

    async def main():
        async with Collector(envs, actor or ScriptedActor(), options) as collector:
            return await collector.collect(tasks, "i0"), collector

    return run(main())
