"""Seeing pre-training: what image tokens are to say, and its loss."""

from __future__ import annotations

import random
from types import SimpleNamespace

import pytest
import torch

from mobilerl.models.tiny import build_word_tokenizer
from mobilerl.policy.screen import Element, Screen
from mobilerl.sft.seeing import describing_samples, label_tokens, seeing_loss

LEFT = Element(1, "", ("click",), ("checked",), "red star", (0, 0, 499, 999), 0)
RIGHT = Element(2, "", ("click",), (), "moon", (500, 0, 999, 999), 0)
TITLE = Element(None, "", (), (), "Board", (0, 0, 999, 99), 0)


def test_tokens_say_the_words_and_the_point_of_the_element_at_their_center():
    tokenizer = build_word_tokenizer(["red star checked"])
    labels = label_tokens(Screen((LEFT,), 100, 100), 1, 2, SimpleNamespace(tokenizer=tokenizer))
    assert tokenizer.decode(labels[0]).split()[:5] == [*["red", "star"] * 2, "checked"] and labels[1] == []
    x, y = LEFT.centre
    assert labels[0][5:] == [i for n in (x, y) for i in tokenizer.encode(str(n), add_special_tokens=False)]


def test_the_loss_is_the_mean_squared_distance_of_the_tokens_with_labels():
    words = torch.eye(3)
    tokens = torch.tensor([[1.0, 0.0, 2.0], [5.0, 5.0, 5.0], [0.0, 0.0, 1.0]])
    # (1 0 2) from (1 1 0): 1 + 4; the second has no label; the third says its word.
    assert seeing_loss(tokens, [[0, 1], [], [2]], words).item() == pytest.approx((5 + 0) / 2)


def test_a_screenshot_is_followed_by_what_to_touch_in_random_order():
    step = SimpleNamespace(
        screen=Screen((TITLE, LEFT, RIGHT), 100, 100), observation=SimpleNamespace(screenshot=b"a screenshot")
    )
    bare = SimpleNamespace(screen=Screen((TITLE,), 100, 100))
    codec = SimpleNamespace(encode=lambda messages, images: images, encode_response=lambda text: text)
    texts = set()
    for sample in describing_samples([bare, step], codec, 50, random.Random(0)):
        assert sample.prompt_ids == sample.images == (b"a screenshot",)
        lines = sample.response_ids.splitlines()
        assert set(lines) <= {"red star 249 red 499 checked", "star red 249 star 499 checked", "moon 749 moon 499"}
        assert len(lines) == 2 and "moon 749 moon 499" in lines
        texts.add(sample.response_ids)
    assert len(texts) == 4, "two orders of the elements, and the first one's words in either order"
    with pytest.raises(ValueError, match="sft.seeing_samples: no demonstrated screen"):
        next(describing_samples([bare], codec, 1, random.Random(0)))
