"""Distributed prioritized experience replay, DPER (DistRL)."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from mobilerl.algorithms.checks import number
from mobilerl.algorithms.replay.circular import CircularReplay
from mobilerl.records import TrainingSample


@dataclass(frozen=True, slots=True)
class PriorityTerms:
    """Terms of a trajectory's priority, measured with a given policy and value function."""

    delta: float
    """Mean of |delta_t| over its steps."""
    ratio: float
    """Mean of min(1, rho_t)."""
    entropy: float
    """Mean of Ent_t = -log pi(a_t|s_t), in nats."""
    max_delta: float
    max_entropy: float
    """Maxima over the steps. The means are normalized by the largest maximum of all trajectories."""

    @classmethod
    def of(cls, delta: Sequence[float], ratio: Sequence[float], entropy: Sequence[float]) -> PriorityTerms:
        """Computes the terms from delta_t (`advantages.td_error`), rho_t = pi / mu and Ent_t of each step's action."""
        if not delta or not len(delta) == len(ratio) == len(entropy):
            raise ValueError(f"priority: {len(delta)} deltas, {len(ratio)} ratios and {len(entropy)} entropies")
        if not all(math.isfinite(x) for x in [*delta, *ratio, *entropy]) or min(ratio) < 0:
            raise ValueError("priority: a delta, ratio or entropy is NaN or infinite, or a ratio negative")
        sizes = [abs(d) for d in delta]
        surprise = [max(0.0, e) for e in entropy]  # rounding can make a probability exceed 1
        return cls(
            delta=_mean(sizes),
            ratio=_mean([min(1.0, r) for r in ratio]),
            entropy=_mean(surprise),
            max_delta=max(sizes),
            max_entropy=max(surprise),
        )


class PrioritizedReplay(CircularReplay):
    """Ring buffer like `CircularReplay`, sampled by priority.

        p(tau) = w1 mean|delta| / max|delta| + w2 mean min(1, rho) + w3 mean Ent / max Ent
        P(tau) = p^alpha / sum p^alpha

    The maxima are over all steps measured so far. A trajectory that was never measured has the highest possible
    priority, w1 + w2 + w3. `update` sets the priorities measured with the latest policy.

    The paper does not publish its weights; it searched w1 in 0.01..10, w2 and w3 in 0.01..1. Its text puts rho in
    [0, 1], which the cap ensures. The released code uses 50, 1, 0.01 without normalization, and then draws uniformly.

    Args:
        capacity: as in `CircularReplay`.
        alpha: >= 0; 0 draws uniformly, 1 in proportion to the priorities.
        weights: (w1, w2, w3) >= 0, not all zero.
    """

    def __init__(
        self, capacity: int, alpha: float = 0.5, weights: tuple[float, float, float] = (1.0, 0.5, 0.5)
    ) -> None:
        super().__init__(capacity)
        if not (math.isfinite(alpha) and alpha >= 0):
            raise ValueError(f"replay: alpha must be at least 0, got {alpha}")
        if len(weights) != 3 or not all(math.isfinite(w) and w >= 0 for w in weights) or not any(weights):
            raise ValueError(f"replay: weights must be three numbers >= 0, not all zero, got {weights}")
        self.alpha = alpha
        self.weights = weights
        self._terms: dict[str, PriorityTerms] = {}
        self._max_delta = 0.0
        self._max_entropy = 0.0

    def update(self, measured: Mapping[str, PriorityTerms]) -> int:
        """Sets new priorities by trajectory id, ignoring ids that have left the buffer. Returns how many were set."""
        known = {name: terms for name, terms in measured.items() if name in self._entries}
        for name, terms in known.items():
            self._terms[name] = terms
            self._max_delta = max(self._max_delta, terms.max_delta)
            self._max_entropy = max(self._max_entropy, terms.max_entropy)
        return len(known)

    def priorities(self) -> dict[str, float]:
        """Priority p of every trajectory by id, oldest first."""
        return {name: self._priority(self._terms.get(name)) for name in self._entries}

    def probabilities(self) -> dict[str, float]:
        """Probability P of every trajectory by id of being drawn first. All are equal if every priority is 0."""
        rates = {name: p**self.alpha for name, p in self.priorities().items()}
        total = math.fsum(rates.values())
        return {name: rate / total if total else 1.0 / len(rates) for name, rate in rates.items()}

    def draw(
        self, batch_size: int, rng: random.Random, advantages: Mapping[str, Sequence[float]]
    ) -> list[TrainingSample]:
        """Draws at most `batch_size` distinct samples; `advantages` as in `CircularReplay.draw`.

        Trajectories are drawn one by one without replacement, each time in proportion to P of the remaining ones, and
        used whole, in step order, except for the last one, of which as many random samples are used as still fit. So
        only the first one has exactly probability P, and drawing most of the buffer is nearly uniform. Trajectories
        with probability 0 come last.
        """
        drawn: list[TrainingSample] = []
        for name in self._draw_order(rng):
            room = batch_size - len(drawn)
            if room <= 0:
                break
            if name in advantages:
                steps = range(len(advantages[name]))
                chosen = steps if len(steps) <= room else sorted(rng.sample(steps, room))
                drawn += self._samples(name, chosen, advantages)
        return drawn

    def state_dict(self) -> dict[str, Any]:
        """As in `CircularReplay`, plus the `terms` of each entry (None if never measured) and the maxima so far."""
        state = super().state_dict()
        for entry in state["entries"]:
            terms = self._terms.get(entry["trajectory"].id)
            entry["terms"] = asdict(terms) if terms else None
        return {**state, "max_delta": self._max_delta, "max_entropy": self._max_entropy}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores the state; a smaller capacity keeps the newest entries. Raises ValueError if a field is missing."""
        try:
            terms = {
                e["trajectory"].id: PriorityTerms(**e["terms"]) for e in state["entries"] if e["terms"] is not None
            }
            for measured in terms.values():
                for name, value in asdict(measured).items():
                    number(name, value)
            max_delta, max_entropy = (float(number(name, state[name])) for name in ("max_delta", "max_entropy"))
        except (KeyError, TypeError) as error:
            raise ValueError(f"replay state is not one of PrioritizedReplay: {error}") from None
        super().load_state_dict(state)
        self._terms = {name: t for name, t in terms.items() if name in self._entries}
        self._max_delta, self._max_entropy = max_delta, max_entropy

    def _evict(self) -> None:
        super()._evict()
        self._terms = {name: terms for name, terms in self._terms.items() if name in self._entries}

    def _priority(self, terms: PriorityTerms | None) -> float:
        w_delta, w_ratio, w_entropy = self.weights
        if terms is None:
            return w_delta + w_ratio + w_entropy
        delta = terms.delta / self._max_delta if self._max_delta else 0.0
        entropy = terms.entropy / self._max_entropy if self._max_entropy else 0.0
        return w_delta * delta + w_ratio * terms.ratio + w_entropy * entropy

    def _draw_order(self, rng: random.Random) -> list[str]:
        """All ids, sampled by P without replacement: the order of exponential arrival times whose rates are P."""
        arrivals = []
        for name, probability in self.probabilities().items():
            arrivals.append((probability == 0.0, rng.expovariate(probability or 1.0), name))
        return [name for *_, name in sorted(arrivals)]


def _mean(numbers: Sequence[float]) -> float:
    return math.fsum(numbers) / len(numbers)
