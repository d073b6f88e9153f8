"""Expert demonstrations on the embedded phone, and single-step instructions made from their screens.

Like recorded demonstrations they are limited: shortest paths only, pop-ups only with `sft.popup_rate`, and only
templates whose `demo` is true. The single-step instructions ("tap Save") play the role of AndroidControl's low-level
instructions in MobileRL's data.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from mobilerl.envs.base import Action, InfraError, MobileEnv, Observation, Tap, Task, as_worded
from mobilerl.envs.phone import words
from mobilerl.envs.phone.env import PhoneEnv
from mobilerl.envs.phone.generated import lexicon, phrasing
from mobilerl.envs.phone.popups import CATALOGUE
from mobilerl.envs.phone.tasks import suite
from mobilerl.envs.phone.tasks.catalogue import ONLY_NAMED
from mobilerl.envs.phone.tasks.expert import ExpertAgent
from mobilerl.policy.actions import describe
from mobilerl.policy.context import ContextPolicy
from mobilerl.policy.screen import Element, Screen, parse_screen
from mobilerl.policy.turns import Turn
from mobilerl.sft.samples import ExpertStep
from mobilerl.suites.base import Expert

VOCABULARY_INSTANCES = 4
"""Instances of every training template whose texts form the tiny model's vocabulary."""
DEFAULT_CONTEXT = ContextPolicy()
ACTION_WORDS = (
    "history app error tap hold type open swipe up down left right back home enter wait finish invalid nothing "
    "what is read short medium long infeasible field button checked unchecked selected focused"
)


class PhoneExpert:
    """The scripted expert of the embedded phone's current task."""

    def __init__(self, env: PhoneEnv) -> None:
        self._template, self._agent = env.template, ExpertAgent(env.template)

    @property
    def thought(self) -> str:
        return self._template.thought

    @property
    def purpose(self) -> str:
        return self._template.purpose

    def act(self, task: Task, observation: Observation, screen: Screen) -> Action:
        return self._agent.act(observation)


async def demonstrate(
    env: MobileEnv,
    task: Task,
    context: ContextPolicy = DEFAULT_CONTEXT,
    random_marks: bool = False,
    make_expert: Callable[[Any], Expert] = PhoneExpert,
) -> list[ExpertStep]:
    """The expert's episode, with marks as numbered by `parse_screen`. Raises InfraError if it does not succeed.

    `context` is the format of the earlier responses; published formats write them when a prompt is built. `make_expert`
    makes the expert of the episode that an environment has begun.
    """
    observation = await env.reset(task)
    task, expert = as_worded(env, task), make_expert(env)
    steps: list[ExpertStep] = []
    turns: list[Turn] = []
    purpose, ended = "", False
    while not ended:
        screen = parse_screen(observation.xml, observation.width, observation.height, random_marks)
        action = expert.act(task, observation, screen)
        thought, done = expert.thought, describe(action, screen)
        begun, purpose = ("" if expert.purpose == purpose else expert.purpose), expert.purpose
        steps.append(ExpertStep(task, tuple(turns), observation, screen, action, thought=thought, purpose=begun))
        said = f"{begun}; {thought or done}" if begun else thought
        response = context.write_response(action, screen, said or None) if context.names_elements else ""
        turns.append(Turn(observation, response, said, action, done))
        result = await env.step(action)
        observation, ended = result.observation, result.done
    if await env.score() < 1.0:
        raise InfraError(f"the expert failed {task.id}: {task.instruction}")
    return steps


def demonstrations(
    env: MobileEnv,
    tasks: Iterable[Task],
    context: ContextPolicy = DEFAULT_CONTEXT,
    random_marks: bool = False,
    make_expert: Callable[[Any], Expert] = PhoneExpert,
) -> list[ExpertStep]:
    """All steps of the expert's episodes for `tasks`. Closes the environment."""

    async def collect() -> list[ExpertStep]:
        try:
            return [s for task in tasks for s in await demonstrate(env, task, context, random_marks, make_expert)]
        finally:
            await env.close()

    return asyncio.run(collect())


def single_steps(steps: Sequence[ExpertStep], rng: random.Random) -> list[ExpertStep]:
    """For every step, an instruction that names one element of its screen, and the matching action."""
    made: list[ExpertStep] = []
    for step in steps:
        if choices := _unambiguous(step.screen):
            action = Tap(*rng.choice(choices).centre)
            task = replace(step.task, instruction=describe(action, step.screen))
            made.append(ExpertStep(task, (), step.observation, step.screen, action))
    return made


def _unambiguous(screen: Screen) -> list[Element]:
    """Tappable elements whose name is unique on the screen."""
    names = Counter(map(_name, screen.elements))
    return [e for e in screen.elements if e.mark is not None and "click" in e.actions and names[_name(e)] == 1]


def _name(element: Element) -> str:
    return element.text.split("|")[0] or element.role


def corpus(env: PhoneEnv, named: Sequence[str] = ()) -> list[str]:
    """Texts with every word that the tiny model needs: screens and tasks of the training templates, and of those of the
    `named` templates that are used only where they are named. Deterministic."""

    async def crawl() -> list[str]:
        texts: list[str] = []
        for name in [t.__name__ for t in suite.templates("train")] + [n for n in ONLY_NAMED if n in named]:
            for seed in range(VOCABULARY_INSTANCES):
                for step in await demonstrate(env, suite.make_task(name, seed)):
                    texts += [step.task.instruction, step.screen.render("marks"), step.observation.app]
                    texts += [turn.summary for turn in step.turns]
        return texts

    pools = [" ".join(map(str, pool)) for pool in vars(words).values() if isinstance(pool, tuple)]
    popups = [f"{p.title} {p.text} {p.decline} {p.accept}" for p in CATALOGUE]
    return [*asyncio.run(crawl()), *pools, *popups, ACTION_WORDS]


def generated_corpus() -> list[str]:
    """Texts with every word of generated apps and tasks."""
    forms = [form for kind in phrasing.FORMS.values() for form in kind] + [" ".join(v) for v in phrasing.VERBS.values()]
    plurals = map(lexicon.plural, lexicon.MADE_UP)
    return [
        *lexicon.ALL,
        *lexicon.MADE_UP,
        *plurals,
        *forms,
        *phrasing.PURPOSES.values(),
        *phrasing.APP_FORMS,
        *phrasing.FROM_FORMS,
        *phrasing.JOINTS,
    ]
