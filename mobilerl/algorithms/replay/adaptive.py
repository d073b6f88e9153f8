"""Replay of rare successes (MobileRL)."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from mobilerl.algorithms.checks import count, number
from mobilerl.records import TrainingSample, Trajectory

Order = Literal["rarity", "advantage"]


@dataclass(frozen=True, slots=True)
class _Entry:
    trajectory: Trajectory
    advantage: float
    iteration: int
    rarity: float
    """How rarely the task succeeds."""


class AdaptivePositiveReplay:
    """Adaptive positive replay, AdaPR (MobileRL): replays rare successes.

    Each iteration the `kappa` rarest successes enter a buffer ordered by rarity. A mini-batch of M samples takes at
    most `gamma * M` from it, so that its distribution is q = gamma * p_buffer + (1 - gamma) * p_fresh.

    Args:
        capacity: maximum number of trajectories; beyond it the lowest in the order is evicted (the oldest among
            equals).
        kappa: maximum number of trajectories that enter per iteration.
        gamma: maximum fraction of replayed samples in a mini-batch, in [0, 1].
        max_age: iterations after which an entry is dropped; None keeps it until it is evicted.
        order: `rarity`, or `advantage` (MobileRL), by which entries enter and are evicted, and of which the highest are
            drawn first, the same in every mini-batch.
        max_response_prob: steps whose response had a higher probability are not drawn.
        failed_steps: whether to draw steps whose action failed, too.
    """

    def __init__(
        self,
        capacity: int,
        kappa: int,
        gamma: float,
        max_age: int | None = None,
        order: Order = "rarity",
        max_response_prob: float = 1.0,
        failed_steps: bool = False,
    ) -> None:
        if capacity < 1 or kappa < 1:
            raise ValueError(f"replay: capacity and kappa must be at least 1, got {capacity} and {kappa}")
        if not 0.0 <= gamma <= 1.0:
            raise ValueError(f"replay: gamma must be in [0, 1], got {gamma}")
        if max_age is not None and max_age < 0:
            raise ValueError(f"replay: max_age must not be negative, got {max_age}")
        self.capacity = capacity
        self.kappa = kappa
        self.gamma = gamma
        self.max_age = max_age
        self.order = order
        self.max_response_prob = max_response_prob
        self.failed_steps = failed_steps
        self._entries: list[_Entry] = []  # always best first
        self._iteration: int | None = None

    def __len__(self) -> int:
        """Number of trajectories in the buffer."""
        return len(self._entries)

    def insert(
        self,
        trajectories: Sequence[Trajectory],
        advantages: Sequence[float],
        iteration: int,
        rarities: Sequence[float] | None = None,
    ) -> int:
        """Ends an iteration: drops entries that are too old, adds the best new successes, and evicts beyond capacity.

        Call it once per iteration with everything collected, even if that is nothing, since it also ages the buffer: an
        entry stays while `iteration - its iteration <= max_age`. Eligible are successes with a positive advantage, at
        least one step, and an id that is not in the buffer. They are ordered by `rarities` or, if that is None, by
        advantage, which ranks the shortest of eight successes like the only success of eight.

        Returns how many were added (some may be evicted at once). Raises ValueError if iterations do not increase.
        """
        if len(trajectories) != len(advantages):
            raise ValueError(f"replay: {len(trajectories)} trajectories but {len(advantages)} advantages")
        rarities = advantages if rarities is None else rarities
        if not all(math.isfinite(a) for a in (*advantages, *rarities)):
            raise ValueError("replay: advantages hold NaN or infinity")
        if self._iteration is not None and iteration <= self._iteration:
            raise ValueError(f"replay: insert for iteration {iteration} after iteration {self._iteration}")
        self._iteration = iteration

        if self.max_age is not None:
            self._entries = [e for e in self._entries if iteration - e.iteration <= self.max_age]
        known = {e.trajectory.id for e in self._entries}
        eligible: dict[str, _Entry] = {}
        for trajectory, advantage, rarity in zip(trajectories, advantages, rarities, strict=True):
            if trajectory.success and trajectory.steps and advantage > 0 and trajectory.id not in known:
                eligible.setdefault(trajectory.id, _Entry(trajectory, float(advantage), iteration, float(rarity)))
        admitted = sorted(eligible.values(), key=self._best_first)[: self.kappa]
        self._entries = self._select_kept(self._entries + admitted)
        return len(admitted)

    def draw(self, batch_size: int, rng: random.Random, most: int | None = None) -> list[TrainingSample]:
        """Draws at most `floor(gamma * batch_size)` distinct samples, of at most `most` trajectories, for a mini-batch.

        Trajectories are drawn without replacement and used whole, in step order, except for the last one, of which as
        many random samples are used as still fit. A trajectory's probability is proportional to 1 / rank, where rank 1
        is the highest rarity and ties share a rank, so that mini-batches prefer the top of the buffer but differ; the
        order `advantage` takes the top itself. If the buffer has fewer samples, all are returned.
        """
        room = math.floor(self.gamma * batch_size)
        if room <= 0:
            return []
        drawn: list[TrainingSample] = []
        for entry in self._draw_order(rng)[:most]:
            samples = entry.trajectory.samples_to_learn(
                entry.advantage, True, self.max_response_prob, self.failed_steps
            )
            if len(samples) > room - len(drawn):
                keep = sorted(rng.sample(range(len(samples)), room - len(drawn)))
                samples = [samples[i] for i in keep]
            drawn += samples
            if len(drawn) == room:
                break
        return drawn

    def state_dict(self) -> dict[str, Any]:
        """State of the buffer, with the trajectories as objects that the caller has to serialize."""
        return {
            "iteration": self._iteration,
            "entries": [
                {"trajectory": e.trajectory, "advantage": e.advantage, "iteration": e.iteration, "rarity": e.rarity}
                for e in self._entries
            ],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores the state; a smaller capacity keeps the best entries. Raises ValueError if a field is missing."""
        try:
            entries = [
                _Entry(
                    e["trajectory"],
                    number("advantage", e["advantage"]),
                    count("iteration", e["iteration"]),
                    number("rarity", e.get("rarity", e["advantage"])),  # checkpoints of version 0.2 have none
                )
                for e in state["entries"]
            ]
            iteration = state["iteration"] if state["iteration"] is None else count("iteration", state["iteration"])
        except KeyError as missing:
            raise ValueError(f"replay state has no field {missing}: it is not one of AdaptivePositiveReplay") from None
        self._entries = self._select_kept(entries)
        self._iteration = iteration

    def _select_kept(self, entries: Sequence[_Entry]) -> list[_Entry]:
        """The entries that stay in the buffer, best first."""
        return sorted(entries, key=self._best_first)[: self.capacity]

    def _best_first(self, entry: _Entry) -> tuple[float, int, str]:
        """Sort key: highest in the order first, then newest (closest to the policy), then by id to break ties."""
        best = entry.advantage if self.order == "advantage" else entry.rarity
        return (-best, -entry.iteration, entry.trajectory.id)

    def _draw_order(self, rng: random.Random) -> list[_Entry]:
        """The entries in random order, sampled without replacement in proportion to their weights; in the order
        `advantage` best first.

        The random order is that of exponential arrival times whose rates are the weights.
        """
        if self.order == "advantage":
            return self._entries
        arrivals = []
        rank = 0
        for i, entry in enumerate(self._entries):
            if i == 0 or entry.rarity < self._entries[i - 1].rarity:
                rank = i + 1
            arrivals.append((rng.expovariate(1.0 / rank), i))
        return [self._entries[i] for _, i in sorted(arrivals)]
