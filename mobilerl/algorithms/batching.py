"""Mini-batches that mix fresh and replayed samples."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence

from mobilerl.algorithms.losses import Aggregation
from mobilerl.algorithms.replay import AdaptivePositiveReplay
from mobilerl.records import TrainingSample


def mini_batches(
    fresh: Sequence[TrainingSample],
    replay: AdaptivePositiveReplay | None,
    size: int,
    rng: random.Random,
    aggregation: Aggregation = "trajectory-mean",
) -> Iterator[list[TrainingSample]]:
    """Mini-batches of about `size` samples; every fresh sample is in exactly one.

    The samples of a trajectory stay together: spread over mini-batches, `trajectory-mean` would count a long
    trajectory in full in each of them, and failures are long. The fresh parts are as equal as whole trajectories allow.
    The replayed part is at most gamma of its mini-batch, q = gamma p_B + (1 - gamma) p_on (MobileRL, AdaPR), whatever
    the fresh part's size; where trajectories have equal weight, of its trajectories too. Without fresh samples there is
    one mini-batch, of replayed ones alone: what is hardest to find must not wait for luck.
    """
    gamma = replay.gamma if replay else 0.0  # an empty buffer is false as well
    if not fresh:
        if replay and gamma > 0 and (drawn := replay.draw(math.ceil(size / gamma), rng)):
            yield drawn
        return
    room = max(1, size - math.floor(gamma * size))
    steps = max(1, round(len(fresh) / room))
    trajectories: dict[str, list[TrainingSample]] = {}
    for sample in fresh:
        trajectories.setdefault(sample.trajectory_id, []).append(sample)
    order = list(trajectories.values())
    rng.shuffle(order)
    parts: list[list[TrainingSample]] = [[] for _ in range(steps)]
    before = 0
    for samples in order:
        middle = before + len(samples) / 2
        parts[min(steps - 1, int(middle * steps / len(fresh)))] += samples
        before += len(samples)
    for part in parts:
        if part:
            yield part + (_replayed(part, replay, rng, aggregation) if replay else [])


def _replayed(
    part: Sequence[TrainingSample], replay: AdaptivePositiveReplay, rng: random.Random, aggregation: Aggregation
) -> list[TrainingSample]:
    """Replayed samples for the fresh ones of a mini-batch."""
    most = None
    if aggregation == "trajectory-mean":
        most = math.floor(len({s.trajectory_id for s in part}) * replay.gamma / (1.0 - replay.gamma))
    return replay.draw(math.floor(len(part) / (1.0 - replay.gamma)), rng, most)
