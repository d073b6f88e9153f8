"""Which samples an optimiser step sees, which part of them a process gets, and the tensors they become."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor
from torch.utils.data import Dataset

from mobilerl.engines.codec import Codec
from sft.samples import Sample

IGNORE = -100


class SampleDataset(Dataset):
    def __init__(self, samples: Sequence[Sample]) -> None:
        self.samples = samples

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> Sample:
        return self.samples[index]


class LengthBatches:
    """Batches of samples of similar length in random order, so that little of a batch is padding."""

    def __init__(self, lengths: Sequence[int], batch_size: int, seed: int) -> None:
        self.lengths, self.batch_size = lengths, batch_size
        if not lengths:
            raise ValueError("there are no samples to train on")
        self.generator = torch.Generator().manual_seed(seed)

    def __len__(self) -> int:
        return -(-len(self.lengths) // self.batch_size)

    def __iter__(self) -> Iterator[list[int]]:
        shuffled = torch.randperm(len(self.lengths), generator=self.generator).tolist()
        # Sorted within chunks of 16 batches: near-equal lengths, yet another partner for a sample in every epoch.
        chunk = 16 * self.batch_size
        order: list[int] = []
        for i in range(0, len(shuffled), chunk):
            order.extend(sorted(shuffled[i : i + chunk], key=self.lengths.__getitem__))
        batches = [order[i : i + self.batch_size] for i in range(0, len(order), self.batch_size)]
        for i in torch.randperm(len(batches), generator=self.generator).tolist():
            yield batches[i]


class RankBatches:
    """One rank's micro-batches of `batches`: the same batches for any number of ranks, and the same steps for all.

    A batch is `accumulation` micro-steps of `ranks` x `micro_batch` samples. Those of a micro-step are dealt out in
    turns, so that the ranks' shares are of similar length. A short batch, the last of an epoch, leaves some empty.
    """

    def __init__(self, batches: LengthBatches, rank: int = 0, ranks: int = 1, micro_batch: int = 0) -> None:
        self.batches, self.rank, self.ranks = batches, rank, ranks
        share, rest = divmod(batches.batch_size, ranks)
        self.micro_batch = micro_batch or share
        if rest or share % self.micro_batch:
            raise ValueError(f"a batch of {batches.batch_size} samples is not {ranks} x a number of {self.micro_batch}")
        self.accumulation = share // self.micro_batch

    def __len__(self) -> int:
        return len(self.batches) * self.accumulation

    def __iter__(self) -> Iterator[list[int]]:
        step = self.ranks * self.micro_batch
        for batch in self.batches:
            for i in range(self.accumulation):
                yield batch[i * step : (i + 1) * step][self.rank :: self.ranks]


def stand_in(samples: Sequence[Sample], lengths: Sequence[int], images: Sequence[int]) -> Sample:
    """The shortest sample, with images if any has some, nothing of it trained."""
    most = [i for i, count in enumerate(images) if count] or range(len(lengths))
    chosen = samples[min(most, key=lengths.__getitem__)]
    return replace(chosen, trained=(False,) * len(chosen.response_ids))


def completed(samples: Sequence[Sample], filler: Sample) -> Sequence[Sample]:
    """`samples`, with `filler` where none of them has what it has: a row at all, or an image.

    Ranks that share weights or gradients wait for each other in every module: they must all go through the same ones.
    """
    lacking = not samples or (filler.images and not any(s.images for s in samples))
    return [*samples, filler] if lacking else samples


def collate(samples: Sequence[Sample], codec: Codec) -> dict[str, Tensor]:
    """Left-padded inputs; `labels` (B, longest response) are right-aligned and IGNORE elsewhere."""
    inputs = codec.collate([s.prompt_ids + s.response_ids for s in samples], [s.images for s in samples], pad_left=True)
    longest = max(len(s.response_ids) for s in samples)
    labels = torch.full((len(samples), longest), IGNORE)
    for i, sample in enumerate(samples):
        labels[i, longest - len(sample.response_ids) :] = targets(sample)
    return {**inputs, "labels": labels}


def targets(sample: Sample) -> Tensor:
    """(response,) its tokens, IGNORE where they are not trained on."""
    reply = torch.tensor(sample.response_ids)
    if sample.trained is not None:
        reply[~torch.tensor(sample.trained)] = IGNORE
    return reply
