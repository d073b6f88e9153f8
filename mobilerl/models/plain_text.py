"""The layers of a small Qwen2.5-VL on text, without the classes of transformers.

Calls of modules, masks and a cache that grows take more of the time of a tiny model on a CPU than its own products. The
weights are copied, a few megabytes, so that products of the same input are one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import embedding, linear, rms_norm, scaled_dot_product_attention, silu

LARGEST = 20_000_000
"""Maximum number of weights: those of larger models are too many to copy, and their products take the time."""


@dataclass(frozen=True, slots=True)
class _Layer:
    before: Tensor
    qkv: Tensor
    bias: Tensor
    out: Tensor
    after: Tensor
    gate_up: Tensor
    down: Tensor


def is_plain(model: Any) -> bool:
    """Whether `PlainText` can take the model's place: a small Qwen2.5-VL in float32 on the CPU, without an adapter."""
    if getattr(getattr(model, "config", None), "model_type", "") != "qwen2_5_vl" or hasattr(model, "peft_config"):
        return False
    config, head = model.config.get_text_config(), model.lm_head.weight
    usual = set(config.layer_types) == {"full_attention"} and config.hidden_act == "silu" and model.lm_head.bias is None
    fits = head.device.type == "cpu" and head.dtype == torch.float32
    return usual and fits and sum(p.numel() for p in model.parameters()) <= LARGEST


class PlainText:
    """A copy of the weights of `model`, with which `rows` sequences of at most `length` tokens are read.

    Each `read` appends as many tokens to all sequences; what precedes a short one is padding.
    """

    def __init__(self, model: Any, rows: int, length: int) -> None:
        text, config = model.model.language_model, model.config.get_text_config()
        self._heads, self._shared = config.num_attention_heads, config.num_key_value_heads
        self._size = config.hidden_size // self._heads
        self._eps, self._width = config.rms_norm_eps, [config.hidden_size]
        self._rotary = text.rotary_emb
        self._embedding, self._norm, self._head = text.embed_tokens.weight, text.norm.weight, model.lm_head.weight
        self._layers = [_copy(layer) for layer in text.layers]
        self._cache = torch.empty(len(self._layers), 2, rows, self._shared, length, self._size)
        self._mask = torch.ones(rows, length, dtype=torch.bool)
        self._padding = torch.zeros(rows, 1, dtype=torch.long)
        self._length = 0

    def prefill(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Reads (R, T) ids, padded on the left where the (R, T) mask is 0. Returns the last tokens' (R, V) logits."""
        count = ids.shape[1]
        self._mask[:, :count], self._padding = mask.bool(), count - mask.sum(1, keepdim=True)
        causal = torch.ones(count, count, dtype=torch.bool).tril()
        itself = torch.eye(count, dtype=torch.bool)  # for padding, which sees nothing else
        return self._read(ids, self._mask[:, None, :count] & causal | itself)

    def read(self, ids: Tensor) -> Tensor:
        """Appends (R,) ids. Returns their (R, V) logits."""
        return self._read(ids.unsqueeze(1), self._mask[:, None, : self._length + 1])

    def repeat(self, rows: Tensor) -> None:
        """Sequences become copies of these `rows` of them."""
        self._cache, self._mask, self._padding = (
            self._cache.index_select(2, rows),
            self._mask[rows],
            self._padding[rows],
        )

    def keep(self, rows: Sequence[int]) -> None:
        """Keeps these rows. One that is not in its place must be from behind the last place."""
        for place, row in enumerate(rows):
            if place != row:
                self._cache[:, :, place] = self._cache[:, :, row]
        self._cache, self._mask, self._padding = self._cache[:, :, : len(rows)], self._mask[rows], self._padding[rows]

    def _read(self, ids: Tensor, seen: Tensor) -> Tensor:
        begin, self._length = self._length, self._length + ids.shape[1]
        positions = (torch.arange(begin, self._length) - self._padding).clamp(min=0)
        angles = positions.unsqueeze(-1) * self._rotary.inv_freq
        angles = torch.cat([angles, angles], -1).unsqueeze(2)
        cos, sin = angles.cos() * self._rotary.attention_scaling, angles.sin() * self._rotary.attention_scaling
        bias = torch.zeros(seen.shape).masked_fill_(~seen, -torch.inf).unsqueeze(1)
        x = embedding(ids, self._embedding)
        for layer, (keys, values) in zip(self._layers, self._cache, strict=True):
            h = linear(rms_norm(x, self._width, layer.before, self._eps), layer.qkv, layer.bias)
            turned, value = h.unflatten(-1, (-1, self._size)).split([self._heads + self._shared, self._shared], 2)
            first, second = turned.chunk(2, -1)
            turned = turned * cos + torch.cat([-second, first], -1) * sin
            query, key = (part.transpose(1, 2) for part in turned.split([self._heads, self._shared], 2))
            keys[:, :, begin : self._length], values[:, :, begin : self._length] = key, value.transpose(1, 2)
            known, told = keys[:, :, : self._length], values[:, :, : self._length]
            mixed = scaled_dot_product_attention(query, known, told, bias, enable_gqa=self._heads != self._shared)
            x = x + linear(mixed.transpose(1, 2).flatten(2), layer.out)
            gate, up = linear(rms_norm(x, self._width, layer.after, self._eps), layer.gate_up).chunk(2, -1)
            x = x + linear(silu(gate) * up, layer.down)
        return linear(rms_norm(x[:, -1], self._width, self._norm, self._eps), self._head)


def _copy(layer: Any) -> _Layer:
    a, m = layer.self_attn, layer.mlp
    return _Layer(
        before=layer.input_layernorm.weight,
        qkv=torch.cat([a.q_proj.weight, a.k_proj.weight, a.v_proj.weight]),
        bias=torch.cat([a.q_proj.bias, a.k_proj.bias, a.v_proj.bias]),
        out=a.o_proj.weight,
        after=layer.post_attention_layernorm.weight,
        gate_up=torch.cat([m.gate_proj.weight, m.up_proj.weight]),
        down=m.down_proj.weight,
    )
