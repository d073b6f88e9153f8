"""Expert demonstrations on the embedded phone, and single-step instructions made from the screens they pass.

Demonstrations are limited the way recorded ones are: shortest paths only, no pop-ups, and only the templates whose
`demo` is true. The single-step part plays the role AndroidControl's low-level instructions have in MobileRL's data: the
instruction names one thing to do on the current screen ("tap Save").
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Sequence
from dataclasses import replace

from envs.base import InfraError, Tap, Task
from envs.phone.env import PhoneEnv
from envs.phone.tasks.expert import ExpertAgent
from mobilerl.agent.actions import describe
from mobilerl.agent.context import Turn
from mobilerl.agent.screen import Element, Screen, parse_screen
from sft.samples import ExpertStep


async def demonstrate(env: PhoneEnv, task: Task) -> list[ExpertStep]:
    """The expert's episode. Raises InfraError when it does not succeed: a wrong demonstration must not be learned."""
    observation = await env.reset(task)
    expert = ExpertAgent(env.template)
    steps: list[ExpertStep] = []
    turns: list[Turn] = []
    done = False
    while not done:
        screen = parse_screen(observation.xml, observation.width, observation.height)
        action = expert.act(observation)
        steps.append(ExpertStep(task, tuple(turns), observation, screen, action))
        turns.append(Turn(observation, "", "", action, describe(action, screen)))
        result = await env.step(action)
        observation, done = result.observation, result.done
    if await env.score() < 1.0:
        raise InfraError(f"the expert failed {task.id}: {task.instruction}")
    return steps


def demonstrations(env: PhoneEnv, tasks: Iterable[Task]) -> list[ExpertStep]:
    """All steps of the expert's episodes of `tasks`."""

    async def play() -> list[ExpertStep]:
        return [step for task in tasks for step in await demonstrate(env, task)]

    return asyncio.run(play())


def single_steps(steps: Sequence[ExpertStep], per_step: int, rng: random.Random) -> list[ExpertStep]:
    """For every step `per_step` instructions that each name one element of its screen, and the action they mean."""
    made: list[ExpertStep] = []
    for step in steps:
        choices = _unambiguous(step.screen)
        for element in rng.sample(choices, min(per_step, len(choices))):
            action = Tap(*element.centre)
            instruction = describe(action, step.screen)
            task = replace(step.task, instruction=instruction)
            made.append(ExpertStep(task, (), step.observation, step.screen, action))
    return made


def _unambiguous(screen: Screen) -> list[Element]:
    """Elements that can be tapped and whose name no other element of the screen shares."""
    names: dict[str, int] = {}
    for element in screen.elements:
        name = element.text.split("|")[0] or element.role
        names[name] = names.get(name, 0) + 1
    return [
        e for e in screen.elements
        if e.mark is not None and "click" in e.actions and names[e.text.split("|")[0] or e.role] == 1
    ]  # fmt: skip

