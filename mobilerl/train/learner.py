"""From an algorithm's mini-batches to optimiser steps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mobilerl.algorithms.base import Algorithm
from mobilerl.algorithms.objectives import with_prob_diff
from mobilerl.interfaces import Engine
from mobilerl.records import TrainingSample


def learn(
    engine: Engine, algorithm: Algorithm, mini_batches: Iterable[Sequence[TrainingSample]]
) -> dict[str, float | None]:
    """One optimiser step per mini-batch; returns their mean metrics (maxima of those that end in `_max`)."""
    history: list[dict[str, float]] = []
    samples = replayed = 0
    for batch in mini_batches:
        # Before the first step, rollout and trainer can be compared on what these very weights have sampled.
        comparable = not history and any(not s.replayed and s.version == engine.version for s in batch)
        objective = with_prob_diff(algorithm.objective) if comparable else algorithm.objective
        history.append(engine.update(batch, objective, algorithm.aggregation))
        samples += len(batch)
        replayed += sum(s.replayed for s in batch)
    return {
        **_summary(history),
        "replay/fraction": replayed / samples if samples else 0.0,
        "train/samples": float(samples),
        "train/steps": float(len(history)),
        **algorithm.metrics(),
    }


def _summary(history: Sequence[dict[str, float]]) -> dict[str, float]:
    result: dict[str, float] = {}
    for name in dict.fromkeys(n for step in history for n in step):
        values = [step[name] for step in history if name in step]
        result[f"train/{name}"] = max(values) if name.endswith("_max") else sum(values) / len(values)
    return result
