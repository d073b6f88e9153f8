"""Every task template: its expert earns 1.0, idle agents earn 0, and it has training and held-out instances."""

from __future__ import annotations

import asyncio
import json

import pytest

from mobilerl.envs.base import Action, Finish, Task
from mobilerl.envs.phone.apps.catalogue import APPS
from mobilerl.envs.phone.env import PhoneEnv
from mobilerl.envs.phone.phone import Phone
from mobilerl.envs.phone.tasks.base import INFEASIBLE, Admin, Template
from mobilerl.envs.phone.tasks.catalogue import TEMPLATES
from mobilerl.envs.phone.tasks.expert import ExpertAgent
from mobilerl.envs.phone.tasks.suite import HELD_OUT_SEEDS, check_no_leak, held_out, make_task, test_tasks, train_tasks
from mobilerl.envs.phone.transport import InProcessTransport

test_tasks.__test__ = False  # a function of the suite, not of this file
SEEDS = (0, 1, 2, 3, HELD_OUT_SEEDS, HELD_OUT_SEEDS + 1)
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
    train = [make_task(name, s) for s in range(12)]
    test = [make_task(name, HELD_OUT_SEEDS + s) for s in range(4)]
    assert not any(held_out(name, dict(t.params)) for t in train) and all(held_out(name, dict(t.params)) for t in test)
    assert len({json.dumps(dict(t.params), sort_keys=True) for t in train}) >= 4
    assert make_task(name, 5) == make_task(name, 5)
    for task in train + test:
        assert "{" not in task.instruction and 3 <= len(task.instruction.split()) <= 20
        assert task.max_steps == 2 * TEMPLATES[name].steps + 2 and json.loads(json.dumps(task.params)) == task.params


def test_a_template_with_too_few_parameters_is_told_what_to_do(monkeypatch):
    class Narrow(Template):
        app, instructions = "Notes", ("Do {this}",)
        params = {"this": ("a", "b")}

    monkeypatch.setitem(TEMPLATES, "Narrow", Narrow)
    says = "template Narrow: 500 draws gave 2 different parameters.*Give its `params` more values"
    with pytest.raises(ValueError, match=says):
        make_task("Narrow", HELD_OUT_SEEDS)


def test_train_and_test_do_not_meet():
    train, test = train_tasks(3), test_tasks(3)
    check_no_leak(train, test)
    assert len({t.id for t in train + test}) == len(train) + len(test)
    with pytest.raises(ValueError, match="seed"):
        check_no_leak(train, train[:1])
    with pytest.raises(ValueError, match="reserved|seed"):
        check_no_leak(test, test)


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
