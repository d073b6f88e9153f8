"""Says when the episodes of a run teach nothing, and what to try."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mobilerl.records import Group

AGAIN = 20
"""Iterations in a row after which it is said again."""
INVALID, TRUNCATED = 0.1, 0.5
"""Share of unreadable responses, and of episodes that used up their steps, above which these are named."""
EASIER, HARDER = "easier tasks (tasks.templates)", "harder tasks (tasks.templates)"


class NothingToLearn:
    """Watches the iterations of a run. `reason` is that of the latest one, or "" if it had something to learn from."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._print = say
        self.reason = self._what_to_try = ""
        self._in_a_row = 0

    def after(self, groups: Sequence[Group], informative: Sequence[bool], metrics: Mapping[str, Any]) -> None:
        """Looks at an iteration's groups. `informative`: for each trajectory, whether the algorithm learns from it."""
        played = [t for group in groups for t in group.trajectories]
        before, self.reason = self.reason, ""
        partial = any(informative) and any(t.reward > 0 for t in played)
        if played and not partial and not any(t.success for t in played):
            self.reason, self._what_to_try = "every group failed", _after_failures(metrics)
        elif played and not any(informative) and all(t.success for t in played):
            self.reason, self._what_to_try = "every group succeeded", HARDER
        self._in_a_row = self._in_a_row + 1 if self.reason and self.reason == before else int(bool(self.reason))

    def say(self) -> None:
        """Says it when it begins, and again when it goes on for long."""
        if self.reason and (self._in_a_row == 1 or self._in_a_row % AGAIN == 0):
            since = f" for {self._in_a_row} iterations" if self._in_a_row > 1 else ""
            self._print(f"nothing to learn from{since}: {self._describe()}")

    def no_step(self) -> str:
        """The last word on a run that took no optimizer step."""
        return "the model is unchanged: no optimizer step was taken" + (f"; {self._describe()}" if self.reason else "")

    def _describe(self) -> str:
        return f"{self.reason}. Try {self._what_to_try}"


def _after_failures(metrics: Mapping[str, Any]) -> str:
    advice = ["a model that has had SFT on such tasks (mobilerl sft)", EASIER]
    finished, invalid = metrics.get("rollout/finished"), metrics.get("rollout/invalid_rate")
    if finished is not None and 1 - finished > TRUNCATED:
        advice.append(f"more steps per episode ({1 - finished:.0%} of the episodes did not finish)")
    else:
        advice.append("more steps per episode")
    if invalid is not None and invalid > INVALID:
        advice.append(
            f"another agent.format or more agent.max_new_tokens, as {invalid:.0%} of the responses are unreadable"
        )
    return "; ".join(advice)
