"""Prompts of an episode in hindsight, which tell the policy how another episode solved the task."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mobilerl.envs.base import Task
from mobilerl.policy.actions import describe
from mobilerl.policy.context import ContextPolicy, build_messages
from mobilerl.policy.screen import Screen, parse_screen
from mobilerl.policy.turns import Turn
from mobilerl.records import Step, TrainingSample, Trajectory

Encode = Callable[[Sequence[dict[str, Any]], Sequence[bytes]], tuple[int, ...]]
"""Makes the token ids of a prompt from its messages and images."""


@dataclass(frozen=True, slots=True)
class HindsightPrompts:
    """Rebuilds the prompts of an episode with the actions of a solved episode added to the instruction."""

    context: ContextPolicy
    encode: Encode
    random_marks: bool = False

    def __call__(self, trajectory: Trajectory, solved: Trajectory) -> list[TrainingSample | None]:
        """The samples of a trajectory with prompts in hindsight, one per step.

        None for a step without a response, and for one whose own prompt cannot be rebuilt token by token, such as one
        with a shortened history.
        """
        told = replace(trajectory.task, instruction=f"{trajectory.task.instruction} {self._tell(solved)}")
        turns: list[Turn] = []
        samples: list[TrainingSample | None] = []
        for step, sample in zip(trajectory.steps, trajectory.samples(), strict=True):
            screen = self._screen(step)
            known = bool(sample.response_ids) and self._prompt(trajectory.task, turns, step, screen) == (
                sample.prompt_ids,
                sample.images,
            )
            if known:
                prompt, images = self._prompt(told, turns, step, screen)
                samples.append(replace(sample, prompt_ids=prompt, images=images))
            else:
                samples.append(None)
            turns.append(Turn.of(step, screen))
        return samples

    def _prompt(
        self, task: Task, turns: Sequence[Turn], step: Step, screen: Screen
    ) -> tuple[tuple[int, ...], tuple[bytes, ...]]:
        messages, images = build_messages(task, turns, step.observation, screen, self.context)
        return self.encode(messages, images), tuple(images)

    def _tell(self, solved: Trajectory) -> str:
        return f"(solved by: {'; '.join(describe(step.action, self._screen(step)) for step in solved.steps)})"

    def _screen(self, step: Step) -> Screen:
        seen = step.observation
        return parse_screen(seen.xml, seen.width, seen.height, self.random_marks)
