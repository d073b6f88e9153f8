"""The size of micro-batches, chosen from the memory of a GPU if it is not set."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, Protocol

import torch

from mobilerl.engines.scoring import micro_batches
from mobilerl.records import TrainingSample

FIRST_TOKENS = 4096
"""Tokens of the micro-batch that is measured; on a CPU, of all."""
SHARE = 0.8
"""Fraction of the free memory to use; the rest is for fragments and for rows with more image tokens."""
STEP = 1024
"""Chosen sizes are multiples, so that small differences of memory do not change them."""


class Memory(Protocol):
    """What is measured of a device's memory, in bytes."""

    def restart(self) -> None:
        """Begins to look for the peak."""

    def used(self) -> int:
        """Peak since `restart`, above what was allocated then."""

    def free(self) -> int:
        """What can still be allocated."""


class GpuMemory:
    """Memory of the current GPU."""

    def restart(self) -> None:
        torch.cuda.reset_peak_memory_stats()
        self._before = torch.cuda.memory_allocated()

    def used(self) -> int:
        return torch.cuda.max_memory_allocated() - self._before

    def free(self) -> int:
        return torch.cuda.mem_get_info()[0] + torch.cuda.memory_reserved() - torch.cuda.memory_allocated()


class MicroBatchSize:
    """Splits samples into micro-batches of `tokens` padded tokens.

    With "auto", the first micro-batch that is learned from has the longest samples in FIRST_TOKENS; the memory that it
    needs per token says how many tokens fit into those that follow, in this update and later ones.
    """

    def __init__(self, tokens: int | Literal["auto"], memory: Memory | None) -> None:
        """`memory` is None without a GPU, for which "auto" is FIRST_TOKENS."""
        self.tokens = FIRST_TOKENS if tokens == "auto" else tokens
        self._memory = memory if tokens == "auto" else None

    def restore(self, tokens: int) -> None:
        """Goes on with the size that an earlier run chose, so that sums are in the same order."""
        if self._memory is not None:
            self.tokens, self._memory = tokens, None

    def split(self, samples: Sequence[TrainingSample], reserved: int = 0) -> Iterator[list[list[int]]]:
        """Yields micro-batches, as indices, in one list or two; the first is learned from before the next is asked for.

        Args:
            samples: samples of an optimizer step.
            reserved: bytes that will be allocated after it, such as the optimizer's state in the first one.
        """
        rest = list(range(len(samples)))
        if self._memory is not None and samples:
            first = next(micro_batches(samples, self.tokens))
            length = max(len(samples[i].prompt_ids) + len(samples[i].response_ids) for i in first) * len(first)
            self._memory.restart()
            yield [first]
            per_token = max(1, self._memory.used()) / length
            fitting = SHARE * (self._memory.free() - reserved) / per_token
            self.tokens, self._memory = max(STEP, int(fitting) // STEP * STEP), None
            rest = [i for i in rest if i not in first]
        yield [[rest[i] for i in part] for part in micro_batches([samples[i] for i in rest], self.tokens)]
