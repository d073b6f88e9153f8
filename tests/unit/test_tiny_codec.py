"""The tiny tokenizer and model folder, and the codec between chat messages and what the model reads."""

from __future__ import annotations

import io
import random
import string

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from PIL import Image
from transformers import AutoConfig, AutoModelForImageTextToText, AutoTokenizer, Qwen2_5_VLForConditionalGeneration

from envs.base import Back, Enter, Finish, Home, Launch, LongPress, Swipe, Tap, Type, Wait
from mobilerl import tiny
from mobilerl.agent.actions import format_reply, parse_reply
from mobilerl.agent.screen import Element, Screen
from mobilerl.engines import codec as codec_module
from mobilerl.engines.checkpoint_parts import load_image_processor
from mobilerl.engines.codec import Codec
from mobilerl.engines.image_settings import image_settings

CORPUS = ("Open the Settings app and turn on Wi-Fi", "notes alarm milk hello History app Tap typed_text")
ASCII = st.text(st.sampled_from(string.ascii_letters + string.digits + string.punctuation + " \n"), max_size=40)
PIECES = st.lists(
    st.sampled_from((*tiny.GRAMMAR, *(f"<{i}>" for i in (1, 9, 10, 40)), "hello", "Wi-Fi", "12", "007", " ", "\n", "x"))
    | ASCII
).map("".join)
SCREEN = Screen((Element(7, "Button", ("click",), (), "OK", (100, 100, 300, 200), 0),), 360, 720)
SETTINGS = {"hidden": 32, "layers": 2, "heads": 2, "vision_hidden": 16}


def png(width: int, height: int, shade: int = 0) -> bytes:
    pixels = (np.arange(width * height * 3) * 7 + shade).astype(np.uint8).reshape(height, width, 3)
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG")
    return out.getvalue()


