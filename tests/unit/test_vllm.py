"""vLLM as a sampler, without vLLM: image limits, and the weights that it is sent."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from mobilerl.inference.vllm import checkpoint_weights, image_limits
from mobilerl.models import tiny
from mobilerl.models.codec import Codec
from mobilerl.models.loading import add_lora, load_model

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
        shown = codec.images.scaled(screen)
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
