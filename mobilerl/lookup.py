"""Initial weights with which a small random model can look things up (an induction circuit, not yet trained).

To tap "Save" a model must find the word on the screen and copy the mark that stands behind it. Attention does that in
two layers: a head of the first writes into every token what stands before it, a head of the second looks for the token
whose predecessor is the word at hand and copies that token. Each half is useless without the other, so a model with
random weights spends most of its training before the two meet. Here they meet at the start; all else is random, and
training is free to change any of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from transformers import Qwen2_5_VLForConditionalGeneration

LOOK_BACK = (1, 1, 2)
"""How far the heads of the first layer look back; a head more is left free."""
LOOK_UP = 2
"""Heads of the second layer that look up; each relies on the first-layer head of its own number."""
POSITION = 6.0
"""Size of the biases that tell distances: some units of attention logit between neighbours."""
MATCH = 3.0
"""Gain of the comparison of words."""
BRANCH = 0.05
"""Attention and MLP outputs start this much smaller, so that they do not drown the words themselves."""
QUIET = 0.1
"""Random weights of the heads that are set start this much smaller."""
FAST, SLOW = 0.05, 0.02
"""Rotary frequencies, radians per token: above FAST they tell neighbours apart, below SLOW hardly turn on a screen."""


@dataclass(frozen=True, slots=True)
class _Shape:
    hidden: int
    head: int
    theta: float

    def heads(self, number: int) -> slice:
        return slice(number * self.head, (number + 1) * self.head)

    def frequencies(self) -> list[float]:
        half = self.head // 2
        return [self.theta ** (-pair / half) for pair in range(half)]


@torch.no_grad()
def start_looking_up(model: Qwen2_5_VLForConditionalGeneration) -> None:
    """Sets the circuit in the first two layers, in place. A model of one layer or of fewer heads is left as it is."""
    text = model.config.text_config
    layers = model.model.language_model.layers
    heads = text.num_attention_heads
    if len(layers) < 2 or heads < len(LOOK_BACK) or text.num_key_value_heads != heads:
        return
    shape = _Shape(text.hidden_size, text.hidden_size // heads, text.rope_parameters["rope_theta"])
    for layer in layers:
        layer.self_attn.o_proj.weight *= BRANCH
        layer.mlp.down_proj.weight *= BRANCH
    written = _orthogonal(shape.hidden, shape.hidden)  # columns: where the first layer's heads write
    _look_back(layers[0].self_attn, shape, written)
    _look_up(layers[1].self_attn, layers[0].self_attn.v_proj.weight, shape, written)


def _look_back(attention: nn.Module, shape: _Shape, written: Tensor) -> None:
    """Rotary positions turn a phase shift between the biases of query and key into one preferred distance."""
    query, key = attention.q_proj, attention.k_proj
    for number, distance in enumerate(LOOK_BACK):
        head = shape.heads(number)
        query.weight[head] *= QUIET
        key.weight[head] *= QUIET
        for pair, frequency in enumerate(shape.frequencies()):
            if frequency >= FAST:
                real, imaginary = head.start + pair, head.start + pair + shape.head // 2
                key.bias[real] = POSITION
                query.bias[real] = POSITION * math.cos(distance * frequency)
                query.bias[imaginary] = -POSITION * math.sin(distance * frequency)
        attention.o_proj.weight[:, head] = written[:, head] / math.sqrt(shape.head)


def _look_up(attention: nn.Module, seen: Tensor, shape: _Shape, written: Tensor) -> None:
    """Queries project a token as the first layer's values (`seen`) do; keys read back what that layer wrote."""
    slow = [pair for pair, frequency in enumerate(shape.frequencies()) if frequency < SLOW]
    rows = torch.tensor([*slow, *(pair + shape.head // 2 for pair in slow)])
    for number in range(LOOK_UP):
        head = shape.heads(number)
        for projection, target in ((attention.q_proj, seen), (attention.k_proj, written.T)):
            projection.weight[head] *= QUIET
            projection.weight[head.start + rows] = MATCH * target[head.start + rows]
        copied = _orthogonal(shape.hidden, shape.head)
        attention.v_proj.weight[head] = copied.T
        attention.o_proj.weight[:, head] = copied / 2


def _orthogonal(rows: int, columns: int) -> Tensor:
    return nn.init.orthogonal_(torch.empty(rows, columns))
