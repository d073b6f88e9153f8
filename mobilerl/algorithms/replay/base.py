"""What a learner may ask of a replay buffer."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from mobilerl.records import Row, Trajectory


class Replay(Protocol):
    """A buffer of whole trajectories, from which rows are drawn with their advantages."""

    gamma: float
    """Largest replayed share of a mini-batch, in [0, 1]."""

    def __len__(self) -> int:
        """Trajectories in the buffer."""

    @property
    def size_rows(self) -> int:
        """Rows in the buffer."""

    def insert(self, trajectories: Sequence[Trajectory], advantages: Sequence[float], iteration: int) -> int:
        """Takes in what an iteration collected; returns how many entered."""

    def draw(self, batch_size: int, rng: random.Random) -> list[tuple[Row, float]]:
        """At most floor(gamma * batch_size) distinct rows, each with its advantage."""

    def state_dict(self) -> dict[str, Any]:
        """`entries`, each with its `trajectory` as it is, and otherwise JSON-able values."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Replaces the content. ValueError if a field is missing; nothing has changed then."""
