"""The tiny tokenizer and model folder, and the codec between chat messages and what the model reads."""

from __future__ import annotations

import string

import numpy as np
import pytest
import torch
from hypothesis import assume, example, given
from hypothesis import strategies as st
from transformers import AutoConfig

from mobilerl.benchmarks.model_families import png
from mobilerl.models import tiny
from mobilerl.models.checkpoint_folder import image_settings
from mobilerl.models.codec import Codec
from mobilerl.models.loading import load_model

CORPUS = ("Open the Settings app and turn on Wi-Fi", "notes alarm milk hello History app Tap typed_text")
ASCII = st.text(st.sampled_from(string.ascii_letters + string.digits + string.punctuation + " \n"), max_size=40)
PIECES = st.lists(
    st.sampled_from((*tiny.GRAMMAR, *(f"<{i}>" for i in (1, 9, 10, 40)), "hello", "Wi-Fi", "12", "007", " ", "\n", "x"))
    | ASCII
).map("".join)
SETTINGS = {"hidden": 64, "layers": 2, "heads": 2, "vision_hidden": 16}


def message(text: str, images: int = 0) -> dict:
    return {"role": "user", "content": [{"type": "image"}] * images + [{"type": "text", "text": text}]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("tiny")
    tiny.create(path, CORPUS, **SETTINGS)
    return path


@pytest.fixture(scope="module")
def loaded(folder):
    return Codec.load(folder)


def test_a_word_has_related_weights_with_and_without_a_capital(folder, loaded):
    weight = load_model(folder).get_input_embeddings().weight.detach()

    def row(text):
        (token,) = loaded.encode_response(text)[:-1]
        return weight[token]

    def likeness(a, b):
        return torch.cosine_similarity(row(a), row(b), dim=0).item()

    assert likeness("Settings", "settings") > 0.5 > abs(likeness("settings", "alarm"))
    assert likeness("Settings", "settings") > likeness("Settings", "Alarm")


@given(ASCII | PIECES)
@example("  two  spaces ")
@example("hello 12 345 x9y")
@example("_ __ a_b _1 ## ##a #1")
@example("<1> <41> <07>")
@example('do(action="Type", text=" x ")</answer>')
def test_text_comes_back_exactly(loaded, text):
    assume(not any(token in text for token in loaded.tokenizer.all_special_tokens))  # no text: prompts escape them
    ids = loaded.encode_response(text)
    assert ids[-1] == loaded.eos_id
    assert loaded.tokenizer.unk_token_id not in ids
    assert loaded.decode(ids) == text


@pytest.mark.parametrize("size", [(56, 56), (360, 720), (500, 200)])
def test_a_placeholder_becomes_as_many_tokens_as_the_image_has_merged_patches(loaded, size):
    one = loaded.encode([message("look", 1)], [png(*size)])
    patches, grid = loaded.pixels(png(*size))
    assert one.count(loaded.image_token_id) == len(patches) // 4 == grid.prod() // 4
    assert len(patches) // 4 <= 8  # create's max_pixels = 8 * 28 * 28: eight merged patches


def test_placeholders_and_images_must_match(loaded):
    with pytest.raises(ValueError, match="2 image placeholders but 1 images"):
        loaded.encode([message("look", 2)], [png(56, 56)])


def test_pixels_are_those_of_the_image_processor(loaded):
    for size in ((360, 720), (90, 61), (28, 400)):
        shot = png(*size)
        wanted = loaded.image_processor(images=[loaded.images.scale(shot)], do_resize=False, return_tensors="np")
        patches, grid = loaded.pixels(shot)
        assert patches.dtype == np.float32
        np.testing.assert_allclose(patches, wanted["pixel_values"], atol=1e-6)
        assert np.array_equal(grid, wanted["image_grid_thw"][0])


def test_a_cap_is_saved_with_the_checkpoint_and_another_one_wins_over_it(folder, tmp_path):
    cap, shot = 6 * 28 * 28, png(360, 720)
    capped, own = Codec.load(folder, max_pixels=cap), Codec.load(folder)
    capped.save(tmp_path)
    AutoConfig.from_pretrained(folder).save_pretrained(tmp_path)
    again = Codec.load(tmp_path)
    assert again.max_pixels == cap and np.array_equal(again.pixels(shot)[0], capped.pixels(shot)[0])
    assert image_settings(tmp_path)["size"]["longest_edge"] == cap, "a server that reads the folder needs no flag"
    assert len(Codec.load(tmp_path, max_pixels=8 * 28 * 28).pixels(shot)[0]) > len(again.pixels(shot)[0])
    assert np.array_equal(own.pixels(shot)[0], Codec.load(folder).pixels(shot)[0]), "nothing was changed beside it"
