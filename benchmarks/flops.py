"""Floating-point operations of an optimiser step, by formula, for Qwen2.5-VL-like models.

A multiplication with its addition counts as two. Forward costs 2 per weight and token, backward twice that: 6 N T. Of
attention, the forward pass of a layer costs 4 d per pair of positions that see each other (scores and values), backward
twice that; a causal sequence of T has T (T + 1) / 2 pairs. The head counts where its logits are needed, at the reply;
embeddings are look-ups and count nothing. Padding and recomputation do not count: they are no use to the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

PEAK_FLOPS = {
    "H100 SXM": 989e12, "NVIDIA H100 80GB HBM3": 989e12, "H100 PCIe": 756e12, "H200": 989e12,
    "A100": 312e12, "L40S": 362e12,
}  # fmt: skip
"""Dense bf16 of one GPU, by a part of the name torch gives it."""


def peak_flops(device: str) -> float | None:
    """None for a device whose peak is not known, such as a CPU."""
    return next((peak for name, peak in PEAK_FLOPS.items() if name in device), None)


@dataclass(frozen=True, slots=True)
class Network:
    """Sizes that the formula needs. Weights are matrix weights, without embeddings; `merge` patches make a token."""

    layers: int
    width: int
    """Heads x head size: d of attention."""
    weights: int
    """Of all decoder layers."""
    head: int
    """Hidden size x vocabulary."""
    vision_layers: int
    vision_width: int
    vision_weights: int
    """Of all vision layers and the patch embedding, per patch."""
    merger_weights: int
    """Of what makes a token of `merge` patches, per token."""
    merge: int
    window: int
    """Patches that see each other in a layer with windows; 0: every layer sees the whole image."""
    full_layers: int
    """Vision layers that see the whole image."""

    @classmethod
    def of(cls, config: Any) -> Network:
        """From a transformers configuration of Qwen2.5-VL's kind."""
        text, vision = config.get_text_config(), config.vision_config
        size = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
        query, key = text.num_attention_heads * size, text.num_key_value_heads * size
        layer = text.hidden_size * (2 * query + 2 * key + 3 * text.intermediate_size)
        wide, merge = vision.hidden_size, vision.spatial_merge_size**2
        inputs = vision.in_channels * vision.temporal_patch_size * vision.patch_size**2
        vision_layer = 4 * wide**2 + 3 * wide * vision.intermediate_size
        full = getattr(vision, "fullatt_block_indexes", None)
        side = getattr(vision, "window_size", 0) // vision.patch_size
        return cls(
            layers=text.num_hidden_layers, width=query, weights=text.num_hidden_layers * layer,
            head=text.hidden_size * text.vocab_size, vision_layers=vision.depth, vision_width=wide,
            vision_weights=inputs * wide + vision.depth * vision_layer,
            merger_weights=merge * wide * (merge * wide + vision.out_hidden_size), merge=merge,
            window=0 if full is None else side**2, full_layers=vision.depth if full is None else len(full),
        )  # fmt: skip


def update_flops(network: Network, prompt: int, response: int, images: Sequence[int]) -> float:
    """Of forward and backward over one row of `prompt` + `response` tokens whose images have these many patches."""
    tokens = prompt + response
    text = 6 * network.weights * tokens + 6 * network.head * response
    text += 12 * network.width * network.layers * tokens * (tokens + 1) // 2
    return float(text + sum(vision_flops(network, patches) for patches in images))


def vision_flops(network: Network, patches: int) -> int:
    """Of forward and backward over one image."""
    seen = min(network.window or patches, patches)
    pairs = network.full_layers * patches**2 + (network.vision_layers - network.full_layers) * patches * seen
    weights = network.vision_weights * patches + network.merger_weights * (patches // network.merge)
    return 6 * weights + 12 * network.vision_width * pairs
