"""Failure curriculum filtering."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from mobilerl.algorithms.checks import count
from mobilerl.algorithms.curriculum.sampling import NO_SCALE, distinct, scaled, systematic_sample
from mobilerl.records import SUCCESS


@dataclass(slots=True)
class _History:
    failed: int = 0
    """Consecutive failed epochs, f."""
    cooldown_left: int = 0
    """Epochs until removal; 0 if not in cooldown."""
    removed: bool = False
    idle: int = 0
    """Epochs since removal or the last probe, not counting the current one."""


class FailureCurriculum:
    """Failure curriculum filtering, FCF (MobileRL): spends fewer rollouts on tasks that cannot be solved yet.

    A task without a success in `patience` consecutive epochs enters cooldown. For the next `cooldown` epochs its weight
    is exp(-f), where f is the number of its consecutive failed epochs; then it is removed. Any success, but no partial
    credit, resets it to weight 1, even after removal, since its last episodes may end late. An epoch in which a task
    was not sampled shortens its cooldown but does not add to f.

    `revisit_every=n` gives a removed task one probe every n epochs: from the n-th epoch after its removal (or after its
    last probe) it has weight 1 until an epoch samples it. None removes tasks for good.

    Each call of `update` ends an epoch. If all tasks are removed but probes are due later, `update` skips the empty
    epochs until the first probe, so with `revisit_every` some task can always be sampled.
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
        """Tasks of weight 1 that are neither in cooldown nor removed."""
        return frozenset(t for t, h in self._tasks.items() if not h.removed and not h.cooldown_left)

    @property
    def cooling(self) -> frozenset[str]:
        return frozenset(t for t, h in self._tasks.items() if h.cooldown_left)

    @property
    def removed(self) -> frozenset[str]:
        """Removed tasks, including those whose probe is due."""
        return frozenset(t for t, h in self._tasks.items() if h.removed)

    def counts(self) -> dict[str, int]:
        """Number of tasks that are `active`, `cooling` and `removed`; every task is exactly one of these."""
        return {"active": len(self.active), "cooling": len(self.cooling), "removed": len(self.removed)}

    def weights(self) -> dict[str, float]:
        """Weights in (0, 1] for the current epoch, in the order of `task_ids`; other tasks must not be sampled."""
        return {t: math.exp(-h.failed) if h.cooldown_left else 1.0 for t, h in self._tasks.items() if self._open(h)}

    def sample(self, n: int, rng: random.Random, scale: Mapping[str, float] = NO_SCALE) -> list[str]:
        """Samples n task ids in random order. Task i is expected exactly n * w_i / sum(w) times, and comes up that many
        times rounded up or down.

        Thus no task is sampled twice as long as n is at most the number of active tasks; with a larger n, all active
        tasks are sampled equally often, give or take one. `scale` has factors of the weights, by task id.

        Raises ValueError if every task is removed, which `revisit_every` prevents.
        """
        weights = self.weights()
        if not weights:
            raise ValueError(
                f"curriculum: all {len(self._tasks)} tasks were removed, none ever solved in time; "
                "add easier tasks, raise patience or cooldown, or set revisit_every"
            )
        return systematic_sample(scaled(weights, scale), n, rng)

    def update(self, epoch_rewards: Mapping[str, Sequence[float]]) -> None:
        """Ends an epoch. `epoch_rewards` holds the unshaped rewards of all finished trajectories by task id.

        A task that is absent or has no rewards (because all its episodes were infra errors, say) counts as not sampled.
        Raises ValueError for an unknown task, before anything is changed.
        """
        for task in epoch_rewards:
            if task not in self._tasks:
                raise ValueError(f"curriculum: rewards for unknown task {task!r}")
        for task, history in self._tasks.items():
            rewards = epoch_rewards.get(task, ())
            if any(reward > SUCCESS for reward in rewards):
                self._tasks[task] = _History()
            else:
                self._age(history, sampled=len(rewards) > 0)
        self._pass_empty_epochs()

    def drop(self, task: str) -> None:
        """Drops a task that cannot be played. After the last one nothing is left to sample."""
        del self._tasks[task]
        if self._tasks:
            self._pass_empty_epochs()

    def state_dict(self) -> dict[str, Any]:
        """History of every task as JSON values. Settings are not included."""
        return {"tasks": {task: asdict(history) for task, history in self._tasks.items()}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores the history of a run. Tasks that the run did not have start afresh; its other tasks are ignored.

        Raises ValueError if the state is not of this class, before anything is changed.
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
        """Skips to the first probe: with nothing to play no epoch would end, and no probe would come due."""
        if self.revisit_every is None or any(self._open(history) for history in self._tasks.values()):
            return
        passed = self.revisit_every - 1 - max(history.idle for history in self._tasks.values())
        for history in self._tasks.values():
            history.idle += passed

    def _open(self, history: _History) -> bool:
        """Whether the task may be sampled in the current epoch."""
        if not history.removed:
            return True
        return self.revisit_every is not None and history.idle + 1 >= self.revisit_every

    def _age(self, history: _History, sampled: bool) -> None:
        """Records one epoch without a success."""
        history.failed += sampled
        if history.removed:
            history.idle = 0 if sampled else history.idle + 1
        elif history.cooldown_left:
            history.cooldown_left -= 1
            history.removed = history.cooldown_left == 0
        elif history.failed >= self.patience:
            history.cooldown_left = self.cooldown
            history.removed = self.cooldown == 0
