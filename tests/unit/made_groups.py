"""Groups and trajectories for tests, by rewards and lengths."""

from __future__ import annotations

from collections.abc import Sequence

from mobilerl.envs.base import Observation, Tap, Task
from mobilerl.records import Completion, Group, Status, Step, Trajectory


def make_task(name: str = "a", template: str = "T") -> Task:
    return Task(f"s/{name}", template, f"do {name}", {}, 0, 9, "s")


def make_step(index: int, version: int = 0, screenshot: bytes = b"", tag: int = 0) -> Step:
    completion = Completion((1, 2, tag), (3, index), (-0.5, -0.25 - index), version, "response")
    seen = Observation(screenshot, 100, 200, "<hierarchy/>", "App", index)
    return Step(seen, completion, (screenshot,) if screenshot else (), "thought", Tap(1, 2), {"act": 0.5})


def make_trajectory(
    name: str, reward: float, length: int, task: Task | None = None, version: int = 0, screenshot: bytes = b""
) -> Trajectory:
    steps = tuple(make_step(i, version, screenshot) for i in range(length))
    return Trajectory(name, task or make_task(), steps, reward, Status.FINISHED, "d0", wall_s=1.5)


def make_group(name: str, rewards: Sequence[float], lengths: Sequence[int], task: Task | None = None) -> Group:
    task = task or make_task(name)
    pairs = enumerate(zip(rewards, lengths, strict=True))
    return Group(task, tuple(make_trajectory(f"{name}-{i}", r, n, task) for i, (r, n) in pairs))
