"""Training on stand-ins for AndroidWorld's server: which instances are played, and which are left out."""

from __future__ import annotations

import asyncio
import json
import random

from androidworld_expert import ExpertActor
from androidworld_play import DOING, FREELY, local_phones_fixture, stand_ins_fixture  # noqa: F401 - fixtures among them

from mobilerl.config import Recipe, load_recipe
from mobilerl.rollout.collector import Collector, CollectorSettings
from mobilerl.suites.base import make_suite
from mobilerl.training.source import SynchronousSource
from mobilerl.training.tasks import TaskSampler

UNEXPECTED = "RecipeDeleteMultipleRecipesWithConstraint"
"""Its reward is free, but not by design."""


def recipe_for(*servers, **settings: object) -> Recipe:
    flags = {
        "suite.type": "androidworld",
        "agent.deadline_s": 3600,
        "tasks.per_template": 1,
        "suite.servers": json.dumps([f"{s.url},any-{s.port}" for s in servers]),
        "tasks.templates": json.dumps([DOING, FREELY, UNEXPECTED]),
        **settings,
    }
    return load_recipe(None, [word for name, value in flags.items() for word in (f"--{name}", str(value))])


def play(recipe: Recipe, servers, iterations: int = 3):
    """(template of every group, the sampler, what it said)"""
    tasks, envs = make_suite(recipe).open()
    sampler, heard = TaskSampler(tasks, recipe.algorithm.curriculum), []
    sampler.report_to(heard.append)

    async def main():
        settings = CollectorSettings(group_size=3, max_retries=3)
        async with Collector(envs, ExpertActor(servers), settings) as collector:
            source = SynchronousSource(collector, sampler, random.Random(0))
            return [g.task.template for i in range(iterations) for g in await source.take(len(tasks), f"{i}")]

    return asyncio.run(main()), sampler, heard


def test_instances_with_a_free_reward_are_left_out_counted_and_named(local_phones, capsys):
    server = local_phones()
    played, sampler, heard = play(recipe_for(server), [server])
    assert set(played) == {DOING} and len(played) > 3
    assert f"left out, because their reward is free by design: {FREELY}\n" in capsys.readouterr().out
    assert sampler.excluded.metrics() == {"rollout/tasks_set_aside": 1, "rollout/free_reward_tasks": 1}
    assert len(heard) == 1 and UNEXPECTED in heard[0] and "its reward is free: the score is 1" in heard[0]
    set_up = [query["task_type"] for _, route, query in server.requests if route == "/task/initialize"]
    assert set_up.count(UNEXPECTED) == 1 and FREELY not in set_up


def test_they_are_played_where_a_judge_gives_the_reward(local_phones):
    server = local_phones()
    judge = {"judge.url": "http://127.0.0.1:1/v1", "judge.model": "m", "judge.reward": "true"}
    played, sampler, _ = play(recipe_for(server, **judge), [server], iterations=1)
    assert set(played) == {DOING, FREELY, UNEXPECTED} and not sampler.excluded.set_aside


def test_a_task_that_androidworld_cannot_set_up_is_set_aside_and_its_device_is_not_blamed(local_phones):
    server = local_phones()
    real = server.do_task_initialize

    def initialize(task_type, task_idx):
        if task_type == UNEXPECTED:
            server.instance("no such task")  # raises, as AndroidWorld's own code does
        return real(task_type, task_idx)

    server.do_task_initialize = initialize
    played, sampler, heard = play(recipe_for(server), [server], iterations=4)
    assert set(played) == {DOING}
    assert len(heard) == 2 and all("POST /task/initialize answered 500" in line for line in heard), (
        "lost, then excluded"
    )
    assert sampler.excluded.metrics() == {"rollout/tasks_set_aside": 1, "rollout/free_reward_tasks": 0}
