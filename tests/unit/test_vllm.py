"""vLLM as a sampler, without vLLM: image limits, and the weights that it is sent."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from peft import LoraConfig, get_peft_model
from PIL import Image
from safetensors.torch import load_file

from mobilerl.config import ConfigError
from mobilerl.inference import vllm_weights
from mobilerl.inference.vllm_adapter import adapter_refusal, adapter_tensors, write_adapter
from mobilerl.inference.vllm_arguments import check_names, image_limits, read_overrides
from mobilerl.inference.vllm_weights import checkpoint_weights, make_buckets, read_bucket
from mobilerl.models import tiny
from mobilerl.models.codec import Codec
from mobilerl.models.loading import LORA_TARGETS, add_lora, load_model

WAIT_S = 20.0


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("tiny")
    torch.manual_seed(0)
    tiny.create(path, ("Open the Settings app",), hidden=32, layers=2, heads=2, vision_hidden=16)
    return path


def png(width: int, height: int) -> bytes:
    out = io.BytesIO()
    pixels = np.random.default_rng(width).integers(0, 256, (height, width, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(out, "PNG")
    return out.getvalue()


@pytest.mark.parametrize("limit", (None, 3136))
def test_vllms_image_processor_leaves_prepared_images_as_they_are(folder, limit):
    codec = Codec.load(folder, limit)
    limits = image_limits(codec)
    for width, height in ((90, 200), (360, 720), (40, 40)):
        screen = png(width, height)
        shown = codec.images.scale(screen)
        assert limits["shortest_edge"] <= shown.width * shown.height <= limits["longest_edge"]
        again = codec.image_processor(images=[shown], return_tensors="np", size=limits)
        np.testing.assert_allclose(again["pixel_values"], codec.pixels(screen)[0], atol=1e-6)


def test_an_adapter_is_added_to_its_base_and_the_base_is_unchanged(folder):
    model = add_lora(load_model(folder), 2)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "lora_" in name:
                p.normal_()
    before = {name: p.clone() for name, p in model.named_parameters()}
    sent = dict(checkpoint_weights(model))
    assert all(torch.equal(p, before[name]) for name, p in model.named_parameters())
    merged = dict(model.merge_and_unload().named_parameters())
    assert sent.keys() == merged.keys() == dict(load_model(folder).named_parameters()).keys()
    assert all(torch.allclose(sent[name], merged[name], atol=1e-6) for name in merged)


def test_an_adapter_alone_is_written_as_peft_reads_it_whatever_its_scales(folder, tmp_path):
    config = LoraConfig(
        r=4, lora_alpha=6, rank_pattern={"q_proj": 2}, alpha_pattern={"v_proj": 5}, target_modules=LORA_TARGETS
    )
    model = get_peft_model(load_model(folder), config)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "lora_" in name:
                p.normal_()
    assert adapter_refusal(model) == ""
    write_adapter(adapter_tensors(model, torch.float32), tmp_path / "adapter")
    prefix = "base_model.model."
    tensors = load_file(tmp_path / "adapter" / "adapter_model.safetensors")
    assert json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())["r"] == 4
    adapted = {n: m for n, m in model.get_base_model().named_modules() if hasattr(m, "get_delta_weight")}
    assert len(tensors) == 2 * len(adapted) > 0
    for name, module in adapted.items():
        delta = tensors[f"{prefix}{name}.lora_B.weight"] @ tensors[f"{prefix}{name}.lora_A.weight"]
        assert torch.allclose(delta, module.get_delta_weight("default"), atol=1e-5)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"use_dora": True}, "lora_magnitude_vector"),
        ({"bias": "lora_only"}, "bias"),
        ({"modules_to_save": ["lm_head"]}, "lm_head"),
        ({"target_modules": ["q_proj", "qkv"]}, "visual.*outside the language model"),
        ({"target_modules": ["q_proj", "embed_tokens"]}, "embed_tokens"),
        ({"r": 600}, "its rank is not between 1 and 512"),
    ],
)
def test_an_adapter_that_vllm_would_apply_in_part_is_refused(folder, settings, reason):
    config = LoraConfig(**{"r": 2, "target_modules": LORA_TARGETS, **settings})
    assert re.search(reason, adapter_refusal(get_peft_model(load_model(folder), config)))


def test_overrides_are_engine_arguments_of_vllm():
    words = ("enforce_eager=true", "dtype=bfloat16", "max_num_batched_tokens=4096", 'a={"b": 1}')
    assert read_overrides(words) == {
        "enforce_eager": True, "dtype": "bfloat16", "max_num_batched_tokens": 4096, "a": {"b": 1}
    }  # fmt: skip
    check_names(words[:1], {"enforce_eager"})
    for word, hint in (("enforce_eger=true", "did you mean enforce_eager"), ("enforce_eager", "not name=value")):
        with pytest.raises(ConfigError, match=hint):
            check_names([word], {"enforce_eager"})


def test_buckets_hold_all_weights_and_are_read_without_a_copy():
    large, odd, other = torch.randn(40, 10), torch.randn(3, 5, 2), torch.randn(7).bfloat16()
    weights = {"a": torch.randn(4), "large": large, "odd": odd, "scalar": torch.tensor(2.0), "other": other}
    buckets = list(make_buckets(weights.items(), most=200))
    assert [bucket.names for bucket in buckets] == [["a"], ["large"], ["odd", "scalar"], ["other"]]
    read = {}
    for bucket in buckets:
        for handle in bucket.handles(2):
            read |= read_bucket(handle, bucket.names, bucket.shapes)
    assert read.keys() == weights.keys()
    assert all(torch.equal(read[n], w) and read[n].dtype == w.dtype for n, w in weights.items())
    buckets[0].values.zero_()
    assert not read["a"].any()


def test_folders_of_adapters_are_removed_when_their_trainer_is_gone(tmp_path, monkeypatch):
    ended = subprocess.Popen(["true"])
    ended.wait()
    monkeypatch.setattr(vllm_weights, "MEMORY", tmp_path)
    left, others = (tmp_path / f"{vllm_weights.PREFIX}{pid}-x" for pid in (ended.pid, os.getppid()))
    left.mkdir()
    others.mkdir()
    with vllm_weights.adapter_folder(1) as folder:
        assert set(tmp_path.iterdir()) == {Path(folder), others}
