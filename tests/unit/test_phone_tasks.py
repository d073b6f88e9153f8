"""Every task template: its expert earns 1.0, idle agents earn 0, and no goal is in two splits."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from itertools import combinations

import pytest

from mobilerl.envs.base import Action, Finish, Task
from mobilerl.envs.phone.apps.catalogue import APPS
from mobilerl.envs.phone.env import PhoneEnv
from mobilerl.envs.phone.phone import Phone
from mobilerl.envs.phone.tasks.base import INFEASIBLE, Admin, Template
from mobilerl.envs.phone.tasks.catalogue import TEMPLATES
from mobilerl.envs.phone.tasks.expert import ExpertAgent
from mobilerl.envs.phone.tasks.suite import (
    DEVELOPMENT_SEEDS,
    FIRST_SEEDS,
    HELD_OUT_SEEDS,
    SPLITS,
    check_no_leak,
    goal_split,
    held_out_tasks,
    make_task,
    train_tasks,
)
from mobilerl.envs.phone.transport import InProcessTransport

SEEDS = (0, 1, 2, 3, HELD_OUT_SEEDS, DEVELOPMENT_SEEDS)
each_template = pytest.mark.parametrize("name", TEMPLATES)


async def expert_episode(env: PhoneEnv, task: Task) -> tuple[list[Action], float]:
    observation = await env.reset(task)
    agent, actions, done = ExpertAgent(env.template), [], False
    while not done:
        actions.append(agent.act(observation))
        result = await env.step(actions[-1])
        observation, done = result.observation, result.done
    return actions, await env.score()


async def score_of(env: PhoneEnv, task: Task, action: Action) -> float:
    await env.reset(task)
    await env.step(action)
    return await env.score()


@each_template
@pytest.mark.parametrize("popup_rate", [0.0, 0.7])
def test_the_expert_earns_one(name, popup_rate):
    env = PhoneEnv(popup_rate=popup_rate, screenshots=False)
    for seed in SEEDS:
        task = make_task(name, seed)
        actions, score = asyncio.run(expert_episode(env, task))
        assert score == 1.0, f"seed {seed}: {task.instruction}"
        assert isinstance(actions[-1], Finish)
        if popup_rate == 0:
            assert len(actions) <= TEMPLATES[name].steps, f"seed {seed}: {actions}"


@each_template
def test_idle_agents_earn_nothing(name):
    env = PhoneEnv(screenshots=False)
    idle = [Finish(""), Finish("done")] + ([Finish(INFEASIBLE)] if TEMPLATES[name].feasible else [])
    for seed in SEEDS:
        for action in idle:
            assert asyncio.run(score_of(env, make_task(name, seed), action)) == 0.0, f"seed {seed}: {action}"


@each_template
def test_instances(name):
    train, held_out = [make_task(name, s) for s in range(12)], [make_task(name, HELD_OUT_SEEDS + s) for s in range(4)]
    assert len({json.dumps(dict(t.params), sort_keys=True) for t in train}) >= 4
    assert make_task(name, 5) == make_task(name, 5)
    for task in train + held_out:
        assert "{" not in task.instruction and 3 <= len(task.instruction.split()) <= 20
        assert task.max_steps == 2 * TEMPLATES[name].steps + 2 and json.loads(json.dumps(task.params)) == task.params


@each_template
def test_no_goal_is_in_two_splits(name):
    goals = {}
    for split, count in {"train": 200, "dev": 6, "test": 6}.items():
        tasks = [make_task(name, FIRST_SEEDS[split] + i) for i in range(count)]
        assert {goal_split(name, task.params, task.instruction) for task in tasks} == {split}
        goals[split] = {task.instruction.casefold() for task in tasks}
    assert not any(goals[one] & goals[other] for one, other in combinations(SPLITS, 2))
    assert len(goals["test"]) >= 3 and len(goals["dev"]) >= 3


def test_wordings_of_a_held_out_goal_are_held_out_with_it():
    for template, held_out in (("MessagesSend", True), ("NotesDelete", False)):  # of 240 goals, of 16
        train, test = ([make_task(template, first + i) for i in range(400)] for first in (0, HELD_OUT_SEEDS))
        said = [{json.dumps(dict(task.params)) for task in tasks} for tasks in (train, test)]
        assert said[0].isdisjoint(said[1]) == held_out


def test_a_template_with_too_few_parameters_is_told_what_to_do(monkeypatch):
    class Narrow(Template):
        app, instructions = "Notes", ("Do {this}",)
        params = {"this": ("a", "b")}

    monkeypatch.setitem(TEMPLATES, "Narrow", Narrow)
    says = "template Narrow: 500 draws gave 2 different goals, none of which is for dev.*Give its `params` more values"
    with pytest.raises(ValueError, match=says):
        make_task("Narrow", DEVELOPMENT_SEEDS)


def test_splits_do_not_meet():
    train, dev, test = train_tasks(3), held_out_tasks(3, "dev"), held_out_tasks(3)
    check_no_leak(train, dev, test)
    assert len({t.id for t in train + dev + test}) == len(train) + len(dev) + len(test)
    elsewhere = replace(dev[-1], seed=HELD_OUT_SEEDS, instruction="other")
    for splits, says in (
        ((train, [replace(test[0], seed=0)]), "seed 0"),
        ((train, [replace(test[0], instruction=train[0].instruction.upper())]), "the goal of .* is in another split"),
        ((train, dev, [elsewhere]), "the template of .* is in another split"),
        ((train, test, test), "seed"),
        ((dev,), "reserved for dev"),
    ):
        with pytest.raises(ValueError, match=f"leak: .*{says}"):
            check_no_leak(*splits)


def test_a_note_written_over_another_one_was_not_created():
    task, phone = make_task("NotesCreate", 0), Phone(APPS)
    phone.reset(0)
    admin = Admin(InProcessTransport(phone, "sim-0"))
    template = TEMPLATES["NotesCreate"](task.params)
    template.setup(admin)
    notes, wanted = phone.app("Notes"), {"title": template.p["title"], "body": template.p["body"]}
    old = dict(notes.db["notes"][0])
    notes.db["notes"][0].update(wanted)
    assert not template.check(admin, "")
    notes.db["notes"][0].update(old)
    notes.insert("notes", **wanted)
    assert template.check(admin, "")
    notes.remove("notes", old["_id"])
    assert not template.check(admin, "")
