"""Ring buffer of recent trajectories, used by DigiRL, filtered BC and DistRL."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mobilerl.algorithms.checks import count
from mobilerl.records import TrainingSample, Trajectory


@dataclass(frozen=True, slots=True)
class _Entry:
    trajectory: Trajectory
    iteration: int


class CircularReplay:
    """Ring buffer of the newest `capacity` trajectories, both successes and failures.

    Advantages are not stored, since they change with the value functions: every draw is given the latest ones. For
    losses with a weight per sample (`losses.imitation_loss`), the advantage holds the weight.

    The papers' buffers hold single transitions. This one holds whole trajectories, because returns, Retrace and filters
    need all steps of one.
    """

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise ValueError(f"replay: capacity must be at least 1, got {capacity}")
        self.capacity = capacity
        self._entries: dict[str, _Entry] = {}  # always oldest first
        self._iteration: int | None = None

    def __len__(self) -> int:
        """Number of trajectories in the buffer."""
        return len(self._entries)

    @property
    def trajectories(self) -> list[Trajectory]:
        """The trajectories in the buffer, oldest first."""
        return [e.trajectory for e in self._entries.values()]

    def insert(self, trajectories: Sequence[Trajectory], iteration: int) -> int:
        """Adds trajectories in order and evicts the oldest beyond capacity.

        Trajectories without steps and ids that are in the buffer are ignored. Returns how many were added. Raises
        ValueError, before anything is changed, if iterations decrease.
        """
        if self._iteration is not None and iteration < self._iteration:
            raise ValueError(f"replay: insert for iteration {iteration} after iteration {self._iteration}")
        entered = {t.id: _Entry(t, iteration) for t in trajectories if t.steps and t.id not in self._entries}
        self._iteration = iteration
        self._entries.update(entered)
        self._evict()
        return len(entered)

    def draw(
        self, batch_size: int, rng: random.Random, advantages: Mapping[str, Sequence[float]]
    ) -> list[TrainingSample]:
        """Draws at most `batch_size` distinct samples uniformly; they are returned oldest first, in step order.

        `advantages` holds one value per step by trajectory id. Trajectories that are not in it, steps with advantage 0,
        and failed steps with a positive advantage are never drawn.
        """
        steps = [
            (name, i)
            for name, entry in self._entries.items()
            for i, (advantage, step) in enumerate(zip(advantages.get(name, ()), entry.trajectory.steps, strict=False))
            if advantage != 0.0 and step.completion.token_ids and not (step.failed and advantage > 0.0)
        ]
        drawn: dict[str, list[int]] = {}
        for position in sorted(rng.sample(range(len(steps)), min(batch_size, len(steps)))):
            name, i = steps[position]
            drawn.setdefault(name, []).append(i)
        return [sample for name, chosen in drawn.items() for sample in self._samples(name, chosen, advantages)]

    def state_dict(self) -> dict[str, Any]:
        """State of the buffer, with the trajectories as objects that the caller has to serialize."""
        entries = [{"trajectory": e.trajectory, "iteration": e.iteration} for e in self._entries.values()]
        return {"iteration": self._iteration, "entries": entries}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores the state; a smaller capacity keeps the newest entries. Raises ValueError if a field is missing."""
        try:
            saved = [_Entry(e["trajectory"], count("iteration", e["iteration"])) for e in state["entries"]]
            entries = {e.trajectory.id: e for e in saved}
            iteration = state["iteration"] if state["iteration"] is None else count("iteration", state["iteration"])
        except KeyError as missing:
            raise ValueError(f"replay state has no field {missing}: it is not one of {type(self).__name__}") from None
        self._entries, self._iteration = entries, iteration
        self._evict()

    def _evict(self) -> None:
        for name in list(self._entries)[: max(0, len(self._entries) - self.capacity)]:
            del self._entries[name]

    def _samples(
        self, name: str, steps: Sequence[int], advantages: Mapping[str, Sequence[float]]
    ) -> list[TrainingSample]:
        samples = self._entries[name].trajectory.samples(advantages[name], replayed=True)
        return [samples[step] for step in steps]
