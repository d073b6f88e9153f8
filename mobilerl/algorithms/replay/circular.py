"""A ring of the newest trajectories: the buffer of DigiRL, filtered BC and DistRL."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mobilerl.records import Row, Trajectory


@dataclass(slots=True)
class _Entry:
    trajectory: Trajectory
    advantages: list[float]
    """One per row."""
    iteration: int


class CircularReplay:
    """The newest `capacity` trajectories, successes and failures; a new one overwrites the oldest.

    Every row has an advantage of its own, which `set_advantages` replaces when the values behind it have changed. For
    losses that take a weight per row (`losses.imitation_loss`) the weight stands in its place: a filter sets 1 for the
    rows to keep and 0 for the others, and `draw` leaves those out.

    The papers count single transitions; here whole trajectories are kept or overwritten, so that returns, Retrace and
    filters always see all of one.

    Args:
        capacity: most trajectories kept.
        gamma: largest replayed share of a mini-batch, in [0, 1]; 1 for algorithms that learn from the buffer alone.
    """

    def __init__(self, capacity: int, gamma: float = 1.0) -> None:
        if capacity < 1:
            raise ValueError(f"replay: capacity must be at least 1, got {capacity}")
        if not 0.0 <= gamma <= 1.0:
            raise ValueError(f"replay: gamma must be in [0, 1], got {gamma}")
        self.capacity = capacity
        self.gamma = gamma
        self._entries: dict[str, _Entry] = {}  # always oldest first
        self._withheld: frozenset[str] = frozenset()
        self._iteration: int | None = None

    def __len__(self) -> int:
        """Trajectories in the buffer."""
        return len(self._entries)

    @property
    def size_rows(self) -> int:
        """Rows in the buffer."""
        return sum(len(e.advantages) for e in self._entries.values())

    @property
    def trajectories(self) -> list[Trajectory]:
        """The content, oldest first: what values and advantages are computed on anew."""
        return [e.trajectory for e in self._entries.values()]

    def insert(
        self, trajectories: Sequence[Trajectory], advantages: Sequence[float | Sequence[float]], iteration: int
    ) -> int:
        """Takes trajectories in, in order; the oldest leave over capacity.

        `advantages` has one item per trajectory: a number shared by all its rows, or one number per row. Trajectories
        without steps and ids that are in the buffer are ignored. May be called several times for an iteration.

        Returns how many entered. ValueError, with nothing changed, if iterations go back.
        """
        if len(trajectories) != len(advantages):
            raise ValueError(f"replay: {len(trajectories)} trajectories but {len(advantages)} advantages")
        if self._iteration is not None and iteration < self._iteration:
            raise ValueError(f"replay: insert for iteration {iteration} after iteration {self._iteration}")
        entered = {
            t.id: _Entry(t, per_row(t, a), iteration)
            for t, a in zip(trajectories, advantages, strict=True)
            if t.steps and t.id not in self._entries
        }
        self._iteration = iteration
        self._entries.update(entered)
        self._evict()
        return len(entered)

    def set_advantages(self, advantages: Mapping[str, float | Sequence[float]]) -> int:
        """New advantages by trajectory id, each as in `insert`; ids that have left the buffer are ignored.

        Returns how many trajectories were changed.
        """
        new = {
            name: per_row(self._entries[name].trajectory, advantage)
            for name, advantage in advantages.items()
            if name in self._entries
        }
        for name, rows in new.items():
            self._entries[name].advantages = rows
        return len(new)

    def advantages(self) -> dict[str, list[float]]:
        """The advantage of every row, by trajectory id."""
        return {name: list(entry.advantages) for name, entry in self._entries.items()}

    def withhold(self, trajectory_ids: Iterable[str]) -> None:
        """Leaves these trajectories out of draws until the next call. No part of the state: a filter is made anew."""
        self._withheld = frozenset(trajectory_ids)

    def draw(self, batch_size: int, rng: random.Random) -> list[tuple[Row, float]]:
        """At most floor(gamma * batch_size) distinct rows with their advantages, each row as likely as any other.

        Rows of advantage 0, and of trajectories that are withheld, are never drawn. Fewer rows than asked for are all
        given. Oldest first, in step order.
        """
        rows = [
            (entry.trajectory, i)
            for entry in self._entries.values()
            for i, advantage in enumerate(entry.advantages)
            if advantage != 0.0 and entry.trajectory.id not in self._withheld
        ]
        room = min(math.floor(self.gamma * batch_size), len(rows))
        drawn: dict[str, list[int]] = {}
        for position in sorted(rng.sample(range(len(rows)), room)):
            trajectory, i = rows[position]
            drawn.setdefault(trajectory.id, []).append(i)
        return [sample for name, steps in drawn.items() for sample in self._samples(name, steps)]

    def state_dict(self) -> dict[str, Any]:
        """Everything a resumed run needs; trajectories are in it as they are, to be written by whoever saves it."""
        return {
            "iteration": self._iteration,
            "entries": [
                {"trajectory": e.trajectory, "advantages": list(e.advantages), "iteration": e.iteration}
                for e in self._entries.values()
            ],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Replaces the content. A buffer of smaller capacity keeps the newest; ValueError if a field is missing."""
        try:
            entries = {
                e["trajectory"].id: _Entry(e["trajectory"], per_row(e["trajectory"], e["advantages"]), e["iteration"])
                for e in state["entries"]
            }
            iteration = state["iteration"]
        except KeyError as missing:
            raise ValueError(f"replay state has no field {missing}: it is not one of {type(self).__name__}") from None
        self._entries = entries
        self._iteration = iteration
        self._evict()

    def _evict(self) -> None:
        for name in list(self._entries)[: max(0, len(self._entries) - self.capacity)]:
            del self._entries[name]

    def _samples(self, name: str, steps: Sequence[int]) -> list[tuple[Row, float]]:
        entry = self._entries[name]
        rows = entry.trajectory.rows()
        return [(rows[i], entry.advantages[i]) for i in steps]


def per_row(trajectory: Trajectory, advantage: float | Sequence[float]) -> list[float]:
    """One finite number per row. ValueError if there are more or fewer, naming the trajectory."""
    rows = len(trajectory.steps)
    numbers = [float(a) for a in advantage] if isinstance(advantage, Sequence) else [float(advantage)] * rows
    if len(numbers) != rows:
        raise ValueError(f"replay: trajectory {trajectory.id} has {rows} rows but {len(numbers)} advantages")
    if not all(math.isfinite(a) for a in numbers):
        raise ValueError(f"replay: advantages of trajectory {trajectory.id} hold NaN or infinity")
    return numbers
