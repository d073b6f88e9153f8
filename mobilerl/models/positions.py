"""Positions of tokens, which vision-language models count in three dimensions and text models in one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor


def positions_of(model: Any, inputs: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
    """Positions of padded inputs, (B, L) or (3, B, L), and (B,) offsets: the next position minus the number of tokens,
    negative if an image has fewer positions than tokens."""
    backbone, mask = getattr(model, "get_base_model", lambda: model)().model, inputs["attention_mask"]
    if not hasattr(backbone, "get_rope_index"):
        return (mask.cumsum(1) - 1).clamp(min=0), mask.new_zeros(len(mask))
    positions, offsets = backbone.get_rope_index(
        inputs["input_ids"],
        mm_token_type_ids=inputs["mm_token_type_ids"],
        image_grid_thw=inputs.get("image_grid_thw"),
        attention_mask=mask,
    )
    return positions, offsets.reshape(-1)


def next_positions(mask: Tensor, offsets: Tensor, like: Tensor) -> Tensor:
    """Positions of the last tokens in a (B, L) mask, (B, 1) or (3, B, 1), as many dimensions as `like` has."""
    last = (mask.sum(1) - 1 + offsets).unsqueeze(1)
    return last if like.dim() == 2 else last.expand(3, -1, -1)
