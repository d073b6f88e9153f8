"""Models and samples for the benchmarks: an untrained tiny model, and expert episodes on the embedded phone.

Expert samples are like those of rollouts: screens, prompts of varying length, short responses. Every episode is a
different task instance, and half of them have a pop-up, so that few prompts are equal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import torch

from mobilerl.config import AgentSection
from mobilerl.engines.local import LocalEngine, LocalSettings
from mobilerl.envs.phone.env import PhoneEnv
from mobilerl.envs.phone.tasks import suite
from mobilerl.models import tiny
from mobilerl.models.codec import Codec
from mobilerl.policy.context import ContextPolicy, make_context
from mobilerl.records import Completion, Status, Step, TrainingSample, Trajectory
from mobilerl.sft.demonstrations import corpus, demonstrate
from mobilerl.sft.reasoning import written_thought
from mobilerl.sft.samples import ExpertStep, encode


def make_checkpoint(path: Path, hidden: int, layers: int) -> None:
    """Makes an untrained checkpoint with the words of the embedded phone as vocabulary and a head size of 32."""
    torch.manual_seed(0)
    tiny.create(
        path, corpus(PhoneEnv("bench", screenshots=False)), hidden=hidden, layers=layers, heads=max(1, hidden // 32)
    )


def expert_rows(model: Path, count: int) -> list[TrainingSample]:
    """Makes `count` samples with written thoughts, encoded for `model`, whose log-probabilities are the rollout's."""
    rows = list(islice(rows_of(PhoneEnv("bench", 360, 720, popup_rate=0.5), Codec.load(model)), count))
    logprobs = LocalEngine(model, LocalSettings(micro_batch_tokens=4096)).logprobs(rows)
    return [replace(row, rollout_logprobs=found) for row, found in zip(rows, logprobs, strict=True)]


def rows_of(env: PhoneEnv, codec: Codec) -> Iterator[TrainingSample]:
    """Yields samples of experts on `env` endlessly, without rollout log-probabilities."""
    context = make_context(AgentSection(grounding="mark", screen_style="marks", layout="compact"))
    for number, steps in enumerate(episodes(env)):
        made = tuple(_step(step, context, codec) for step in steps)
        yield from Trajectory(f"t{number}", steps[0].task, made, 1.0, Status.FINISHED, "bench").samples()


def episodes(env: PhoneEnv) -> Iterator[list[ExpertStep]]:
    """Yields demonstrations of all training templates in turn, endlessly, with a new seed each round."""
    seed = 0
    while True:
        for template in suite.templates("train"):
            yield asyncio.run(demonstrate(env, suite.make_task(template.__name__, seed)))
        seed += 1


def _step(step: ExpertStep, context: ContextPolicy, codec: Codec) -> Step:
    thought = written_thought(step, context)
    sample = encode(step, context, codec, thought)
    unknown = (0.0,) * len(sample.response_ids)
    completion = Completion(sample.prompt_ids, sample.response_ids, unknown, 0, step.write_response(context, thought))
    return Step(step.observation, completion, sample.images, thought, step.action)
