"""Packed rows on every model family: loss and gradient as without packing, and no leak between neighbours."""

from dataclasses import replace

import pytest
import torch
from model_families import FAMILIES, create, png

from mobilerl.models.codec import Codec
from mobilerl.models.loading import load_model
from sft.batches import IGNORE, collate
from sft.packing import Packer
from sft.samples import Sample

FIRST, SECOND, THIRD = png(140, 280, 0), png(280, 140, 1), png(168, 168, 2)
ASKED = (
    ("tap the button", "do it", (FIRST,)),
    ("compare", "they differ a lot", (SECOND, THIRD)),
    ("no image", "none", ()),
)


def made_samples(codec: Codec) -> list[Sample]:
    made = []
    for text, reply, images in ASKED:
        content = [*({"type": "image"} for _ in images), {"type": "text", "text": text}]
        ids = codec.encode([{"role": "user", "content": content}], images)
        made.append(Sample(ids, codec.encode_reply(reply), images))
    return made


def loss_of(model: torch.nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    labels = batch.pop("labels")
    if "logits_to_keep" in batch:
        logits = model(**batch).logits
    else:
        logits = model(**batch, logits_to_keep=labels.shape[1] + 1).logits[:, :-1]
    return torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORE, reduction="sum"
    )


@pytest.mark.parametrize("name", FAMILIES)
def test_packing_changes_nothing(name, tmp_path):
    create(FAMILIES[name], tmp_path, [f"{text} {reply}" for text, reply, _ in ASKED])
    model, codec = load_model(tmp_path).float(), Codec.load(tmp_path, max_pixels=40_000)
    samples = made_samples(codec)
    packer = Packer(model, codec, 10_000)
    packed = packer(samples)
    assert packed["input_ids"].shape == (1, sum(map(len, samples)))
    together = loss_of(model, packed)
    together.backward()
    mine = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    alone = [loss_of(model, collate([sample], codec)) for sample in samples]
    sum(alone).backward()
    assert float(together.detach()) == pytest.approx(float(sum(alone).detach()), rel=1e-5)
    theirs = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    assert mine.keys() == theirs.keys() and any("visual" in n for n in mine)
    for parameter, value in theirs.items():
        scale = max(1.0, float(value.abs().max()))
        assert torch.allclose(mine[parameter] / scale, value / scale, atol=1e-5), parameter

    only_second = [replace(samples[0], trained=(False,) * len(samples[0].response_ids)), samples[1]]
    with torch.no_grad():
        before = loss_of(model, packer(only_second))
        other_first = [replace(only_second[0], images=(png(140, 280, 3),)), samples[1]]
        assert torch.equal(before, loss_of(model, packer(other_first)))
        other_second = [only_second[0], replace(samples[1], images=(SECOND, png(168, 168, 4)))]
        assert not torch.equal(before, loss_of(model, packer(other_second)))
