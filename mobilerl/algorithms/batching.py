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
    """Yields mini-batches of about `size` samples; every fresh sample is in exactly one of them.

    The samples of a trajectory stay together: if they were spread over mini-batches, `trajectory-mean` would give a
    long trajectory full weight in each, and failures are long. Fresh parts are as equal as whole trajectories allow.
    Replayed samples are at most a fraction gamma of a mini-batch, q = gamma p_B + (1 - gamma) p_on (MobileRL, AdaPR),
    whatever the size of its fresh part; with `trajectory-mean`, replayed trajectories are too. Without fresh samples
    there is one mini-batch of replayed ones, so that hard tasks are still learned from.
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
            yield part + (_draw_replayed(part, replay, rng, aggregation) if replay else [])


def _draw_replayed(
    part: Sequence[TrainingSample], replay: AdaptivePositiveReplay, rng: random.Random, aggregation: Aggregation
) -> list[TrainingSample]:
    """Draws the replayed samples that go with a mini-batch's fresh ones."""
    most = None
    if aggregation == "trajectory-mean":
        most = math.floor(len({s.trajectory_id for s in part}) * replay.gamma / (1.0 - replay.gamma))
    return replay.draw(math.floor(len(part) / (1.0 - replay.gamma)), rng, most)
