"""A ring of the newest trajectories: the buffer of DigiRL, filtered BC and DistRL."""

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
    """The newest `capacity` trajectories, successes and failures; a new one overwrites the oldest.

    Advantages are not kept: they change with the values behind them, and every draw is given the newest. For losses
    that take a weight per sample (`losses.imitation_loss`) the weight stands in the advantage's place.

    The papers count single transitions; here whole trajectories are kept or overwritten, so that returns, Retrace and
    filters always see all of one.
    """

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise ValueError(f"replay: capacity must be at least 1, got {capacity}")
        self.capacity = capacity
        self._entries: dict[str, _Entry] = {}  # always oldest first
        self._iteration: int | None = None

    def __len__(self) -> int:
        """Trajectories in the buffer."""
        return len(self._entries)

    @property
    def trajectories(self) -> list[Trajectory]:
        """The content, oldest first: what values and advantages are computed on."""
        return [e.trajectory for e in self._entries.values()]

    def insert(self, trajectories: Sequence[Trajectory], iteration: int) -> int:
        """Adds trajectories in order; over capacity the oldest leave.

        Trajectories without steps and ids that are in the buffer are ignored. Returns how many entered. ValueError,
        with nothing changed, if iterations go back.
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
        """At most `batch_size` distinct samples, each as likely as any other; oldest first, in step order.

        `advantages`: one per step, by trajectory id. Trajectories that are not in it, steps of advantage 0, and steps
        that failed but would be reinforced, are never drawn.
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
        """Trajectories are in it as they are, to be written by whoever saves it."""
        entries = [{"trajectory": e.trajectory, "iteration": e.iteration} for e in self._entries.values()]
        return {"iteration": self._iteration, "entries": entries}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Replaces the content. A buffer of smaller capacity keeps the newest; ValueError if a field is missing."""
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
