"""Algorithms with made-up features, which say what a value function could know, and a policy without a model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from made_groups import make_task, make_trajectory

from mobilerl.algorithms.base import Algorithm, Resources, make_algorithm
from mobilerl.config import AlgorithmSection
from mobilerl.envs.base import Task
from mobilerl.records import Group, Trajectory

CRITIC = {"updates": 100}
EASY, HARD = (replace(make_task(name), instruction=name, max_steps=6) for name in ("easy", "hard"))


class MadeFeatures:
    """The instruction is one of two directions; a screen's first byte says how promising it looks."""

    size = 4

    def make_room(self, vectors):
        pass

    def screens(self, pngs):
        return torch.tensor([[png[0] / 10 if png else 0.0, 1.0, 1.0, 1.0] for png in pngs])

    def prompts(self, prompts):
        return torch.tensor([[float(len(p)), 1.0, 1.0, 1.0] for p in prompts])

    def instruction(self, text):
        return torch.tensor([1.0, 0.0, 5.0, 5.0]) if text == "easy" else torch.tensor([0.0, 1.0, 5.0, 5.0])


class MadeScorer:
    """A policy that gives each action `shift` nats more than the one that acted did; the reference has -2 per token."""

    version = 0

    def __init__(self, shift: float = 0.0) -> None:
        self.shift = shift

    def logprobs(self, rows, reference=False):
        if reference:
            return [(-2.0,) * len(s.response_ids) for s in rows]
        return [tuple(lp + self.shift / len(s.rollout_logprobs) for lp in s.rollout_logprobs) for s in rows]


def make(
    settings: AlgorithmSection,
    shift: float = 0.0,
    mini_batch_size: int = 4,
    seed: int = 0,
    features: Callable[[], object] = MadeFeatures,
) -> Algorithm:
    """Prompts in hindsight are those that acted, which `shift` makes a difference to."""
    resources = Resources(MadeScorer(shift), features, mini_batch_size, seed, lambda of, solved: of.samples())
    return make_algorithm(settings, resources)


def looking(name: str, task: Task, reward: float, looks: list[int]) -> Trajectory:
    """A trajectory whose screens look as promising as `looks` says, 0 to 9 per step."""
    made = make_trajectory(name, reward, len(looks), task)
    steps = [
        replace(s, observation=replace(s.observation, screenshot=bytes([look])))
        for s, look in zip(made.steps, looks, strict=True)
    ]
    return replace(made, steps=tuple(steps))


def easy_and_hard(success: bool = True) -> list[Group]:
    """The easy task is nearly always solved, the hard one rarely; successes go by way of promising screens."""
    easy = [looking(f"easy-{i}", EASY, float(success and i % 10 != 0), [1, 5, 9 if i % 10 else 0]) for i in range(30)]
    hard = [looking(f"hard-{i}", HARD, float(success and i % 10 == 0), [1, 0, 0 if i % 10 else 9]) for i in range(30)]
    return [Group(EASY, tuple(easy)), Group(HARD, tuple(hard))]
