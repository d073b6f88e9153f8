"""Rows of packed samples; tests/integration/test_sft_packing_families.py compares their losses and gradients."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers.modeling_flash_attention_utils import prepare_fa_kwargs_from_position_ids

from mobilerl import tiny
from mobilerl.config import ConfigError
from mobilerl.models.codec import Codec
from mobilerl.models.loading import load_model
from sft.packing import Packer, check_family, rows_within
from sft.samples import Sample

SAMPLES = [Sample((5, 6), (7,), ()), Sample((5,), (6, 7, 8), (), (True, False, True)), Sample((5, 6, 7), (8, 9), ())]


def test_flash_attention_is_told_where_the_samples_end(tmp_path):
    """On a GPU transformers derives the samples' ends from the first row of positions; there is a single row then."""
    torch.manual_seed(0)
    tiny.create(tmp_path, ["tap the green button"], hidden=32, layers=2, heads=2, vision_hidden=16)
    model, codec = load_model(tmp_path), Codec.load(tmp_path)
    assert Packer(model, codec, 8)(SAMPLES)["input_ids"].shape[0] == 2
    model.config._attn_implementation = "flash_attention_2"
    batch = Packer(model, codec, 8)(SAMPLES)
    (ends, _), (longest, _) = prepare_fa_kwargs_from_position_ids(batch["position_ids"][0])
    assert ends.tolist() == [0, 3, 7, 12] and longest == 5
    # Labels follow the logits of the token before; the second sample trains on two of three tokens.
    assert batch["logits_to_keep"].tolist() == [1, 3, 5, 9, 10] and batch["labels"].tolist() == [[7, 6, 8, 8, 9]]


def test_an_unsupported_family_is_refused():
    check_family("glm4v")
    with pytest.raises(ConfigError, match=r"sft.packing supports Qwen2.5-VL.*'llava'.*sft.packing = 0"):
        check_family("llava")


@given(lengths=st.lists(st.integers(1, 50), max_size=30), budget=st.integers(1, 80))
def test_rows_hold_every_sample_once_within_the_budget(lengths, budget):
    rows = rows_within(lengths, budget)
    assert sorted(i for row in rows for i in row) == list(range(len(lengths)))
    for row in rows:
        assert sum(lengths[i] for i in row) <= budget or len(row) == 1
