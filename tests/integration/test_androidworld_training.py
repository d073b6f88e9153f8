"""Training on stand-ins for AndroidWorld's server: which instances are played and evaluated on, and which are left
out."""

from __future__ import annotations

import asyncio
import json
import random

from androidworld_expert import ExpertActor
from androidworld_play import DOING, FREELY, local_phones_fixture, stand_ins_fixture  # noqa: F401 - fixtures among them

from mobilerl.config import Recipe, load_recipe
from mobilerl.envs.androidworld.tasks import DEVELOPMENT_SEED, FACTS
from mobilerl.records.files import load_trajectories
from mobilerl.rollout.collector import Collector, CollectorSettings
from mobilerl.suites.base import is_held_out, make_suite
from mobilerl.training import online
from mobilerl.training.run import Run
from mobilerl.training.source import SynchronousSource
from mobilerl.training.tasks import TaskSampler
from mobilerl.training.tracking import read_metrics

UNEXPECTED = "RecipeDeleteMultipleRecipesWithConstraint"
"""Its reward is free, but not by design."""
WALL_CLOCK = "MarkorCreateFolder"


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


def test_development_instances_are_those_that_training_has_not(local_phones, capsys):
    """Behind some names are instances without parameters, which are equal for all seeds."""
    server = local_phones()
    templates = sorted(set(FACTS) - {WALL_CLOCK})
    flags = {"tasks.templates": json.dumps(templates), "tasks.per_template": 2, "eval.every": 1, "eval.instances": 2}
    suite = make_suite(recipe_for(server, **flags))
    assert suite.held_out(2) == {}, "before a server has been asked"
    trained, _ = suite.open()
    (development,) = suite.held_out(2).values()
    assert {t.seed for t in development} == {DEVELOPMENT_SEED} and {t.seed for t in trained} == {1000}
    assert all(is_held_out(t) for t in development) and not any(is_held_out(t) for t in trained)
    seen = {(t.template, t.instruction) for t in trained}
    assert not seen & {(t.template, t.instruction) for t in development}
    asked = {(t.template, i) for t in trained for i in range(2)}
    server.make_suite("android_world", 2, DEVELOPMENT_SEED)
    left_out = asked - {(t.template, t.params["index"]) for t in development}
    assert left_out and all((name, server.instance(name, i).goal) in seen for name, i in left_out)
    said = f"evaluating on {len(development)} of {len(asked)} instances of seed {DEVELOPMENT_SEED}"
    assert said in capsys.readouterr().out


def test_a_training_run_evaluates_on_them(local_phones, tmp_path, pytestconfig):
    servers = [local_phones(), local_phones()]
    checkpoint = pytestconfig.rootpath / "recipes/generated/checkpoint"
    flags = {
        "model": checkpoint,
        "engine.lora_rank": 0,
        "tasks.templates": json.dumps([DOING, UNEXPECTED]),
        "suite.step_cap": 2,
        "eval.every": 1,
        "eval.instances": 2,
        "train.iterations": 1,
        "train.trajectories_every": 1,
        "rollout.tasks_per_iteration": 1,
        "algorithm.group_size": 2,
        "algorithm.dynamic_sampling": "false",
        "engine.max_pixels": "null",
        "engine.gradient_checkpointing": "false",
    }
    online.train(Run.open(recipe_for(*servers, **flags), tmp_path / "run", resume=False))
    first, second = read_metrics(tmp_path / "run/metrics.jsonl")
    assert (first["iteration"], second["iteration"]) == (0, 1)
    assert all(row["eval/success_rate"] is not None for row in (first, second))
    assert {t.task.seed for t in load_trajectories(tmp_path / "run/trajectories/iter-000001.jsonl")} == {1000}
    asked = [query for s in servers for _, route, query in s.requests if route == "/suite/reinitialize"]
    # Its goals are read, then each of two evaluations plays its instances.
    assert sum(query["seed"] == str(DEVELOPMENT_SEED) for query in asked) >= 1 + 2 * 2


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
