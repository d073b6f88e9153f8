"""What a checkpoint's memory depends on, read from its config.json and the heads of its weights: nothing is loaded."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mobilerl.config import ConfigError
from mobilerl.config.model import TinySection
from mobilerl.engines.image_settings import image_settings

TINY_VOCABULARY = 1150
"""Tokens of the tokenizer that is made for the embedded phone's apps."""
PIXELS_UNKNOWN = 12845056
"""Qwen-VL's own limit on the pixels of a picture, where a checkpoint says none."""


@dataclass(frozen=True, slots=True)
class ModelShape:
    """Sizes in elements, and `window` in pixels: the side of the square of a screenshot that becomes one token."""

    parameters: int
    trained_before: int
    """Parameters of adapters that the checkpoint has; 0 for one of full weights."""
    hidden: int
    layers: int
    queries: int
    """Width of all query heads together; `keys` of all key heads."""
    keys: int
    inner: int
    vocabulary: int
    vision_hidden: int
    vision_inner: int
    vision_layers: int
    patch_elements: int
    merge: int
    window: int
    max_pixels: int

    @classmethod
    def of_checkpoint(cls, folder: Path) -> ModelShape:
        """Raises ConfigError when its files cannot be read."""
        try:
            config = json.loads((folder / "config.json").read_text())
            return _shape(config, _picture_limits(folder), *_parameters(folder))
        except (OSError, ValueError, KeyError, TypeError, struct.error) as error:
            reason = f"{type(error).__name__}: {' '.join(str(error).split())[:150]}"
            raise ConfigError(f"{folder} cannot be read as a vision-language checkpoint ({reason})") from None

    @classmethod
    def of_tiny(cls, tiny: TinySection) -> ModelShape:
        """The model that is made when the recipe names none: mobilerl/tiny.py."""
        text = {"hidden_size": tiny.hidden, "num_hidden_layers": tiny.layers, "num_attention_heads": tiny.heads,
                "intermediate_size": 3 * tiny.hidden, "vocab_size": TINY_VOCABULARY}  # fmt: skip
        vision = {"hidden_size": tiny.vision_hidden, "intermediate_size": 2 * tiny.vision_hidden,
                  "depth": tiny.vision_layers}  # fmt: skip
        return _shape({"text_config": text, "vision_config": vision}, tiny.max_pixels, None, 0)

    def image_tokens(self, width: int, height: int, max_pixels: int | None) -> int:
        """Placeholders of one screenshot of that many pixels."""
        pixels = min(width * height, max_pixels or self.max_pixels)
        return max(1, round(pixels / self.window**2))

    def lora_parameters(self, rank: int) -> int:
        """Of adapters on every linear layer of the language model."""
        outer = self.queries + 2 * self.keys + self.queries + self.hidden * 4  # both ends of q, k, v, o
        return rank * self.layers * (outer + 3 * (self.hidden + self.inner))


def _shape(config: dict[str, Any], max_pixels: int, parameters: int | None, trained: int) -> ModelShape:
    text, vision = config.get("text_config") or config, config["vision_config"]
    hidden, layers, heads = text["hidden_size"], text["num_hidden_layers"], text["num_attention_heads"]
    head = text.get("head_dim") or hidden // heads
    queries, keys = heads * head, (text.get("num_key_value_heads") or heads) * head
    inner = text["intermediate_size"]
    patch, merge = vision.get("patch_size", 14), vision.get("spatial_merge_size", 2)
    vision_hidden = vision.get("hidden_size") or vision["embed_dim"]
    patch_elements = vision.get("in_channels", 3) * vision.get("temporal_patch_size", 2) * patch**2
    shape = ModelShape(
        parameters or 0, trained, hidden, layers, queries, keys, inner, text["vocab_size"], vision_hidden,
        vision.get("intermediate_size", 4 * vision_hidden), vision.get("depth", 0), patch_elements, merge,
        patch * merge, max_pixels,
    )  # fmt: skip
    if parameters:
        return shape
    per_layer = hidden * (2 * queries + 2 * keys + 3 * inner + 2)
    per_block = vision_hidden * (4 * vision_hidden + 3 * shape.vision_inner)
    merger = (merge**2 * vision_hidden) ** 2 + merge**2 * vision_hidden * hidden
    total = shape.vocabulary * hidden + layers * per_layer + shape.vision_layers * per_block + merger
    return replace(shape, parameters=total)


def _picture_limits(folder: Path) -> int:
    """The most pixels the checkpoint's image processor leaves of a picture."""
    settings = image_settings(folder) or {}
    most = (settings.get("size") or {}).get("longest_edge") or settings.get("max_pixels") or PIXELS_UNKNOWN
    # GLM counts a still image's pixels once for each of the frames that make a patch.
    return int(most) // (2 if str(settings.get("image_processor_type")).startswith("Glm") else 1)


def _parameters(folder: Path) -> tuple[int, int]:
    """(parameters of the whole model, parameters of an adapter in the folder)."""
    here = sum(tensor_sizes(folder))
    adapter = folder / "adapter_config.json"
    if not adapter.is_file():
        return here, 0
    base = Path(json.loads(adapter.read_text()).get("base_model_name_or_path") or "")
    return (sum(tensor_sizes(base)) if base.is_dir() else 0) + here, here


def tensor_sizes(folder: Path) -> Iterator[int]:
    """Elements of every tensor in a folder's *.safetensors. ValueError for a file that is cut short."""
    for path in sorted(folder.glob("*.safetensors")):
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            if length > path.stat().st_size:
                raise ValueError(f"{path.name} is cut short")
            tensors = json.loads(file.read(length))
        tensors.pop("__metadata__", None)
        end = max((t["data_offsets"][1] for t in tensors.values()), default=0)
        if path.stat().st_size < 8 + length + end:
            raise ValueError(f"{path.name} has {path.stat().st_size} of {8 + length + end} bytes")
        yield from (math.prod(t["shape"]) for t in tensors.values())
