"""A control for policies that see: every prompt gets the screenshots of another episode."""

from __future__ import annotations

import random
from collections.abc import Sequence

from mobilerl.policy.actor import Messages, Policy
from mobilerl.records import Completion
from mobilerl.records.engine import Sampling

Images = tuple[bytes, ...]


class ShuffledScreens:
    """Shows `policy` the screenshots of another episode, preferably at the same step, in the place of its own.

    A policy that ignores the pixels does as well as before, one that needs them falls to chance. Screenshots are from
    earlier prompts, so only the very first prompt has its own. Deterministic if the prompts come in a fixed order.
    """

    def __init__(self, policy: Policy, seed: int) -> None:
        self._policy, self._rng = policy, random.Random(seed)
        self._shown: list[list[tuple[str, Images]]] = []
        """For every step of an episode, the episodes that got there and their screenshots."""
        self._steps: dict[str, int] = {}

    async def act(self, messages: Messages, images: Sequence[bytes], sampling: Sampling, key: str = "") -> Completion:
        step = self._steps.get(key, 0)
        self._steps[key] = step + 1
        if len(self._shown) <= step:
            self._shown.append([])
        others = self._of_others(key, self._shown[step], len(images))
        others = others or [shown for at in self._shown for shown in self._of_others(key, at, len(images))]
        self._shown[step].append((key, tuple(images)))
        return await self._policy.act(messages, self._rng.choice(others) if others else images, sampling, key)

    @staticmethod
    def _of_others(key: str, shown: Sequence[tuple[str, Images]], count: int) -> list[Images]:
        return [images for other, images in shown if other != key and len(images) == count]
