"""Packed rows give every sample the loss and the gradient it has alone; images stay with their sample."""

import io
import random
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from transformers.modeling_flash_attention_utils import prepare_fa_kwargs_from_position_ids

from mobilerl import tiny
from mobilerl.config import ConfigError
from mobilerl.engines.codec import Codec
from mobilerl.engines.loading import load_model
from sft.batches import IGNORE, collate
from sft.packing import Packer, check_family, rows_within
from sft.samples import Sample

WORDS = "tap the green button open music settings clock alarm history app"


def png(seed: int, width: int, height: int) -> bytes:
    rng = random.Random(seed)
    image = Image.new("RGB", (width, height), tuple(rng.randrange(256) for _ in range(3)))
    image.paste(tuple(rng.randrange(256) for _ in range(3)), (10, 10, width // 2, height // 2))
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


def made_samples(codec: Codec) -> list[Sample]:
    """Of different lengths and image sizes: one image, two images, none, and one of which only part is trained."""

    def sample(text: str, reply: str, *images: bytes) -> Sample:
        content = [*({"type": "image"} for _ in images), {"type": "text", "text": text}]
        ids = codec.encode([{"role": "user", "content": content}], images)
        return Sample(ids, codec.encode_reply(reply), images)

    made = [
        sample("tap the green button", "tap button", png(0, 84, 140)),
        sample("open music", "open settings clock alarm", png(1, 140, 84), png(2, 84, 84)),
        sample("history app", "tap the green button open music"),
        sample("the clock app history alarm", "open", png(3, 112, 112)),
    ]
    kept = tuple(i % 2 == 0 for i in range(len(made[1].response_ids)))
    return [made[0], replace(made[1], trained=kept), *made[2:]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    torch.manual_seed(0)
    tiny.create(folder, [WORDS], hidden=32, layers=2, heads=2, vision_hidden=16, max_pixels=24 * 28 * 28)
    return folder


def losses(model: torch.nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """Cross-entropy of every label that is not IGNORE, in the order of the batch."""
    labels = batch.pop("labels")
    if "logits_to_keep" in batch:
        logits = model(**batch).logits
    else:
        logits = model(**batch, logits_to_keep=labels.shape[1] + 1).logits[:, :-1]
    each = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none")
    return each[labels.flatten() != IGNORE]


def gradient(model: torch.nn.Module, loss: torch.Tensor) -> dict[str, torch.Tensor]:
    model.zero_grad()
    loss.backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def check_equal_to_unpacked(model: torch.nn.Module, codec: Codec, samples: list[Sample], budget: int) -> None:
    packed = Packer(model, codec, budget)(samples)
    assert packed["input_ids"].shape[0] < len(samples)
    together = losses(model, packed)
    apart = [losses(model, collate([sample], codec)) for sample in samples]
    assert sum(map(len, apart)) == len(together)
    assert sorted(together.tolist()) == pytest.approx(sorted(torch.cat(apart).tolist()), abs=1e-5)
    mine, theirs = gradient(model, together.sum()), gradient(model, torch.cat(apart).sum())
    assert mine.keys() == theirs.keys() and any("visual" in name for name in mine)
    for name, value in theirs.items():
        scale = max(1.0, float(value.abs().max()))
        assert torch.allclose(mine[name] / scale, value / scale, atol=1e-5), name


@pytest.mark.parametrize("budget", [10_000, 60])
def test_packed_rows_have_the_loss_and_gradient_of_the_samples_alone(folder, budget):
    model, codec = load_model(folder).float(), Codec.load(folder)
    samples = made_samples(codec)
    check_equal_to_unpacked(model, codec, samples, budget)
    assert (Packer(model, codec, budget)(samples)["input_ids"].shape[0] == 1) == (budget == 10_000)


def test_an_image_matters_to_its_own_sample_alone(folder):
    model, codec = load_model(folder).float(), Codec.load(folder)
    samples = made_samples(codec)
    counts = [int((torch.tensor(s.trained or (True,) * len(s.response_ids))).sum()) for s in samples]
    packer = Packer(model, codec, 10_000)
    order = rows_within([len(s) for s in samples], 10_000)[0]
    changed = list(samples)
    changed[0] = replace(samples[0], images=(png(9, 84, 140),))
    with torch.no_grad():
        before, after = (losses(model, packer(s)).split([counts[i] for i in order]) for s in (samples, changed))
    for i, was, now in zip(order, before, after, strict=True):
        assert torch.equal(was, now) == (i != 0)


def test_flash_attention_is_told_where_the_samples_end(folder):
    """On a GPU transformers reads the samples' ends off the first row of positions; there is a single row then."""
    model, codec = load_model(folder), Codec.load(folder)
    samples = made_samples(codec)
    model.config._attn_implementation = "flash_attention_2"
    batch = Packer(model, codec, 60)(samples)
    (ends, _), (longest, _) = prepare_fa_kwargs_from_position_ids(batch["position_ids"][0])
    lengths = [len(s) for s in samples]
    assert ends.tolist() == [sum(lengths[:i]) for i in range(len(samples) + 1)] and longest == max(lengths)


def test_a_family_that_would_mix_them_is_refused(folder):
    check_family("glm4v")
    with pytest.raises(ConfigError, match=r"sft.packing is for Qwen2.5-VL.*'llava'.*sft.packing = 0"):
        check_family("llava")


@given(lengths=st.lists(st.integers(1, 50), max_size=30), budget=st.integers(1, 80))
def test_rows_hold_every_sample_once_within_the_budget(lengths, budget):
    rows = rows_within(lengths, budget)
    assert sorted(i for row in rows for i in row) == list(range(len(lengths)))
    for row in rows:
        assert sum(lengths[i] for i in row) <= budget or len(row) == 1
