"""Log-probabilities and micro-batches of samples, shared by all engines."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from itertools import accumulate
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from mobilerl.algorithms.losses import aggregation_weights
from mobilerl.algorithms.losses.aggregation import Aggregation
from mobilerl.models.packing import packed_inputs
from mobilerl.records import MicroBatch, TrainingSample

if TYPE_CHECKING:
    from mobilerl.models.codec import Codec
    from mobilerl.models.images import Patches


def sample_logprobs(
    model: torch.nn.Module, codec: Codec, rows: Sequence[TrainingSample], temperature: float, device: torch.device | str
) -> tuple[Tensor, Tensor]:
    """Computes (R, L) log-probabilities at `temperature`, right-aligned, and their mask.

    `model` must use the attention `ATTENTION`. Logits are computed only for response positions, and banned tokens are
    excluded as in sampling.
    """
    ids = [r.prompt_ids + r.response_ids for r in rows]
    inputs = packed_inputs(model, codec, ids, [r.images for r in rows], device)
    responses = [len(r.response_ids) for r in rows]
    ends = accumulate(map(len, ids))
    places = torch.cat([torch.arange(e - n, e) for e, n in zip(ends, responses, strict=True)]).to(device)
    logits = model(**inputs, logits_to_keep=places - 1).logits[0].float() / temperature
    logits = logits.index_fill(-1, torch.tensor(codec.banned_ids, device=device), torch.finfo(logits.dtype).min)
    targets = inputs["input_ids"][0, places]
    logp = logits.gather(-1, targets.unsqueeze(-1)).squeeze(-1) - logits.logsumexp(-1)
    mask = right_aligned([[1.0] * n for n in responses], max(responses)).to(device)
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

    def aligned(values: Sequence[Sequence[float]]) -> Tensor:
        return right_aligned(values, width).to(device)

    old = [s.rollout_logprobs if s.old_logprobs is None else s.old_logprobs for s in samples]
    ref = [s.ref_logprobs for s in samples if s.ref_logprobs is not None]
    return MicroBatch(
        logp,
        old_logp=aligned(old),
        rollout_logp=aligned([s.rollout_logprobs for s in samples]),
        ref_logp=aligned(ref) if len(ref) == len(samples) else None,
        advantage=torch.tensor([s.advantage for s in samples], dtype=torch.float32, device=device),
        older=torch.tensor([s.replayed or s.version != version for s in samples], device=device),
        replayed=torch.tensor([s.replayed for s in samples], device=device),
        mask=mask,
        weights=weights[:, weights.shape[1] - width :].to(device),
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
    """Yields the micro-batches `parts` of `rows` while threads prepare the images of the next one."""
    parts = list(parts)

    def prepare(part: list[int]) -> list[Future[Patches]]:
        return codec.images.prepare({png: None for i in part for png in rows[i].images})

    ready = prepare(parts[0]) if parts else []
    for part, following in zip(parts, [*parts[1:], []], strict=False):
        wait(ready)
        ready = prepare(following)
        yield part


def add_metrics(total: dict[str, float], parts: Mapping[str, Tensor | float]) -> None:
    """Adds a micro-batch's metrics to the total; metrics that end in `_max` are combined by maximum."""
    for name, value in parts.items():
        if name.endswith("_max"):
            total[name] = max(total.get(name, -math.inf), float(value))
        else:
            total[name] = total.get(name, 0.0) + float(value)


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
