"""The words the tiny model's tokenizer must know: those on the training templates' screens and in their tasks."""

from __future__ import annotations

import asyncio

from envs.phone import words
from envs.phone.env import PhoneEnv
from envs.phone.popups import CATALOGUE
from envs.phone.tasks import suite
from sft.demonstrations import demonstrate

INSTANCES = 4
ACTION_WORDS = (
    "history app error tap hold type open swipe up down left right back home enter wait finish invalid nothing "
    "what is read short medium long infeasible field button checked unchecked selected focused"
)


def corpus(env: PhoneEnv) -> list[str]:
    """Texts that hold every word. Deterministic; templates reserved for testing are not looked at."""

    async def crawl() -> list[str]:
        texts: list[str] = []
        for cls in suite.templates("train"):
            for seed in range(INSTANCES):
                for step in await demonstrate(env, suite.make_task(cls.__name__, seed)):
                    texts += [step.task.instruction, step.screen.render("marks"), step.observation.app]
                    texts += [turn.summary for turn in step.turns]
        return texts

    pools = [" ".join(map(str, pool)) for pool in vars(words).values() if isinstance(pool, tuple)]
    popups = [f"{p.title} {p.text} {p.decline} {p.accept}" for p in CATALOGUE]
    return [*asyncio.run(crawl()), *pools, *popups, ACTION_WORDS]
