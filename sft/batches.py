"""Forms the batches of an epoch, distributes them among ranks, and converts them to tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from mobilerl.models.codec import Codec
from mobilerl.models.packing import packed_inputs
from mobilerl.sft.sample_files import lengths_of
from mobilerl.sft.samples import Sample

IGNORE = -100

Collator = Callable[[Sequence[Sample]], dict[str, Any]]


class LengthBatches:
    """Batches of samples of similar length in random order, which limits padding."""

    def __init__(self, lengths: Sequence[int], batch_size: int, seed: int) -> None:
        self.lengths, self.batch_size = lengths, batch_size
        if not lengths:
            raise ValueError("there are no samples to train on")
        self.generator = torch.Generator().manual_seed(seed)

    def __len__(self) -> int:
        return -(-len(self.lengths) // self.batch_size)

    def skip_epochs(self, count: int) -> None:
        """Leaves out epochs: the next one is as if `count` had been iterated over before it."""
        for _ in range(count):
            next(iter(self))  # draws the order of the epoch

    def __iter__(self) -> Iterator[list[int]]:
        shuffled = torch.randperm(len(self.lengths), generator=self.generator).tolist()
        # Sorting within chunks of 16 batches gives similar lengths, yet different batches in every epoch.
        chunk = 16 * self.batch_size
        order: list[int] = []
        for i in range(0, len(shuffled), chunk):
            order.extend(sorted(shuffled[i : i + chunk], key=self.lengths.__getitem__))
        batches = [order[i : i + self.batch_size] for i in range(0, len(order), self.batch_size)]
        for i in torch.randperm(len(batches), generator=self.generator).tolist():
            yield batches[i]


class RankBatches:
    """One rank's micro-batches of `batches`, which are the same for any number of ranks.

    A batch is `accumulation` micro-steps of `ranks` x `micro_batch_size` samples, distributed round-robin so that the
    ranks' shares have similar lengths. The last batch of an epoch may leave some shares empty.
    """

    def __init__(self, batches: LengthBatches, rank: int = 0, ranks: int = 1, micro_batch_size: int = 0) -> None:
        self.batches, self.rank, self.ranks = batches, rank, ranks
        share, rest = divmod(batches.batch_size, ranks)
        self.micro_batch_size = micro_batch_size or share
        if rest or share % self.micro_batch_size:
            raise ValueError(
                f"a batch of {batches.batch_size} samples is not a multiple of {ranks} x {self.micro_batch_size}"
            )
        self.accumulation = share // self.micro_batch_size

    def __len__(self) -> int:
        return len(self.batches) * self.accumulation

    def __iter__(self) -> Iterator[list[int]]:
        step = self.ranks * self.micro_batch_size
        for batch in self.batches:
            for i in range(self.accumulation):
                yield batch[i * step : (i + 1) * step][self.rank :: self.ranks]


def with_placeholder(make: Collator, samples: Sequence[Sample], images: Sequence[int]) -> Collator:
    """A collator that adds a sample without loss where a micro-batch is empty, or has no image but others may.

    Ranks that share weights or gradients wait for each other in every module, so all must run the same modules. The
    placeholder is the shortest sample with an image, if any has one. `images` holds the number of images of each
    sample.
    """
    lengths = lengths_of(samples)
    candidates = [i for i, count in enumerate(images) if count] or range(len(lengths))
    shortest = samples[min(candidates, key=lengths.__getitem__)]
    placeholder = replace(shortest, trained=(False,) * len(shortest.response_ids))

    def collator(chosen: Sequence[Sample]) -> dict[str, Any]:
        incomplete = not chosen or (placeholder.images and not any(s.images for s in chosen))
        return make([*chosen, placeholder] if incomplete else chosen)

    return collator


def collate(samples: Sequence[Sample], model: torch.nn.Module, codec: Codec) -> dict[str, Any]:
    """Inputs of one packed sequence. `labels` (1, K) belong to the logits of the K tokens in `logits_to_keep`."""
    ids = [s.prompt_ids + s.response_ids for s in samples]
    inputs = packed_inputs(model, codec, ids, [s.images for s in samples])
    labels = torch.cat([part for s in samples for part in (torch.full((len(s.prompt_ids),), IGNORE), targets(s))])
    keep = (labels != IGNORE).nonzero().flatten()
    keep = keep if len(keep) else torch.ones(1, dtype=torch.long)  # only a placeholder
    return {**inputs, "logits_to_keep": keep - 1, "labels": labels[keep].unsqueeze(0)}


def targets(sample: Sample) -> Tensor:
    """Token ids of the response, shape (response,), with IGNORE for those that are not trained on."""
    response = torch.tensor(sample.response_ids)
    if sample.trained is not None:
        response[~torch.tensor(sample.trained)] = IGNORE
    return response
