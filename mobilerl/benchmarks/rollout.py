"""Utilization by three collectors of devices whose step times vary widely.

Devices are simulated: a step sleeps for a log-normal time with p99/p1 = 100, and the policy takes a fixed time for any
number of prompts. The collectors are:

- `trajectory`: mobilerl's own, which starts the next episode on a device as soon as it is free;
- `episode barrier`: batches of one episode per device; the next batch starts when the last episode has ended;
- `step barrier`: as in DigiRL, all devices step together, and each step takes as long as that of the slowest device.

All times are real times multiplied by `scale`, so that each number of devices is measured within seconds.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from mobilerl.envs.base import Action, Health, Observation, StepResult, Tap, Task
from mobilerl.policy.actor import Decision, make_decision
from mobilerl.rollout.collector import Collector, CollectorSettings
from mobilerl.rollout.episode import EpisodeSettings, run_episode

SIGMA = math.log(100) / (2 * 2.3263479)
"""Standard deviation of the logarithm of a step's time, which gives p99/p1 = 100."""
SCREEN = '<hierarchy><node class="Button" text="OK" clickable="true" enabled="true" bounds="[0,0][50,50]"/></hierarchy>'
GROUP = 8


@dataclass(frozen=True, slots=True)
class Load:
    """Median time of a device's step and time of the policy, in real seconds. Episode lengths are uniform in `steps`.

    The measurement takes `seconds` after `warm_s`, both by this machine's clock.
    """

    step_s: float = 1.5
    policy_s: float = 1.0
    steps: tuple[int, int] = (5, 15)
    scale: float = 0.1
    warm_s: float = 3.0
    seconds: float = 10.0


class SimulatedDevice:
    """A device that sleeps instead of acting and adds up the time that its episodes needed."""

    def __init__(self, number: int, load: Load) -> None:
        self.device_id = f"device-{number}"
        self.needed_s = 0.0
        """Seconds spent on steps and on answers of the policy; the rest is lost by the collector."""
        self.steps = self.episodes = 0
        self.observation = Observation(b"", 100, 200, SCREEN, "App", 0)
        self._load, self._rng = load, random.Random(number)
        self._left = 0

    async def reset(self, task: Task) -> Observation:
        self._left = self._rng.randint(*self._load.steps)
        return self.observation

    async def step(self, action: Action) -> StepResult:
        load = self._load
        seconds = load.scale * load.step_s * math.exp(self._rng.gauss(0.0, SIGMA))
        await asyncio.sleep(seconds)
        self.needed_s += seconds + load.scale * load.policy_s
        self.steps += 1
        self._left -= 1
        return StepResult(self.observation, self._left == 0)

    async def score(self) -> float:
        self.episodes += 1
        return 1.0

    async def close(self) -> None:
        """Does nothing."""

    async def health(self) -> Health:
        return Health(True)


class FixedLatency:
    """A policy that answers any number of prompts in the same time."""

    def __init__(self, load: Load) -> None:
        self._seconds = load.scale * load.policy_s

    async def decide(self, task: Task, turns: Sequence, observation: Observation, screen: object, key: str) -> Decision:
        await asyncio.sleep(self._seconds)
        return make_decision(Tap(1, 1))


TASK = Task("bench/0", "Bench", "work", {}, 0, 1000, "bench")
EPISODE = EpisodeSettings(deadline_s=3600.0)
Devices = Sequence[SimulatedDevice]


# --- the three collectors, each until it is cancelled --------------------------------------------------------------


async def trajectory(devices: Devices, actor: FixedLatency) -> None:
    """Keeps enough groups queued that no device is ever idle."""
    async with Collector(devices, actor, CollectorSettings(GROUP, episode=EPISODE)) as collector:
        number = 0
        while True:
            while collector.unfinished < 2 * len(devices) + GROUP:
                await collector.dispatch(TASK, f"g{number}")
                number += 1
            async for _ in collector.ready(1):
                pass


async def episode_barrier(devices: Devices, actor: FixedLatency) -> None:
    while True:
        await asyncio.gather(*(run_episode(device, actor, TASK, "bench", EPISODE) for device in devices))


async def step_barrier(devices: Devices, actor: FixedLatency) -> None:
    while True:
        await asyncio.gather(*(device.reset(TASK) for device in devices))
        playing = list(devices)
        while playing:
            decision = await actor.decide(TASK, (), playing[0].observation, None, "")
            results = await asyncio.gather(*(device.step(decision.action) for device in playing))
            ended = [device for device, result in zip(playing, results, strict=True) if result.done]
            for device in ended:
                await device.score()
            playing = [device for device in playing if device not in ended]


COLLECTORS: dict[str, Callable[[Devices, FixedLatency], Coroutine[Any, Any, None]]] = {
    "trajectory": trajectory,
    "episode barrier": episode_barrier,
    "step barrier": step_barrier,
}


# --- measuring -----------------------------------------------------------------------------------------------------


def measure(devices: Sequence[int], seconds: float, scale: float) -> list[dict[str, float | str]]:
    """Returns one result per number of devices and collector.

    `*_per_min` are in real time. `utilization` is the fraction of device time spent on steps and on answers of the
    policy; `lost_ms_per_step` is the rest, by this machine's clock.
    """
    load = Load(scale=scale, seconds=seconds)
    return [asyncio.run(_measure(name, size, load)) for size in devices for name in COLLECTORS]


async def _measure(name: str, size: int, load: Load) -> dict[str, float | str]:
    devices = [SimulatedDevice(i, load) for i in range(size)]
    collecting = asyncio.create_task(COLLECTORS[name](devices, FixedLatency(load)))
    await asyncio.sleep(load.warm_s)
    before, began, cpu = _totals(devices), time.perf_counter(), time.process_time()
    await asyncio.sleep(load.seconds)
    seconds, used = time.perf_counter() - began, time.process_time() - cpu
    needed, steps, episodes = (after - earlier for after, earlier in zip(_totals(devices), before, strict=True))
    collecting.cancel()
    await asyncio.gather(collecting, return_exceptions=True)
    return {
        "devices": size,
        "collector": name,
        "trajectories_per_min": 60 * episodes / seconds * load.scale,
        "steps_per_min": 60 * steps / seconds * load.scale,
        "utilization": needed / (seconds * size),
        "lost_ms_per_step": 1000 * max(0.0, seconds * size - needed) / steps if steps else math.inf,
        "cpu_ms_per_step": 1000 * used / steps if steps else math.inf,
    }


def _totals(devices: Devices) -> tuple[float, int, int]:
    return sum(d.needed_s for d in devices), sum(d.steps for d in devices), sum(d.episodes for d in devices)
