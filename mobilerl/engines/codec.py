"""Chat messages and screenshots <-> token ids and pixels, for any Qwen-VL-like checkpoint.

The tokenizer writes one placeholder per image; `encode` expands it to as many as the image has patches after merging,
so that the ids it returns are exactly what the model reads, in rollout and in training. Pixels are made from PNG bytes
only when a batch is built; a bounded cache keeps those of screens that were just used.
"""

from __future__ import annotations

import io
import json
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from PIL import Image
from transformers import AutoConfig, AutoTokenizer, PreTrainedTokenizerBase

PIXEL_CACHE_BYTES = 256 * 1024 * 1024
VISION_TOKEN_FIELDS = ("image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id")


def load_image_processor(path: Path) -> Any:
    """The Pillow variant of a checkpoint's image processor: `AutoImageProcessor` insists on torchvision."""
    for name in ("preprocessor_config.json", "processor_config.json"):
        if (path / name).is_file():
            settings = json.loads((path / name).read_text())
            settings = settings.get("image_processor", settings)
            kind = settings["image_processor_type"].removesuffix("Fast").removesuffix("Pil") + "Pil"
            return getattr(transformers, kind).from_pretrained(path)
    raise FileNotFoundError(f"{path} holds no preprocessor_config.json: it is not a vision-language checkpoint")


class Codec:
    """Tokenizer and image processor of one checkpoint.

    `max_pixels` caps an image before it is cut into patches; None leaves the checkpoint's own limit.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, image_processor: Any, config: Any,
                 max_pixels: int | None = None) -> None:  # fmt: skip
        self.tokenizer = tokenizer
        self.image_processor = image_processor
        self.image_token_id: int = config.image_token_id
        self.merge = image_processor.merge_size**2
        self.max_pixels = max_pixels
        self.pad_id: int = tokenizer.pad_token_id
        self.eos_id: int = tokenizer.eos_token_id
        self.banned_ids = tuple(
            sorted({getattr(config, name) for name in VISION_TOKEN_FIELDS if getattr(config, name, None) is not None})
        )
        self._pixels: OrderedDict[bytes, tuple[np.ndarray, np.ndarray]] = OrderedDict()
        self._cached_bytes = 0
        self._cache_lock = threading.Lock()
        """Episodes encode in the event loop's thread while a sampler or a learner collates in others."""

    @classmethod
    def load(cls, path: str | Path, max_pixels: int | None = None) -> Codec:
        """Reads a Hugging Face model folder. Needs no torchvision: the processor's video half is not used."""
        return cls(
            AutoTokenizer.from_pretrained(path),
            load_image_processor(Path(path)),
            AutoConfig.from_pretrained(path),
            max_pixels,
        )

    def save(self, path: str | Path) -> None:
        self.tokenizer.save_pretrained(path)
        self.image_processor.save_pretrained(path)

    # --- text ------------------------------------------------------------------------------------------------

    def encode(self, messages: Sequence[Mapping[str, Any]], images: Sequence[bytes]) -> tuple[int, ...]:
        """Prompt ids up to where the assistant's turn begins. Raises ValueError when images and places differ."""
        text = self.tokenizer.apply_chat_template(list(messages), tokenize=False, add_generation_prompt=True)
        ids = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        places = ids.count(self.image_token_id)
        if places != len(images):
            raise ValueError(f"the prompt has {places} image placeholders but {len(images)} images were given")
        if not images:
            return tuple(ids)
        counts = iter(int(self.pixels(png)[1].prod()) // self.merge for png in images)
        expanded: list[int] = []
        for token in ids:
            expanded.extend([token] * next(counts) if token == self.image_token_id else [token])
        return tuple(expanded)

    def encode_reply(self, text: str) -> tuple[int, ...]:
        """Ids of an assistant's reply, with the token that ends it."""
        return (*self.tokenizer(text, add_special_tokens=False)["input_ids"], self.eos_id)

    def decode(self, ids: Sequence[int]) -> str:
        """Text of a reply, without special tokens."""
        return self.tokenizer.decode(list(ids), skip_special_tokens=True)

    # --- images ----------------------------------------------------------------------------------------------

    def pixels(self, png: bytes) -> tuple[np.ndarray, np.ndarray]:
        """(patches (N, D) float32, grid (3,) = time, height, width in patches) of a PNG."""
        with self._cache_lock:
            if (hit := self._pixels.get(png)) is not None:
                self._pixels.move_to_end(png)
                return hit
        image = Image.open(io.BytesIO(png)).convert("RGB")
        size = {"min_pixels": 4 * 28 * 28, "max_pixels": self.max_pixels} if self.max_pixels else {}
        if self.max_pixels:
            # Cheap box reduction first: the processor's bicubic resize of a full screen is what costs.
            factor = int((image.width * image.height / self.max_pixels) ** 0.5)
            image = image.reduce(factor) if factor > 1 else image
        out = self.image_processor(images=[image], return_tensors="np", **size)
        entry = (out["pixel_values"].astype(np.float32, copy=False), out["image_grid_thw"][0])
        self._remember(png, entry)
        return entry

    def _remember(self, png: bytes, entry: tuple[np.ndarray, np.ndarray]) -> None:
        with self._cache_lock:
            if png in self._pixels:  # made by two threads at once
                return
            self._pixels[png] = entry
            self._cached_bytes += entry[0].nbytes
            while self._cached_bytes > PIXEL_CACHE_BYTES and len(self._pixels) > 1:
                _, old = self._pixels.popitem(last=False)
                self._cached_bytes -= old[0].nbytes

    # --- batches ---------------------------------------------------------------------------------------------

    def collate(self, ids: Sequence[Sequence[int]], images: Sequence[Sequence[bytes]], pad_left: bool,
                device: torch.device | str = "cpu") -> dict[str, torch.Tensor]:  # fmt: skip
        """Padded model inputs: input_ids, attention_mask, mm_token_type_ids (B, L), pixel_values, image_grid_thw."""
        longest = max(map(len, ids))
        batch = torch.full((len(ids), longest), self.pad_id, dtype=torch.long)
        mask = torch.zeros_like(batch)
        for i, sequence in enumerate(ids):
            where = slice(longest - len(sequence), longest) if pad_left else slice(0, len(sequence))
            batch[i, where] = torch.tensor(sequence, dtype=torch.long)
            mask[i, where] = 1
        inputs = {
            "input_ids": batch,
            "attention_mask": mask,
            "mm_token_type_ids": (batch == self.image_token_id).long(),
        }
        parts = [self.pixels(png) for row in images for png in row]
        if parts:
            inputs["pixel_values"] = torch.from_numpy(np.concatenate([p for p, _ in parts]))
            inputs["image_grid_thw"] = torch.from_numpy(np.stack([g for _, g in parts]).astype(np.int64))
        return {name: tensor.to(device) for name, tensor in inputs.items()}
