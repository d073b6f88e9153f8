"""Failure curriculum filtering."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from mobilerl.algorithms.checks import count
from mobilerl.algorithms.curriculum.sampling import distinct, systematic_sample


@dataclass(slots=True)
class _History:
    failed: int = 0
    """Consecutive failed epochs, f."""
    cooldown_left: int = 0
    """Epochs until removal; 0 when not cooling."""
    removed: bool = False
    idle: int = 0
    """Epochs since removal or since the last probe, not counting the current one."""


class FailureCurriculum:
    """Failure curriculum filtering, FCF (MobileRL): tasks that cannot be solved yet stop eating the rollouts.

    A task whose every reward is 0 in `patience` consecutive epochs enters cooldown. For the next `cooldown` epochs its
    weight is exp(-f), f = its consecutive failed epochs so far; then it is removed. Any success (a reward > 0) makes
    it an ordinary task of weight 1 again, wherever it stood: even a removed one, whose last episodes may end late. An
    epoch in which a task was not sampled ages its cooldown but adds nothing to f.

    `revisit_every=n` gives a removed task a probe every n epochs: from the n-th epoch after its removal (or after its
    last probe) it has weight 1 until an epoch has sampled it. None removes for good.

    An epoch ends with each call of `update`. Where that leaves every task removed but probes are to come, the epochs
    before the first of them are empty, and have passed when it returns: with `revisit_every` some task can always be
    sampled.
    """

    def __init__(
        self, task_ids: Iterable[str], patience: int = 2, cooldown: int = 3, revisit_every: int | None = None
    ) -> None:
        self._tasks = {task: _History() for task in distinct(task_ids)}
        if patience < 1 or cooldown < 0:
            raise ValueError(f"curriculum: patience must be >= 1 and cooldown >= 0, got {patience} and {cooldown}")
        if revisit_every is not None and revisit_every < 1:
            raise ValueError(f"curriculum: revisit_every must be at least 1 epoch, got {revisit_every}")
        self.patience = patience
        self.cooldown = cooldown
        self.revisit_every = revisit_every

    @property
    def active(self) -> frozenset[str]:
        """Tasks of weight 1 that were never given up."""
        return frozenset(t for t, h in self._tasks.items() if not h.removed and not h.cooldown_left)

    @property
    def cooling(self) -> frozenset[str]:
        return frozenset(t for t, h in self._tasks.items() if h.cooldown_left)

    @property
    def removed(self) -> frozenset[str]:
        """Removed tasks, those whose probe is due included."""
        return frozenset(t for t, h in self._tasks.items() if h.removed)

    def counts(self) -> dict[str, int]:
        """How many tasks are `active`, `cooling` and `removed`; every task is in exactly one."""
        return {"active": len(self.active), "cooling": len(self.cooling), "removed": len(self.removed)}

    def weights(self) -> dict[str, float]:
        """Weights in (0, 1] for the current epoch, in the order of `task_ids`; a task not in it must not be sampled."""
        return {t: math.exp(-h.failed) if h.cooldown_left else 1.0 for t, h in self._tasks.items() if self._open(h)}

    def sample(self, n: int, rng: random.Random) -> list[str]:
        """n task ids in random order; task i's expected count is exactly n * w_i / sum(w), and its count one of the two
        integers next to that.

        So the draw is weighted and without replacement while it can be: no task comes twice while n is at most the
        number of active tasks. Beyond it, all of them come equally often, give or take one.

        ValueError if every task is removed, which `revisit_every` prevents.
        """
        weights = self.weights()
        if not weights:
            raise ValueError(
                f"curriculum: all {len(self._tasks)} tasks were removed, none ever solved in time; "
                "add easier tasks, raise patience or cooldown, or set revisit_every"
            )
        return systematic_sample(weights, n, rng)

    def update(self, epoch_rewards: Mapping[str, Sequence[float]]) -> None:
        """Ends an epoch. `epoch_rewards` holds the rewards of every finished trajectory, before shaping, by task id.

        A task that is absent or has no rewards (all its episodes were infra errors, say) counts as not sampled.
        ValueError for a task the curriculum does not know; nothing has changed then.
        """
        for task in epoch_rewards:
            if task not in self._tasks:
                raise ValueError(f"curriculum: rewards for unknown task {task!r}")
        for task, history in self._tasks.items():
            rewards = epoch_rewards.get(task, ())
            if any(reward > 0 for reward in rewards):
                self._tasks[task] = _History()
            else:
                self._age(history, sampled=len(rewards) > 0)
        self._pass_empty_epochs()

    def drop(self, task: str) -> None:
        """Forgets a task that cannot be played. When it was the last, nothing is left to sample."""
        del self._tasks[task]
        if self._tasks:
            self._pass_empty_epochs()

    def state_dict(self) -> dict[str, Any]:
        """The history of every task, as JSON-able values. Settings are not part of it."""
        return {"tasks": {task: asdict(history) for task, history in self._tasks.items()}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes over the history of a run, which may have had other tasks: theirs is ignored, new tasks start afresh.

        ValueError if the state is not one of this class; nothing has changed then.
        """
        try:
            saved = {task: _History(**history) for task, history in state["tasks"].items()}
            for task, history in saved.items():
                for name in ("failed", "cooldown_left", "idle"):
                    count(f"{name} of {task}", getattr(history, name))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ValueError(f"curriculum state is not one of FailureCurriculum: {error}") from None
        self._tasks = {task: saved.get(task, _History()) for task in self._tasks}
        self._pass_empty_epochs()  # the saved run may have had other tasks, or no probes

    def _pass_empty_epochs(self) -> None:
        """Up to the first probe. Epochs end with what was played, so with nothing to play none would come due."""
        if self.revisit_every is None or any(self._open(history) for history in self._tasks.values()):
            return
        passed = self.revisit_every - 1 - max(history.idle for history in self._tasks.values())
        for history in self._tasks.values():
            history.idle += passed

    def _open(self, history: _History) -> bool:
        """May the task be sampled in the current epoch?"""
        if not history.removed:
            return True
        return self.revisit_every is not None and history.idle + 1 >= self.revisit_every

    def _age(self, history: _History, sampled: bool) -> None:
        """One epoch without a success."""
        history.failed += sampled
        if history.removed:
            history.idle = 0 if sampled else history.idle + 1
        elif history.cooldown_left:
            history.cooldown_left -= 1
            history.removed = history.cooldown_left == 0
        elif history.failed >= self.patience:
            history.cooldown_left = self.cooldown
            history.removed = self.cooldown == 0
