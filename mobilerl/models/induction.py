"""Initial weights with induction heads for a small model.

To tap "Save", a model must find the word on the screen and copy the mark that follows it. Attention does that in two
layers: a head in the first writes the previous token into every token, and a head in the second finds the token whose
predecessor is the current word and copies it. Either head is useless without the other, so a random model takes most of
its training to form both. Here both exist from the start; all other weights are random, and all can be trained.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from transformers import Qwen2_5_VLForConditionalGeneration

if TYPE_CHECKING:
    from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import Qwen2_5_VLAttention

PREVIOUS = (1, 1, 2)
"""Distances to which the heads of the first layer attend; one more head stays random."""
INDUCTION_HEADS = 2
"""Number of induction heads in the second layer; each relies on the head of the same number in the first layer."""
POSITION = 6.0
"""Size of the biases that encode distance, which gives some units of attention logit between neighbors."""
MATCH = 3.0
"""Gain with which induction heads compare tokens."""
BRANCH = 0.05
"""Factor on attention and MLP outputs, which would otherwise dominate the embeddings."""
QUIET = 0.1
"""Factor on the random weights of the heads that are initialized here."""
FAST, SLOW = 0.05, 0.02
"""Rotary frequencies in radians per token: those above FAST separate neighbors, those below SLOW hardly rotate."""


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
def init_induction_heads(model: Qwen2_5_VLForConditionalGeneration) -> None:
    """Initializes the first two layers in place. A model with one layer or too few heads is left unchanged."""
    text = model.config.text_config
    layers = model.model.language_model.layers
    heads = text.num_attention_heads
    if len(layers) < 2 or heads < len(PREVIOUS) or text.num_key_value_heads != heads:
        return
    shape = _Shape(text.hidden_size, text.hidden_size // heads, text.rope_parameters["rope_theta"])
    for layer in layers:
        layer.self_attn.o_proj.weight *= BRANCH
        layer.mlp.down_proj.weight *= BRANCH
    written = _orthogonal(shape.hidden, shape.hidden)  # columns: where the first layer's heads write
    _init_previous_token_heads(layers[0].self_attn, shape, written)
    _init_induction_heads(layers[1].self_attn, layers[0].self_attn.v_proj.weight, shape, written)


def _init_previous_token_heads(attention: Qwen2_5_VLAttention, shape: _Shape, written: Tensor) -> None:
    """Sets heads that attend to one distance each, by a phase shift between the rotated biases of query and key."""
    query, key = attention.q_proj, attention.k_proj
    for number, distance in enumerate(PREVIOUS):
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


def _init_induction_heads(attention: Qwen2_5_VLAttention, seen: Tensor, shape: _Shape, written: Tensor) -> None:
    """Sets heads whose queries project tokens like the first layer's values (`seen`) and whose keys read its output."""
    slow = [pair for pair, frequency in enumerate(shape.frequencies()) if frequency < SLOW]
    rows = torch.tensor([*slow, *(pair + shape.head // 2 for pair in slow)])
    for number in range(INDUCTION_HEADS):
        head = shape.heads(number)
        for projection, target in ((attention.q_proj, seen), (attention.k_proj, written.T)):
            projection.weight[head] *= QUIET
            projection.weight[head.start + rows] = MATCH * target[head.start + rows]
        copied = _orthogonal(shape.hidden, shape.head)
        attention.v_proj.weight[head] = copied.T
        attention.o_proj.weight[:, head] = copied / 2


def _orthogonal(rows: int, columns: int) -> Tensor:
    return nn.init.orthogonal_(torch.empty(rows, columns))