def message(text: str, images: int = 0) -> dict:
    return {"role": "user", "content": [{"type": "image"}] * images + [{"type": "text", "text": text}]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("tiny")
    tiny.create(path, CORPUS, **SETTINGS)
    return path


@pytest.fixture(scope="module")
def loaded(folder):
    return Codec.load(folder)


CODEC = None


@pytest.fixture(autouse=True, scope="module")
def _codec(loaded):
    global CODEC  # hypothesis tests want no fixtures that are made per example
    CODEC = loaded


# --- text --------------------------------------------------------------------------------------------------------


@given(ASCII | PIECES)
@example(" ")
@example("  two  spaces ")
@example("a b")
@example("hello 12 345 x9y")
@example("a\n b \nc")
@example("_ __ a_b _1")
@example("## ##a #1")
@example("<1> <41> <07>")
@example('do(action="Type", text=" x ")</answer>')
def test_text_comes_back_exactly(text):
    ids = CODEC.encode_reply(text)
    assert ids[-1] == CODEC.eos_id
    assert CODEC.tokenizer.unk_token_id not in ids
    assert CODEC.decode(ids) == text


@given(st.text("ab 1\n<>|", max_size=12), st.text("ab 1\n<>|", max_size=12))
def test_ids_after_a_piece_of_the_grammar_do_not_depend_on_what_stands_before(left, right):
    text = f"{left}</think><answer>{right}"
    assert CODEC.decode(CODEC.encode_reply(text)) == text


@pytest.mark.parametrize("thought", [None, "I tap OK: it is the 2nd button."])
@pytest.mark.parametrize(
    "action",
    [Tap(200, 150), LongPress(200, 150), Type('12:30 "Wi-Fi" a_b'), Launch("Settings"), Swipe(499, 499, 499, 0),
     Back(), Home(), Enter(), Wait(), Finish(""), Finish("milk, 2 x 1.5 l")],
)  # fmt: skip
def test_replies_come_back_and_parse(action, thought):
    reply = format_reply(action, SCREEN, "mark", thought)
    back = CODEC.decode(CODEC.encode_reply(reply))
    assert back == reply
    assert parse_reply(back, SCREEN, "mark", 360, 720).action.kind == action.kind


def test_a_tap_is_four_tokens():
    # do(action="Tap", element= | <7> | )</answer> | end, after the opening tag
    assert len(CODEC.encode_reply(format_reply(Tap(200, 150), SCREEN, "mark"))) == 5


def test_a_word_of_the_corpus_is_one_token_and_others_are_spelled():
    assert len(CODEC.encode_reply("hello")) == 2
    assert len(CODEC.encode_reply("hello Settings milk")) == 4
    assert len(CODEC.encode_reply("zzz")) == 4


# --- images ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(56, 56), (360, 720), (720, 360), (84, 112), (500, 200)])
def test_a_placeholder_becomes_as_many_tokens_as_the_image_has_merged_patches(loaded, size):
    one = loaded.encode([message("look", 1)], [png(*size)])
    patches, grid = loaded.pixels(png(*size))
    assert one.count(loaded.image_token_id) == len(patches) // 4 == grid.prod() // 4
    assert len(patches) // 4 <= 8  # create's max_pixels = 8 * 28 * 28: eight merged patches


def test_several_images_expand_in_order(loaded):
    small, large = png(56, 56), png(360, 720)
    n_small, n_large = (len(loaded.pixels(p)[0]) // 4 for p in (small, large))
    assert n_small != n_large
    ids = loaded.encode([message("a", 1), message("b", 1)], [small, large])
    end = loaded.tokenizer.convert_tokens_to_ids("<|vision_end|>")
    first = ids[: ids.index(end)]
    assert first.count(loaded.image_token_id) == n_small
    assert ids.count(loaded.image_token_id) == n_small + n_large


@pytest.mark.parametrize(("places", "images"), [(0, 1), (1, 0), (2, 1), (1, 2)])
def test_placeholders_and_images_must_match(loaded, places, images):
    with pytest.raises(ValueError, match=f"{places} image placeholders but {images} images"):
        loaded.encode([message("look", places)], [png(56, 56)] * images)


def test_pixels_are_those_of_the_image_processor(loaded):
    for size in ((360, 720), (90, 61), (28, 400)):
        shot = png(*size)
        wanted = loaded.image_processor(images=[Image.open(io.BytesIO(shot)).convert("RGB")], return_tensors="np")
        patches, grid = loaded.pixels(shot)
        assert patches.dtype == np.float32
        assert np.array_equal(patches, wanted["pixel_values"].astype(np.float32))
        assert np.array_equal(grid, wanted["image_grid_thw"][0])


def test_max_pixels_caps_the_patches(folder):
    capped = Codec.load(folder, max_pixels=6 * 28 * 28)
    assert len(capped.pixels(png(360, 720))[0]) // 4 <= 6


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


def test_the_pixel_cache_is_bounded_and_keeps_what_was_used_last(folder, monkeypatch):
    codec = Codec.load(folder)
    shots = [png(56, 112, shade) for shade in range(6)]
    each = sum(part.nbytes for part in codec.pixels(shots[0])) + 32  # and the SHA-256 it is found by
    monkeypatch.setattr(codec_module, "PIXEL_CACHE_BYTES", 3 * each)
    for shot in shots[1:3]:
        codec.pixels(shot)
    kept = codec.pixels(shots[0])  # used again: shots[1] is now the oldest
    codec.pixels(shots[3])
    assert codec.pixels(shots[0]) is kept
    for shot in shots * 2:
        codec.pixels(shot)
        assert sum(32 + p.nbytes + g.nbytes for p, g in codec._pixels.values()) <= 3 * each
    assert len(codec._pixels) == 3


def test_collate_pads_and_counts(loaded):
    shot = png(56, 56)
    with_image, without = loaded.encode([message("look", 1)], [shot]), loaded.encode([message("hello")], [])
    for left in (True, False):
        inputs = loaded.collate([with_image, without], [[shot], []], pad_left=left)
        width = len(with_image)
        assert inputs["input_ids"].shape == (2, width)
        assert inputs["attention_mask"].sum(1).tolist() == [width, len(without)]
        row = inputs["input_ids"][1].tolist()
        padding = [loaded.pad_id] * (width - len(without))
        assert row == (padding + list(without) if left else list(without) + padding)
        assert inputs["mm_token_type_ids"].sum().item() == with_image.count(loaded.image_token_id)
        assert inputs["pixel_values"].shape[0] == inputs["image_grid_thw"].prod(1).sum().item()
    assert "pixel_values" not in loaded.collate([without], [[]], pad_left=True)


# --- folders -----------------------------------------------------------------------------------------------------


def test_the_auto_classes_load_the_folder(folder, loaded):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForImageTextToText.from_pretrained(folder)
    config = AutoConfig.from_pretrained(folder)
    assert isinstance(model, Qwen2_5_VLForConditionalGeneration)
    assert config.text_config.vocab_size == len(tokenizer)
    ids = tokenizer.apply_chat_template(
        [message("hello", 1)], tokenize=True, add_generation_prompt=True, return_dict=False
    )
    assert ids.count(config.image_token_id) == 1
    assert tokenizer.decode(tokenizer("a  b")["input_ids"]) == "a  b"


def test_what_is_saved_and_loaded_again_is_the_same(folder, loaded, tmp_path):
    loaded.save(tmp_path)
    AutoConfig.from_pretrained(folder).save_pretrained(tmp_path)
    again = Codec.load(tmp_path)
    assert again.tokenizer.get_vocab() == loaded.tokenizer.get_vocab()
    assert (again.pad_id, again.eos_id, again.banned_ids) == (loaded.pad_id, loaded.eos_id, loaded.banned_ids)
    shot = png(360, 720)
    messages = [message("Open hello 12", 1), {"role": "assistant", "content": "ok"}, message("and?")]
    assert again.encode(messages, [shot]) == loaded.encode(messages, [shot])
    assert np.array_equal(again.pixels(shot)[0], loaded.pixels(shot)[0])


def test_creating_a_folder_changes_no_default_of_transformers(folder):
    from transformers import Qwen2VLImageProcessorPil

    assert Qwen2VLImageProcessorPil().size["longest_edge"] == 28 * 28 * 1280


def test_a_folder_without_an_image_processor_is_named(folder, tmp_path):
    AutoTokenizer.from_pretrained(folder).save_pretrained(tmp_path)
    with pytest.raises(FileNotFoundError, match="preprocessor_config.json"):
        load_image_processor(tmp_path)


def test_an_untrained_model_attends_to_what_stands_behind_an_earlier_word():
    """Random words, each followed by a mark; the last word has occurred before: its mark is what to look at."""
    torch.manual_seed(0)
    words = [f"w{a}{b}" for a in string.ascii_lowercase for b in string.ascii_lowercase[:12]]
    tokenizer = tiny.build_tokenizer(words)
    model = tiny.build_model(len(tokenizer), tokenizer, 128, 2, 4, 16, 1)
    model.set_attn_implementation("eager")
    rng, right = random.Random(0), [0, 0]
    for _ in range(50):
        names, marks = rng.sample(words, 8), rng.sample(range(1, 41), 8)
        lines = [f"{name}<{mark}>\n" for name, mark in zip(names, marks, strict=True)]
        asked = rng.randrange(8)
        ids = tokenizer("".join(lines) + lines[asked].split("<")[0], return_tensors="pt").input_ids
        with torch.no_grad():
            second = model(input_ids=ids, output_attentions=True).attentions[1][0]
        for head in range(2):
            right[head] += int(second[head, -1].argmax()) == 3 * asked + 1
    assert min(right) >= 18, f"{right} of 50 each; chance is one in eight"
