"""Micro-batches whose size is chosen from a device's memory."""

from __future__ import annotations

import random

import pytest

from mobilerl.engines.micro_batch import FIRST_TOKENS, MicroBatchSize
from mobilerl.records import TrainingSample

PER_TOKEN = 1_000_000


class FakeMemory:
    """A device on which a micro-batch needs PER_TOKEN bytes for each of its padded tokens."""

    def __init__(self, total: int) -> None:
        self.total, self.peak = total, 0

    def restart(self) -> None:
        self.peak = 0

    def compute(self, tokens: int) -> None:
        assert tokens * PER_TOKEN <= self.total, "out of memory"
        self.peak = max(self.peak, tokens * PER_TOKEN)

    def used(self) -> int:
        return self.peak

    def free(self) -> int:
        return self.total


def samples(count: int, seed: int = 0) -> list[TrainingSample]:
    rng = random.Random(seed)
    lengths = [rng.randint(100, 1500) for _ in range(count)]
    return [TrainingSample("t", i, (1,) * n, (2,) * 10, (0.0,) * 10, (), 0) for i, n in enumerate(lengths)]


def learn(size: MicroBatchSize, rows: list[TrainingSample], memory: FakeMemory | None, reserved: int = 0) -> list[int]:
    """Padded tokens of the micro-batches of an update, in which each sample is learned from once."""
    tokens, seen = [], []
    for split in size.split(rows, reserved):
        for part in split:
            seen += part
            tokens.append(len(part) * max(len(rows[i].prompt_ids) + len(rows[i].response_ids) for i in part))
            if memory:
                memory.compute(tokens[-1])
    assert sorted(seen) == list(range(len(rows)))
    return tokens


@pytest.mark.parametrize("gigabytes", [8, 24, 80])
def test_a_measured_size_uses_the_memory_and_not_more(gigabytes):
    memory = FakeMemory(gigabytes * 10**9)
    size = MicroBatchSize("auto", memory)
    rows = samples(400)
    first, *rest = learn(size, rows, memory)
    assert first <= FIRST_TOKENS
    assert 0.5 * memory.total < max(rest) * PER_TOKEN <= 0.8 * memory.total
    assert learn(size, rows, memory) == learn(size, rows, memory), "later updates measure nothing"


def test_state_that_is_still_to_be_allocated_is_left_free():
    memory = FakeMemory(24 * 10**9)
    size = MicroBatchSize("auto", memory)
    learn(size, samples(100), memory, reserved=14 * 10**9)
    assert 0.5 * 10 * 10**9 < size.tokens * PER_TOKEN <= 0.8 * 10 * 10**9


def test_a_small_device_gets_smaller_micro_batches_than_the_measured_one():
    memory = FakeMemory(4_200_000_000)
    size = MicroBatchSize("auto", memory)
    learn(size, samples(50), memory)
    assert size.tokens < FIRST_TOKENS


def test_a_resumed_run_keeps_its_size_and_a_set_one_is_never_changed():
    memory = FakeMemory(80 * 10**9)
    resumed, fixed = MicroBatchSize("auto", memory), MicroBatchSize(2048, memory)
    resumed.restore(7168)
    fixed.restore(7168)
    learn(resumed, samples(50), memory)
    learn(fixed, samples(50), memory)
    assert (resumed.tokens, fixed.tokens) == (7168, 2048)
    assert MicroBatchSize("auto", None).tokens == FIRST_TOKENS
