"""From credited trajectories to optimiser steps: mini-batches that mix fresh and replayed rows."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence

from mobilerl.algorithms.replay import Replay
from mobilerl.config import AlgorithmSection, TrainSection
from mobilerl.engines.base import Engine
from mobilerl.records import Batch, Row
from mobilerl.train.credit import Credited
from mobilerl.train.critics import Critic
from mobilerl.train.objectives import make_objective, with_prob_diff

Sample = tuple[Row, float]
"""A row and its trajectory's advantage."""


def mini_batches(
    fresh: Sequence[Sample], replay: Replay | None, size: int, rng: random.Random
) -> Iterator[tuple[list[Sample], list[Sample]]]:
    """(fresh, replayed) parts of mini-batches of about `size` rows; every fresh row is in exactly one.

    A trajectory's rows stay together: were they spread over mini-batches, `trajectory-mean` would count a long
    trajectory in full in each of them, and failures are long. The fresh parts are as equal as whole trajectories allow.
    The replayed part is at most gamma of its mini-batch, q = gamma p_B + (1 - gamma) p_on (MobileRL, AdaPR), whatever
    the fresh part's size.
    """
    gamma = replay.gamma if replay else 0.0  # an empty buffer is false as well: fresh rows take its share
    room = max(1, size - math.floor(gamma * size))
    steps = max(1, round(len(fresh) / room))
    trajectories: dict[str, list[Sample]] = {}
    for sample in fresh:
        trajectories.setdefault(sample[0].trajectory_id, []).append(sample)
    order = list(trajectories.values())
    rng.shuffle(order)
    parts: list[list[Sample]] = [[] for _ in range(steps)]
    before = 0
    for rows in order:
        middle = before + len(rows) / 2
        parts[min(steps - 1, int(middle * steps / len(fresh)))] += rows
        before += len(rows)
    for part in parts:
        if part:
            yield part, replay.draw(math.floor(len(part) / (1.0 - gamma)), rng) if replay else []


class Learner:
    """Updates an engine from an iteration's trajectories. Holds no state: that is the engine's, the replay's and the
    critic's."""

    def __init__(
        self, engine: Engine, algorithm: AlgorithmSection, settings: TrainSection, critic: Critic | None = None
    ) -> None:
        self.engine, self.algorithm, self.settings, self.critic = engine, algorithm, settings, critic
        self.objective = make_objective(algorithm.loss)

    def learn(self, credited: Sequence[Credited], replay: Replay | None, rng: random.Random) -> dict[str, float]:
        """All optimiser steps of an iteration; returns their mean metrics (maxima of those that end in `_max`)."""
        if self.settings.updates:
            return self.learn_from_replay(replay, self.settings.updates, rng)
        fresh = [(row, c.advantage) for c in credited for row in c.trajectory.rows()]
        old = self._old_logprobs([row for row, _ in fresh])
        history: list[dict[str, float]] = []
        replayed_rows = total_rows = 0
        for _ in range(self.settings.passes):
            for part, replayed in mini_batches(fresh, replay, self.settings.mini_batch, rng):
                batch = self._batch(part, replayed, old)
                # Before the first step, rollout and trainer can be compared on what these very weights have drawn.
                comparable = not history and any(row.version == self.engine.version for row, _ in part)
                objective = with_prob_diff(self.objective) if comparable else self.objective
                history.append(self.engine.update(batch, objective, self.algorithm.loss.agg))
                replayed_rows += len(replayed)
                total_rows += len(batch.rows)
        metrics = _summary(history)
        metrics["replay/fraction"] = replayed_rows / total_rows if total_rows else 0.0
        metrics["train/rows"] = float(total_rows)
        metrics["train/steps"] = float(len(history))
        return metrics

    def learn_from_replay(
        self, replay: Replay, updates: int, rng: random.Random, offline: bool = False
    ) -> dict[str, float]:
        """`updates` optimiser steps on mini-batches drawn from the buffer; none when it has nothing to give.

        With a critic the whole buffer is judged anew first. `offline`: on stored trajectories alone.
        """
        judged = self.critic.judge(replay, rng, offline) if self.critic is not None else {}
        history, rows = [], 0
        for _ in range(updates):
            if not (drawn := replay.draw(self.settings.mini_batch, rng)):
                break
            history.append(self.engine.update(self._batch([], drawn, None), self.objective, self.algorithm.loss.agg))
            rows += len(drawn)
        counted = {"train/rows": float(rows), "train/steps": float(len(history))}
        return {**_summary(history), **counted, "replay/fraction": 1.0 if rows else 0.0, **judged}

    def _old_logprobs(self, rows: Sequence[Row]) -> dict[tuple[str, int], tuple[float, ...]] | None:
        """Recomputed log-probabilities of fresh rows, if the recipe clips against those."""
        if not self.algorithm.loss.recompute_old or not rows:
            return None
        return {(r.trajectory_id, r.step): lp for r, lp in zip(rows, self.engine.logprobs(rows), strict=True)}

    def _batch(
        self, fresh: Sequence[Sample], replayed: Sequence[Sample], old: dict[tuple[str, int], tuple[float, ...]] | None
    ) -> Batch:
        """Replayed rows always keep the log-probabilities they were sampled with."""
        samples = [*fresh, *replayed]
        rows = [row for row, _ in samples]
        is_replayed = [False] * len(fresh) + [True] * len(replayed)
        old_logprobs = None
        if old is not None:
            old_logprobs = [
                r.rollout_logprobs if again else old[r.trajectory_id, r.step]
                for r, again in zip(rows, is_replayed, strict=True)
            ]
        ref = self.engine.logprobs(rows, reference=True) if self.algorithm.loss.kl_coef > 0 else None
        return Batch(rows, [a for _, a in samples], is_replayed, old_logprobs, ref, self.engine.version)


def _summary(history: Sequence[dict[str, float]]) -> dict[str, float]:
    result: dict[str, float] = {}
    for name in dict.fromkeys(n for step in history for n in step):
        values = [step[name] for step in history if name in step]
        result[f"train/{name}"] = max(values) if name.endswith("_max") else sum(values) / len(values)
    return result
