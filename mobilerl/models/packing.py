"""Packing of sequences into one row without padding, each with its own positions and attending only to itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from mobilerl.models.attention import ATTENTION, Sequences
from mobilerl.models.codec import Codec
from mobilerl.models.positions import positions_of
from mobilerl.models.transfer import to_device


def packed_inputs(
    model: Any,
    codec: Codec,
    ids: Sequence[Sequence[int]],
    images: Sequence[Sequence[bytes]],
    device: torch.device | str | int = "cpu",
) -> dict[str, Any]:
    """Inputs of a model with the sequences concatenated in one row of T tokens.

    Raises ValueError if the model does not use the attention `ATTENTION`, without which they would see each other.
    """
    base = model.get_base_model() if hasattr(model, "get_base_model") else model
    if (used := base.config._attn_implementation) != ATTENTION:
        raise ValueError(f"packed rows need a model loaded with the attention {ATTENTION!r}, not {used!r}")
    # Positions are computed in main memory: on a GPU each of their many steps would wait for it.
    inputs = codec.text_inputs(ids, pad_left=False) | codec.pixel_inputs(images, device)
    positions, _ = positions_of(base, inputs)
    mask = inputs.pop("attention_mask")
    real = mask.bool()
    inputs |= {n: inputs[n][real].unsqueeze(0) for n in ("input_ids", "mm_token_type_ids") if n in inputs}
    inputs["position_ids"] = positions[..., real].unsqueeze(-2)
    placed: dict[str, Any] = {name: to_device(value, device) for name, value in inputs.items()}
    # transformers does not replace a mask with four dimensions, and this one is never read.
    placed["attention_mask"] = torch.empty(1, 1, 0, 0, dtype=mask.dtype, device=device)
    return {**placed, "use_cache": False, "sequences": Sequences([len(row) for row in ids])}
