"""The board, whose tasks can only be done by looking: its experts, its splits, and prompts that hold nothing of it."""

from __future__ import annotations

import asyncio
from itertools import combinations

import pytest

from mobilerl.config import load_recipe
from mobilerl.envs.base import Finish
from mobilerl.envs.phone.apps.board import COLORS, ICONS
from mobilerl.envs.phone.env import PhoneEnv
from mobilerl.envs.phone.tasks import suite
from mobilerl.envs.phone.tasks.catalogue import ONLY_NAMED
from mobilerl.policy.context import make_context
from mobilerl.sft.demonstrations import demonstrations, single_steps

SEEDS = (0, 1, 2, 3, suite.HELD_OUT_SEEDS, suite.DEVELOPMENT_SEEDS)
each_template = pytest.mark.parametrize("name", ONLY_NAMED)


@each_template
def test_experts_earn_one_and_agents_that_only_finish_nothing(name):
    tasks = [suite.make_task(name, seed) for seed in SEEDS]
    steps = demonstrations(PhoneEnv(screenshots=False), tasks)  # raises if one fails
    assert {step.task.id for step in steps} == {task.id for task in tasks}

    async def idle(env, task):
        await env.reset(task)
        await env.step(Finish("done"))
        return await env.score()

    assert {asyncio.run(idle(PhoneEnv(screenshots=False), task)) for task in tasks} == {0.0}


@each_template
def test_what_to_touch_differs_from_phone_to_phone(name):
    tasks = [suite.make_task(name, seed) for seed in range(40)]
    steps = demonstrations(PhoneEnv(screenshots=False), tasks)
    touched = {(step.action.x, step.action.y) for step in steps if step.action.kind == "tap"}
    assert len(touched) == len(COLORS)


@each_template
def test_only_who_names_a_template_gets_it(name):
    assert name not in {task.template for task in (*suite.train_tasks(1), *suite.held_out_tasks(1))}
    assert {task.template for task in suite.train_tasks(1, chosen=[name])} == {name}
    train, dev, test = (
        suite.train_tasks(30, chosen=[name]),
        *(suite.held_out_tasks(6, s, [name]) for s in ("dev", "test")),
    )
    suite.check_no_leak(train, dev, test)
    assert not any(a.instruction == b.instruction for x, y in combinations((train, dev, test), 2) for a in x for b in y)


def test_a_prompt_of_the_recipe_has_the_screenshot_and_no_text_of_the_screen():
    recipe = load_recipe("pixels/sft")
    context = make_context(recipe.agent)
    tasks = [suite.make_task(name, 0) for name in recipe.tasks.templates]
    steps = demonstrations(PhoneEnv(width=recipe.phone.width, height=recipe.phone.height), tasks, context)
    for step in steps:
        (message,), images = step.messages(context)
        text = message["content"][-1]["text"]
        assert images == [step.observation.screenshot] and [part["type"] for part in message["content"][:-1]] == [
            "image"
        ]
        said = {*text.replace(step.task.instruction, "").split()}
        assert said == {"app:", step.observation.app, "history:"}
    assert any(step.turns for step in steps) and single_steps(steps, recipe_rng())
    shown = {word for step in steps for element in step.screen.elements for word in element.text.split()}
    assert {*COLORS, *ICONS} <= shown  # which the control that reads is told


def recipe_rng():
    import random

    return random.Random(0)
