"""From rows to the tensors of an objective, the same in every engine."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from mobilerl.algorithms.losses import aggregation_weights
from mobilerl.engines.base import MicroBatch
from mobilerl.records import Batch, Row

if TYPE_CHECKING:
    from mobilerl.engines.codec import Codec


def row_logprobs(
    model: torch.nn.Module, codec: Codec, rows: Sequence[Row], temperature: float, device: torch.device | str
) -> tuple[Tensor, Tensor]:
    """(R, L) log-probabilities at `temperature` and mask. Responses end at the last column, rows begin with padding.

    Logits are made only where there are responses, and images' placeholders cannot come out, as in sampling.
    """
    inputs = codec.collate(
        [r.prompt_ids + r.response_ids for r in rows], [r.images for r in rows], pad_left=True, device=device
    )
    longest = max(len(r.response_ids) for r in rows)
    logits = model(**inputs, logits_to_keep=longest + 1).logits[:, :-1].float()
    logits = logits / temperature
    logits[..., list(codec.banned_ids)] = torch.finfo(logits.dtype).min
    targets = inputs["input_ids"][:, -longest:]
    logp = logits.gather(-1, targets.unsqueeze(-1)).squeeze(-1) - logits.logsumexp(-1)
    mask = right_aligned([[1.0] * len(r.response_ids) for r in rows], longest).to(device)
    return logp * mask, mask


@dataclass(frozen=True, slots=True)
class BatchTensors:
    """What an objective sees of a whole optimiser step, (R, L) or (R,), responses at the right edge; on the CPU."""

    old: Tensor
    rollout: Tensor
    ref: Tensor | None
    advantage: Tensor
    older: Tensor
    weights: Tensor

    @classmethod
    def of(cls, batch: Batch, agg: str) -> BatchTensors:
        rows = batch.rows
        longest = max(len(r.response_ids) for r in rows)
        mask = right_aligned([[1.0] * len(r.response_ids) for r in rows], longest)
        # One that is replayed beside its fresh self is two: else chance would set its weight.
        plays = [(r.trajectory_id, again) for r, again in zip(rows, batch.replayed, strict=True)]
        ids = {play: i for i, play in enumerate(dict.fromkeys(plays))}
        rollout = right_aligned([r.rollout_logprobs for r in rows], longest)
        return cls(
            old=rollout if batch.old_logprobs is None else right_aligned(batch.old_logprobs, longest),
            rollout=rollout,
            ref=None if batch.ref_logprobs is None else right_aligned(batch.ref_logprobs, longest),
            advantage=torch.tensor(batch.advantages, dtype=torch.float32),
            older=torch.tensor(
                [again or batch.version not in (None, row.version)
                 for row, again in zip(rows, batch.replayed, strict=True)]
            ),
            weights=aggregation_weights(mask, agg, torch.tensor([ids[play] for play in plays])),
        )

    def take(self, index: Sequence[int]) -> BatchTensors:
        """Those of some of the rows: what one of several processes needs."""
        i = list(index)
        ref = None if self.ref is None else self.ref[i]
        return BatchTensors(self.old[i], self.rollout[i], ref, self.advantage[i], self.older[i], self.weights[i])

    def micro_batch(self, part: Sequence[int], logp: Tensor, mask: Tensor) -> MicroBatch:
        """The rows `part` with their (R, L') log-probabilities, L' <= L, on those's device."""
        width, index = logp.shape[1], list(part)

        def cut(t: Tensor) -> Tensor:
            return t[index][:, t.shape[1] - width :].to(logp.device)

        return MicroBatch(
            logp, cut(self.old), cut(self.rollout), None if self.ref is None else cut(self.ref),
            self.advantage[index].to(logp.device), self.older[index].to(logp.device), mask, cut(self.weights),
        )  # fmt: skip


def micro_batches(rows: Sequence[Row], tokens: int) -> Iterator[list[int]]:
    """Indices of rows of similar length, at most `tokens` padded tokens each (a longer row is alone)."""
    lengths = [len(r.prompt_ids) + len(r.response_ids) for r in rows]
    part: list[int] = []
    for i in sorted(range(len(rows)), key=lambda i: -lengths[i]):
        if part and (len(part) + 1) * lengths[part[0]] > tokens:
            yield part
            part = []
        part.append(i)
    if part:
        yield part


def add_metrics(total: dict[str, float], parts: Mapping[str, Tensor | float]) -> None:
    """Adds up over micro-batches; of those that end in `_max` the largest is kept."""
    for name, value in parts.items():
        if name.endswith("_max"):
            total[name] = max(total.get(name, -math.inf), float(value))
        else:
            total[name] = total.get(name, 0.0) + float(value)


def right_aligned(values: Sequence[Sequence[float]], width: int) -> Tensor:
    """(R, width) float32, each row at the right edge."""
    out = torch.zeros(len(values), width)
    for i, row in enumerate(values):
        if len(row):
            out[i, width - len(row) :] = torch.tensor(row)
    return out


def warmed_up(rate: float, step: int, warmup_steps: int) -> float:
    """The learning rate of optimiser step `step`, counted from 1: it rises to `rate` over the first `warmup_steps`."""
    return rate * (min(1.0, step / warmup_steps) if warmup_steps else 1.0)
