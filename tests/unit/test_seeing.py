"""Seeing pre-training: what image tokens are to say, and its loss."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch
from torch.nn.functional import normalize

from mobilerl.models.tiny import build_word_tokenizer
from mobilerl.policy.screen import Element, Screen
from mobilerl.sft.seeing import SHARPNESS, label_tokens, seeing_loss

LEFT = Element(1, "", ("click",), ("checked",), "red star", (0, 0, 499, 999), 0)


def test_tokens_say_the_words_and_the_point_of_the_element_at_their_center():
    tokenizer = build_word_tokenizer(["red star checked"])
    labels = label_tokens(Screen((LEFT,), 100, 100), 1, 2, SimpleNamespace(tokenizer=tokenizer))
    assert tokenizer.decode(labels[0]).split()[:3] == ["red", "star", "checked"] and labels[1] == []
    x, y = LEFT.centre
    assert labels[0][3:] == [i for n in (x, y) for i in tokenizer.encode(str(n), add_special_tokens=False)]


def test_the_loss_is_the_mean_cross_entropy_of_the_tokens_with_labels():
    words = normalize(torch.eye(3))
    tokens = torch.tensor([[1.0, 0.0, 0.0], [5.0, 5.0, 5.0], [0.0, 0.0, 0.0]])
    first = -SHARPNESS / 2 + math.log(math.exp(SHARPNESS) + 2)  # half of its labels are the word that it says
    expected = (first + math.log(3)) / 2
    assert seeing_loss(tokens, [[0, 1], [], [2]], words).item() == pytest.approx(expected)
