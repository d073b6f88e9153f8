"""Log-probabilities and micro-batches of samples, shared by all engines."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from itertools import accumulate
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from mobilerl.algorithms.losses import aggregation_weights
from mobilerl.algorithms.losses.aggregation import Aggregation
from mobilerl.models.packing import packed_inputs
from mobilerl.models.response_head import Targets, score_targets
from mobilerl.models.transfer import to_device
from mobilerl.records import MicroBatch, TrainingSample

if TYPE_CHECKING:
    from mobilerl.models.codec import Codec
    from mobilerl.models.images import Patches

IMAGES_AHEAD = 32
"""Images in preparation, so that the threads do not wait for each other after every micro-batch."""


def sample_logprobs(
    model: torch.nn.Module, codec: Codec, rows: Sequence[TrainingSample], temperature: float, device: torch.device | str
) -> tuple[Tensor, Tensor]:
    """Computes (R, L) log-probabilities at `temperature`, right-aligned, and their mask.

    `model` must use the attention `ATTENTION`. Logits are computed only for response positions, a part of them at a
    time, and banned tokens are excluded as in sampling.
    """
    ids = [r.prompt_ids + r.response_ids for r in rows]
    inputs = packed_inputs(model, codec, ids, [r.images for r in rows], device)
    responses = [len(r.response_ids) for r in rows]
    ends = accumulate(map(len, ids))
    places = to_device(torch.cat([torch.arange(e - n, e) for e, n in zip(ends, responses, strict=True)]), device)
    targets = Targets(inputs["input_ids"][0, places], to_device(codec.banned, device), temperature)
    logp = score_targets(model, inputs, places - 1, targets)
    mask = to_device(right_aligned([[1.0] * n for n in responses], max(responses)), device)
    return torch.zeros_like(mask).masked_scatter(mask.bool(), logp), mask


def sample_weights(samples: Sequence[TrainingSample], aggregation: Aggregation) -> Tensor:
    """Computes (R, L) token weights of an optimizer step, right-aligned; see `losses.aggregation_weights`."""
    longest = max(len(s.response_ids) for s in samples)
    mask = right_aligned([[1.0] * len(s.response_ids) for s in samples], longest)
    # A trajectory that is both fresh and replayed counts as two.
    keys = [(s.trajectory_id, s.replayed) for s in samples]
    ids = {key: i for i, key in enumerate(dict.fromkeys(keys))}
    return aggregation_weights(mask, aggregation, torch.tensor([ids[key] for key in keys]))


def make_micro_batch(
    samples: Sequence[TrainingSample], weights: Tensor, logp: Tensor, mask: Tensor, version: int
) -> MicroBatch:
    """Makes the tensors of an objective on the device of `logp`.

    Args:
        samples: R samples.
        weights: (R, L) the samples' rows of `sample_weights`.
        logp, mask: (R, L') results of `sample_logprobs`, with L' <= L.
        version: version of the weights being trained.
    """
    device, width = logp.device, logp.shape[1]

    def pad_rows(values: Sequence[Sequence[float]]) -> Tensor:
        return to_device(right_aligned(values, width), device)

    old = [s.rollout_logprobs if s.old_logprobs is None else s.old_logprobs for s in samples]
    ref = [s.ref_logprobs for s in samples if s.ref_logprobs is not None]
    return MicroBatch(
        logp,
        old_logp=pad_rows(old),
        rollout_logp=pad_rows([s.rollout_logprobs for s in samples]),
        ref_logp=pad_rows(ref) if len(ref) == len(samples) else None,
        advantage=to_device(torch.tensor([s.advantage for s in samples], dtype=torch.float32), device),
        off_policy=to_device(torch.tensor([s.replayed or s.version != version for s in samples]), device),
        replayed=to_device(torch.tensor([s.replayed for s in samples]), device),
        mask=mask,
        weights=to_device(weights[:, weights.shape[1] - width :], device),
    )


def micro_batches(rows: Sequence[TrainingSample], tokens: int) -> Iterator[list[int]]:
    """Yields indices of samples of similar length, at most `tokens` padded tokens at a time; a longer one is alone."""
    lengths = [len(r.prompt_ids) + len(r.response_ids) for r in rows]
    part: list[int] = []
    for i in sorted(range(len(rows)), key=lambda i: -lengths[i]):
        if part and (len(part) + 1) * lengths[part[0]] > tokens:
            yield part
            part = []
        part.append(i)
    if part:
        yield part


def with_prepared_images(
    codec: Codec, rows: Sequence[TrainingSample], parts: Iterable[list[int]]
) -> Iterator[list[int]]:
    """Yields the micro-batches `parts` of `rows` while threads prepare the images of those that follow."""
    parts = list(parts)
    coming = iter(parts)
    ahead: deque[list[Future[Patches]]] = deque()
    for part in parts:
        while len(ahead) < 2 or sum(map(len, ahead)) < IMAGES_AHEAD:
            if (following := next(coming, None)) is None:
                break
            ahead.append(codec.images.prepare({png: None for i in following for png in rows[i].images}))
        wait(ahead.popleft())
        yield part


class Metrics:
    """Metrics of the micro-batches of an optimizer step, which stay on their device until all are asked for."""

    def __init__(self) -> None:
        self._parts: list[tuple[list[str], Tensor]] = []

    def add(self, parts: Mapping[str, Tensor]) -> None:
        """Takes the 0-d metrics of a micro-batch."""
        self._parts.append((list(parts), torch.stack([value.detach().double() for value in parts.values()])))

    def total(self) -> dict[str, float]:
        """Their totals by name, see `add_metrics`; {} without a micro-batch. Waits for the device once."""
        total: dict[str, float] = {}
        values = torch.cat([values for _, values in self._parts]).tolist() if self._parts else []
        remaining = iter(values)
        for names, _ in self._parts:
            add_metrics(total, {name: next(remaining) for name in names})
        return total


def add_metrics(total: dict[str, float], parts: Mapping[str, float]) -> None:
    """Adds metrics to the total; metrics that end in `_max` are combined by maximum."""
    for name, value in parts.items():
        if name.endswith("_max"):
            total[name] = max(total.get(name, -math.inf), value)
        else:
            total[name] = total.get(name, 0.0) + value


def right_aligned(values: Sequence[Sequence[float]], width: int) -> Tensor:
    """Returns the rows as a (R, width) float32 tensor, right-aligned and padded with 0."""
    out = torch.zeros(len(values), width)
    for i, row in enumerate(values):
        if len(row):
            out[i, width - len(row) :] = torch.tensor(row)
    return out


def response_values(rows: Sequence[TrainingSample], values: Tensor) -> Iterator[tuple[float, ...]]:
    """Inverse of `right_aligned`: the values of each sample's response tokens."""
    for row, padded in zip(rows, values.tolist(), strict=True):
        yield tuple(padded[len(padded) - len(row.response_ids) :])


def warmup_rate(rate: float, step: int, warmup_steps: int) -> float:
    """Learning rate of optimizer step `step`, counted from 1, with linear warmup."""
    return rate * (min(1.0, step / warmup_steps) if warmup_steps else 1.0)
