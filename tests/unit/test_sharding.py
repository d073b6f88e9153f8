"""Which process computes which rows."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mobilerl.engines.verl.sharding import shards
from mobilerl.records import TrainingSample
from mobilerl.records.engine import EngineError


def row(length: int) -> TrainingSample:
    return TrainingSample("t", 0, (1,) * length, (2,), (0.0,), (), 0)


@given(st.lists(st.integers(1, 300), min_size=1, max_size=40), st.integers(1, 8), st.integers(50, 600))
def test_every_row_counts_once_and_all_processes_make_equally_many_passes(lengths, processes, tokens):
    rows = [row(n) for n in lengths]
    split = shards(rows, processes, tokens)
    counted = [s.index[i] for s in split for part in s.parts[: s.counted] for i in part]
    assert sorted(counted) == list(range(len(rows)))
    assert len({len(s.parts) for s in split}) == 1
    for shard in split:
        for part in shard.parts:
            longest = max(len(rows[shard.index[i]].prompt_ids) + 1 for i in part)
            assert len(part) == 1 or len(part) * longest <= tokens


@given(st.lists(st.integers(1, 300), min_size=8, max_size=64), st.integers(2, 8))
def test_no_process_has_more_than_one_row_more_work_than_another(lengths, processes):
    split = shards([row(n) for n in lengths], processes, 10_000)
    loads = [sum(lengths[s.index[i]] for part in s.parts[: s.counted] for i in part) for s in split]
    assert max(loads) - min(loads) <= max(lengths)


def test_a_step_in_which_some_processes_would_skip_the_vision_tower_is_refused():
    """With NCCL the others would wait for their part of its weights."""
    text, image = row(5), replace(row(5), images=(b"png",))
    assert len(shards([image, image], 2, 100)) == len(shards([text, text], 2, 100)) == 2
    with pytest.raises(EngineError, match="with and without screenshots"):
        shards([image, text], 2, 100)
