"""Steps per second of the embedded phone on one core, with and without screenshots."""

from __future__ import annotations

import asyncio
import time

from mobilerl.envs.base import Observation, Task
from mobilerl.envs.phone import render
from mobilerl.envs.phone.env import PhoneEnv
from mobilerl.envs.phone.tasks.catalogue import TEMPLATES
from mobilerl.envs.phone.tasks.expert import ExpertAgent
from mobilerl.envs.phone.tasks.suite import make_task


def measure(steps: int, width: int, height: int) -> dict[str, float]:
    """Measures steps per second, and per second of CPU time, of experts that play all templates in turn.

    `*_uncached` is without the cache of drawn screens.
    """
    kinds = {"png_uncached": (True, False), "png": (True, True), "xml_only": (False, True)}
    rates: dict[str, float] = {}
    for name, (screenshots, cached) in kinds.items():
        rates[f"steps_per_s_{name}"], rates[f"steps_per_cpu_s_{name}"] = _rate(
            steps, width, height, screenshots, cached
        )
    return rates


def _rate(steps: int, width: int, height: int, screenshots: bool, cached: bool) -> tuple[float, float]:
    env = PhoneEnv("bench", width, height, screenshots=screenshots)
    tasks = [make_task(name, seed) for seed in range(1 + steps // len(TEMPLATES)) for name in TEMPLATES]
    return asyncio.run(_play(env, tasks, steps, cached))


async def _play(env: PhoneEnv, tasks: list[Task], steps: int, cached: bool) -> tuple[float, float]:
    """Plays tasks and times only the steps, since a reset is needed only once per episode."""
    played, spent, computed = 0, 0.0, 0.0
    render.clear_cache()
    for task in tasks:
        observation: Observation = await env.reset(task)
        agent, done = ExpertAgent(env.template), False
        while not done and played < steps:
            action = agent.act(observation)
            if not cached:
                render.clear_cache()
            start, computing = time.perf_counter(), time.process_time()
            result = await env.step(action)
            spent += time.perf_counter() - start
            computed += time.process_time() - computing
            observation, done, played = result.observation, result.done, played + 1
        if played >= steps:
            break
    return round(played / spent, 1), round(played / computed, 1)
