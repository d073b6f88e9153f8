"""Rows to measure with: expert episodes on the embedded phone.

An expert's rows have what rollouts have: screens, prompts of many lengths, short replies. Every episode is another task
instance and half of them meet a pop-up, so that few prompts are equal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from envs.base import Task
from envs.phone.env import PhoneEnv
from envs.phone.tasks import suite
from mobilerl.agent.context import ContextPolicy
from mobilerl.config import AgentSection
from mobilerl.engines.codec import Codec
from mobilerl.engines.local import LocalEngine, LocalSettings
from mobilerl.records import Completion, Row, Status, Step, Trajectory
from mobilerl.setup import make_context
from sft.demonstrations import demonstrate
from sft.reasoning import written_thought
from sft.samples import ExpertStep, encode


@dataclass(frozen=True, slots=True)
class Look:
    """What the phone's screen measures and how prompts are made of it."""

    width: int
    height: int
    agent: AgentSection


SMALL = Look(360, 720, AgentSection())
"""The recipes' own."""
FULL = Look(1080, 2400, AgentSection(grounding="box", screen_style="mobilerl", layout="chat", screenshots=2,
                                     history_thoughts=True))  # fmt: skip
"""MobileRL's: two screenshots, and the screen as text."""


def expert_rows(model: Path, count: int, look: Look) -> list[Trajectory]:
    """Episodes with at least `count` rows in all, encoded for `model`, with its own log-probabilities as the rollout's.

    The replies are the expert's, each with a written thought.
    """
    context = make_context(look.agent)
    codec = Codec.load(model)
    trajectories: list[Trajectory] = []
    rows = 0
    for steps in episodes(PhoneEnv("bench", look.width, look.height, popup_rate=0.5)):
        trajectories.append(_trajectory(steps, context, codec))
        rows += len(steps)
        if rows >= count:
            break
    return _with_logprobs(trajectories, model)


def episodes(env: PhoneEnv) -> Iterator[list[ExpertStep]]:
    """One instance of each training template after the other, without end."""
    seed = 0
    while True:
        for template in suite.templates("train"):
            yield asyncio.run(demonstrate(env, suite.make_task(template.__name__, seed)))
        seed += 1


def _trajectory(steps: Sequence[ExpertStep], context: ContextPolicy, codec: Codec) -> Trajectory:
    task: Task = steps[0].task
    return Trajectory(task.id, task, tuple(_step(s, context, codec) for s in steps), 1.0, Status.FINISHED, "bench")


def _step(step: ExpertStep, context: ContextPolicy, codec: Codec) -> Step:
    thought = written_thought(step)
    sample = encode(step, context, codec, thought)
    text = step.reply(context, thought)
    unknown = (0.0,) * len(sample.response_ids)
    completion = Completion(sample.prompt_ids, sample.response_ids, unknown, 0, text)
    return Step(step.observation, completion, sample.images, thought, step.action)


def _with_logprobs(trajectories: Sequence[Trajectory], model: Path) -> list[Trajectory]:
    rows: list[Row] = [row for t in trajectories for row in t.rows()]
    found = iter(LocalEngine(model, LocalSettings(micro_tokens=4096)).logprobs(rows))
    return [
        replace(t, steps=tuple(replace(s, completion=replace(s.completion, logprobs=next(found))) for s in t.steps))
        for t in trajectories
    ]
