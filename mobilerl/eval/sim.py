"""The suite `sim`: the embedded phone's tasks, with held-out instances as the headline.

`test` plays held-out instances (parameters and seeds never trained on): of the training templates, which is the
headline `success_rate`, and of the templates never trained on, reported beside it as `unseen_templates`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from envs.base import MobileEnv, Task
from envs.phone.tasks import suite
from mobilerl.agent.actor import Actor
from mobilerl.eval.report import EpisodeResult, build_results
from mobilerl.records import Group
from mobilerl.rollout.collector import Collector, CollectorSettings
from mobilerl.rollout.episode import EpisodeSettings

UNSEEN = "unseen_templates"


def eval_tasks(split: str, instances: int) -> list[Task]:
    """`train`: training instances; `test`: held-out ones of every template; `all`: both."""
    if split not in ("train", "test", "all"):
        raise ValueError(f"--split is {split!r}; choose train, test or all")
    trained = suite.train_tasks(instances) if split in ("train", "all") else []
    return trained + (suite.test_tasks(instances) if split in ("test", "all") else [])


def play(envs: Sequence[MobileEnv], actor: Actor, tasks: Sequence[Task], trials: int, episode: EpisodeSettings,
         connect: Callable[[Collector], None] = lambda collector: None,
         poke: Callable[[], None] = lambda: None) -> list[Group]:  # fmt: skip
    """All episodes; a failing device is retried, and what still fails stays out of the groups.

    `connect` is shown the collector before it starts to play; `poke` is called whenever an episode has ended.
    """

    async def run() -> list[Group]:
        settings = CollectorSettings(group_size=trials, min_group=0.0, episode=episode)
        async with Collector(envs, actor, settings, poke) as collector:
            connect(collector)
            return await collector.collect(tasks, "eval", trials)

    return asyncio.run(run())


def results_of(groups: Sequence[Group], tasks: Sequence[Task], trials: int, protocol: dict[str, Any]) -> dict[str, Any]:
    """results.json's content. Episodes that never came back count as infrastructure errors."""
    played = {g.task.id: g for g in groups}
    episodes = [e for task in tasks for e in _episodes(task, played.get(task.id), trials)]
    unseen = [e for e in episodes if e.split == "test"]
    seen = [e for e in episodes if e.split != "test"]
    results = build_results("sim", protocol, seen or unseen)
    if seen and unseen:
        beside = build_results("sim", protocol, unseen)
        results["per_task"] |= beside["per_task"]
        results[UNSEEN] = {k: beside[k] for k in ("success_rate", "ci95", "trials", "successes", "errors", "instances")}
    return results


def _episodes(task: Task, group: Group | None, trials: int) -> list[EpisodeResult]:
    split = suite.template(task.template).split
    common = {"task_id": task.id, "template": task.template, "app": task.app, "feasible": task.feasible, "split": split}
    done = group.trajectories if group else ()
    rows = [
        EpisodeResult(**common, trial=i, reward=t.reward, success=t.success, steps=len(t.steps), status=t.status)
        for i, t in enumerate(done)
    ]
    lost = range(len(done), trials)
    return rows + [
        EpisodeResult(**common, trial=i, reward=0.0, success=False, steps=0, status="infra_error",
                      error="the device failed on every try")
        for i in lost
    ]  # fmt: skip
