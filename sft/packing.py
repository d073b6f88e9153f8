"""Packs several samples into one row without padding between them.

Every sample keeps its own positions and attends only to itself. Row 0 of `position_ids` counts its tokens; where the
count restarts at 0 a new sample begins, and transformers blocks attention across that point: by a block-diagonal mask
under sdpa, and by the variable-length kernel of flash-attention. Rows 1 to 3 are the model's own positions in time,
height and width.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from mobilerl.config import ConfigError
from mobilerl.models.codec import Codec
from sft.batches import IGNORE, targets
from sft.samples import Sample

FAMILIES = {"qwen2_5_vl": "Qwen2.5-VL", "qwen3_vl": "Qwen3-VL", "glm4v": "GLM-4.1V"}
"""Model types whose text model accepts four rows of positions."""


def check_family(model_type: str) -> None:
    """Raises ConfigError for a model in which packed samples would attend to each other."""
    if model_type not in FAMILIES:
        known = ", ".join(FAMILIES.values())
        raise ConfigError(f"sft.packing supports {known}, not a model of type {model_type!r}: set sft.packing = 0")


def rows_within(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """First-fit decreasing: the indices in each row. A sample longer than `budget` gets its own row."""
    rows: list[list[int]] = []
    room: list[int] = []
    for i in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        row = next((r for r, left in enumerate(room) if left >= lengths[i]), len(rows))
        if row == len(rows):
            rows.append([])
            room.append(budget)
        rows[row].append(i)
        room[row] -= lengths[i]
    return rows


class Packer:
    """Collates batches of packed rows for `model`. Raises ConfigError for an unsupported model."""

    def __init__(self, model: torch.nn.Module, codec: Codec, budget: int) -> None:
        base: Any = model.get_base_model() if hasattr(model, "get_base_model") else model
        check_family(base.config.model_type)
        self.codec, self.budget = codec, budget
        self._rope_index = base.model.get_rope_index
        # The kernel of flash-attention takes one row and splits it into samples at no extra cost.
        self.one_row = base.config._attn_implementation.startswith("flash")

    def __call__(self, samples: Sequence[Sample]) -> dict[str, Any]:
        """Inputs of R rows of L tokens; `labels` (R, K) belong to the logits at columns `logits_to_keep` (K,)."""
        lengths = [len(s) for s in samples]
        rows = [list(range(len(samples)))] if self.one_row else rows_within(lengths, self.budget)
        packed = [[samples[i] for i in row] for row in rows]
        inputs = self.codec.collate(
            [[t for s in row for t in (*s.prompt_ids, *s.response_ids)] for row in packed],
            [[png for s in row for png in s.images] for row in packed],
            pad_left=False,
        )
        labels = torch.full_like(inputs["input_ids"], IGNORE)
        # Padding is one more sample, without labels.
        positions = torch.zeros(4, *labels.shape, dtype=torch.long)
        for r, row in enumerate(packed):
            end = 0
            for sample in row:
                begin, end = end, end + len(sample)
                positions[:, r, begin:end] = self.positions(sample)
                labels[r, end - len(sample.response_ids) : end] = targets(sample)
            positions[0, r, end:] = torch.arange(labels.shape[1] - end)
        keep = (labels[:, 1:] != IGNORE).any(0).nonzero().flatten()
        keep = keep if len(keep) else torch.zeros(1, dtype=torch.long)
        del inputs["attention_mask"]  # positions separate the samples only without a mask and without a cache
        return {
            **inputs,
            "position_ids": positions,
            "use_cache": False,
            "logits_to_keep": keep,
            "labels": labels[:, keep + 1],
        }

    def positions(self, sample: Sample) -> Tensor:
        """(4, length): token count, and the model's positions in time, height and width."""
        count = torch.arange(len(sample))
        if not sample.images:
            return count.expand(4, -1)
        alone = self.codec.collate([sample.prompt_ids + sample.response_ids], [sample.images], pad_left=True)
        names = ("input_ids", "mm_token_type_ids", "image_grid_thw", "attention_mask")
        placed, _ = self._rope_index(**{name: alone[name] for name in names})
        return torch.cat([count.unsqueeze(0), placed[:, 0]])
