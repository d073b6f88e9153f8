"""Packed rows on every model family: the loss and every gradient of a padded batch, and no leak between neighbors."""

from dataclasses import replace

import pytest
import torch

from mobilerl.benchmarks.model_families import FAMILIES, create, png
from mobilerl.engines.scoring import right_aligned, sample_logprobs
from mobilerl.models.codec import Codec
from mobilerl.models.loading import add_lora, load_model
from mobilerl.records import TrainingSample

TEMPERATURE = 0.8
FIRST, SECOND, THIRD = png(140, 280, 0), png(280, 140, 1), png(168, 168, 2)
ASKED = (
    ("tap the button", "do it", (FIRST,)),
    ("compare these two screens with care, and say what they are", "they differ a lot", (SECOND, THIRD)),
    ("no image", "none", ()),
)


def made_rows(codec: Codec) -> list[TrainingSample]:
    made = []
    for number, (text, response, images) in enumerate(ASKED):
        content = [*({"type": "image"} for _ in images), {"type": "text", "text": text}]
        prompt, response = codec.encode([{"role": "user", "content": content}], images), codec.encode_response(response)
        made.append(TrainingSample("", number, prompt, response, (0.0,) * len(response), images, version=0))
    return made


def padded_logprobs(model, codec: Codec, rows: list[TrainingSample]):
    """The same as `sample_logprobs` from left-padded rows, with the model's own masks and positions."""
    ids = [r.prompt_ids + r.response_ids for r in rows]
    inputs = codec.collate(ids, [r.images for r in rows], pad_left=True)
    longest = max(len(r.response_ids) for r in rows)
    logits = model(**inputs, logits_to_keep=longest + 1).logits[:, :-1].float() / TEMPERATURE
    logits[..., list(codec.banned_ids)] = torch.finfo(logits.dtype).min
    targets = inputs["input_ids"][:, -longest:]
    logp = logits.gather(-1, targets.unsqueeze(-1)).squeeze(-1) - logits.logsumexp(-1)
    mask = right_aligned([[1.0] * len(r.response_ids) for r in rows], longest)
    return logp * mask, mask


def loss_of(logp):
    """A sum with weights of both signs, like advantages."""
    return (torch.linspace(-1, 1, logp.numel()).view_as(logp) * logp).sum()


def gradients(model, loss):
    model.zero_grad()
    loss.backward()
    return float(loss.detach()), {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}


def check_gradients(mine, theirs, tolerance):
    assert mine.keys() == theirs.keys()
    for name, value in theirs.items():
        scale = max(1.0, float(value.abs().max()))
        torch.testing.assert_close(mine[name] / scale, value / scale, atol=tolerance, rtol=0, msg=name)


@pytest.fixture(params=FAMILIES)
def family(request, tmp_path):
    create(FAMILIES[request.param], tmp_path, [f"{text} {response}" for text, response, _ in ASKED])
    return load_model(tmp_path).float(), Codec.load(tmp_path, max_pixels=40_000)


def test_packed_rows_have_the_loss_and_every_gradient_of_padded_ones(family):
    model, codec = family
    rows = made_rows(codec)
    logp, mask = sample_logprobs(model, codec, rows, TEMPERATURE, "cpu")
    loss, mine = gradients(model, loss_of(logp))
    model.set_attn_implementation("sdpa")
    wanted, wanted_mask = padded_logprobs(model, codec, rows)
    assert torch.equal(mask, wanted_mask)
    torch.testing.assert_close(logp, wanted, atol=1e-5, rtol=1e-5)
    wanted_loss, theirs = gradients(model, loss_of(wanted))
    assert loss == pytest.approx(wanted_loss, rel=1e-5)
    assert any("visual" in n for n in mine)
    check_gradients(mine, theirs, 1e-5)


@pytest.mark.parametrize("lora", [0, 4])
def test_packed_rows_have_the_loss_and_every_gradient_of_single_ones(family, lora):
    model, codec = family
    if lora:
        torch.manual_seed(0)
        model = add_lora(model, lora)
        for name, weight in model.named_parameters():
            if "lora_B" in name:
                torch.nn.init.normal_(weight, std=0.1)
    rows = made_rows(codec)
    assert max(len(r.prompt_ids) for r in rows) > 64  # linear attention is computed in chunks of 64 tokens
    logp, _ = sample_logprobs(model, codec, rows, TEMPERATURE, "cpu")
    loss, mine = gradients(model, loss_of(logp))
    model.set_attn_implementation("sdpa")
    single = [padded_logprobs(model, codec, [row])[0][0] for row in rows]
    wanted, theirs = gradients(model, loss_of(right_aligned_stack(single, logp.shape[1])))
    assert loss == pytest.approx(wanted, rel=1e-4, abs=1e-4)
    check_gradients(mine, theirs, 1e-4)


def right_aligned_stack(rows, width):
    return torch.stack([torch.nn.functional.pad(row, (width - len(row), 0)) for row in rows])


@torch.no_grad()
def test_packed_rows_do_not_see_each_other(family):
    model, codec = family
    first, second, third = made_rows(codec)

    def of_second(*rows):
        return sample_logprobs(model, codec, rows, TEMPERATURE, "cpu")[0][1]

    before = of_second(first, second, third)
    assert torch.equal(before, of_second(replace(first, images=(png(140, 280, 3),)), second, third))
    assert not torch.equal(before, of_second(first, replace(second, images=(SECOND, png(168, 168, 4))), third))


def test_a_model_in_which_they_would_is_refused(family):
    model, codec = family
    model.set_attn_implementation("sdpa")
    with pytest.raises(ValueError, match="attention 'flash_varlen', not 'sdpa'"):
        sample_logprobs(model, codec, made_rows(codec), 1.0, "cpu")
