"""Runs the optimizer steps over an algorithm's mini-batches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from mobilerl.algorithms.base import Algorithm
from mobilerl.algorithms.objectives import FRESH_K3, FRESH_SURPRISE, FRESH_TOKENS, with_rollout_gap
from mobilerl.records import TrainingSample
from mobilerl.records.engine import Engine
from mobilerl.training.skipping import StepCounter, name_of


def step_counter(algorithm: Algorithm) -> StepCounter:
    return StepCounter(f"the objective {name_of(algorithm.objective)} of {type(algorithm).__name__}")


def learn(
    engine: Engine, algorithm: Algorithm, mini_batches: Iterable[Sequence[TrainingSample]], steps: StepCounter
) -> dict[str, float | None]:
    """Takes one optimizer step per mini-batch and returns the mean of their metrics (the maximum of `*_max`).

    Ends early when `steps` is hopeless, which the caller checks after it has logged the metrics.
    """
    history: list[dict[str, float]] = []
    samples = replayed = 0
    skipped_before = steps.skipped
    for batch in mini_batches:
        metrics = steps.attempt(partial(take_step, engine, algorithm, batch, first=not history))
        if metrics is None:
            if steps.hopeless:
                break
            continue
        history.append(metrics)
        samples += len(batch)
        replayed += sum(s.replayed for s in batch)
    if history and "clip_frac" in history[0]:
        # Before any update, clipping can only come from the gap between sampler and trainer, and from replay.
        history[0]["clip_frac_first"] = history[0]["clip_frac"]
    return {
        **_summary(history),
        "replay/fraction": replayed / samples if samples else 0.0,
        "train/samples": float(samples),
        "train/steps": float(len(history)),
        "train/skipped_steps": float(steps.skipped - skipped_before),
        **algorithm.metrics(),
    }


def take_step(engine: Engine, algorithm: Algorithm, batch: Sequence[TrainingSample], first: bool) -> dict[str, float]:
    """Takes an optimizer step and returns its metrics. Raises SkippedStep.

    Before the `first` step of an iteration, log-probabilities of rollout and trainer are of the same weights and can be
    compared.
    """
    comparable = first and any(not s.replayed and s.version == engine.version for s in batch)
    objective = with_rollout_gap(algorithm.objective) if comparable else algorithm.objective
    return _means(engine.update(batch, objective, algorithm.aggregation))


def _means(step: dict[str, float]) -> dict[str, float]:
    """Metrics of one step, with sums over part of its tokens turned into means."""
    if tokens := step.pop(FRESH_TOKENS, 0.0):
        step["neg_logp"], step["rollout_k3"] = step[FRESH_SURPRISE] / tokens, step[FRESH_K3] / tokens
    for name in (FRESH_SURPRISE, FRESH_K3):
        step.pop(name, None)
    if "replay_weight" in step:
        replay = step["replay_weight"]
        parts = {"replayed": (step.pop("clip_frac_replayed"), replay)}
        parts["fresh"] = (step["clip_frac"] - parts["replayed"][0], 1.0 - replay)
        step |= {f"clip_frac_{name}": clipped / share for name, (clipped, share) in parts.items() if share > 1e-6}
    return step


def _summary(history: Sequence[dict[str, float]]) -> dict[str, float]:
    result: dict[str, float] = {}
    for name in dict.fromkeys(n for step in history for n in step):
        values = [step[name] for step in history if name in step]
        result[f"train/{name}"] = max(values) if name.endswith("_max") else sum(values) / len(values)
    return result
