"""Chat messages and screenshots <-> token ids and pixels, for Qwen2.5-VL, Qwen3-VL and GLM-4.1V checkpoints.

The tokenizer writes one placeholder per image; `encode` expands it to as many as the image has patches after merging,
so that the ids it returns are exactly what the model reads, in rollout and in training. Pixels are made from PNG bytes
only when a batch is built; a bounded cache keeps those of screens that were just used.

What the model families differ in is read from the checkpoint: placeholder ids, chat template, patches, end tokens.
"""

from __future__ import annotations

import copy
import hashlib
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from transformers import AutoConfig, AutoTokenizer, PreTrainedTokenizerBase

from envs.device import open_picture
from mobilerl.config import ConfigError
from mobilerl.engines.checkpoint_parts import generation_ends, load_image_processor, mismatch, template_ids
from mobilerl.engines.defaults import PIXEL_CACHE_BYTES
from mobilerl.engines.image_settings import MAX_PIXELS

VISION_TOKEN_FIELDS = (
    "image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id",  # Qwen
    "image_start_token_id", "image_end_token_id", "video_start_token_id", "video_end_token_id",  # GLM
)  # fmt: skip
REPLY_TAGS = frozenset({"<think>", "</think>", "<answer>", "</answer>"})
"""Part of a reply's text even where a tokenizer has them as special tokens."""
CURE = "take the tokenizer, chat template and preprocessor_config.json of the model the weights are from"


class Codec:
    """Tokenizer and image processor of one checkpoint.

    `max_pixels` caps an image before it is cut into patches; None leaves the checkpoint's own limit, which is the cap
    it was saved with, if it was with one. `end_ids` end a reply beside the tokenizer's own end token: GLM ends a turn
    with the token that begins the next one.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, image_processor: Any, config: Any,
                 max_pixels: int | None = None, end_ids: Iterable[int] = ()) -> None:  # fmt: skip
        self.tokenizer = tokenizer
        self.image_processor = image_processor
        self.image_token_id: int = config.image_token_id
        self.merge = image_processor.merge_size**2
        self.max_pixels: int | None = max_pixels or getattr(image_processor, MAX_PIXELS, None)
        self.eos_id: int = tokenizer.eos_token_id
        self.end_ids = frozenset({self.eos_id, *end_ids})
        self.pad_id: int = self.eos_id if tokenizer.pad_token_id is None else tokenizer.pad_token_id
        placeholders = {getattr(config, name, None) for name in VISION_TOKEN_FIELDS} - {None}
        # Embeddings are often padded: what stands behind the last token has weights but no meaning.
        padding = range(len(tokenizer), config.get_text_config().vocab_size)
        self.placeholder_ids = tuple(sorted(placeholders))
        self.banned_ids = tuple(sorted({*placeholders, *padding}))
        """Can never come out of sampling, and have no share in a log-probability."""
        self._silent_ids = frozenset(
            id_ for id_, t in tokenizer.added_tokens_decoder.items() if t.special and t.content not in REPLY_TAGS
        )
        self._pixels: OrderedDict[bytes, tuple[np.ndarray, np.ndarray]] = OrderedDict()
        self._cached_bytes = 0
        self._cache_lock = threading.Lock()
        """Episodes encode in the event loop's thread while a sampler or a learner collates in others."""

    @classmethod
    def load(cls, path: str | Path, max_pixels: int | None = None) -> Codec:
        """Reads a Hugging Face model folder. Needs no torchvision: the processor's video half is not used.

        Raises ConfigError when its parts cannot be read or do not belong together.
        """
        try:
            config = AutoConfig.from_pretrained(path)
            tokenizer = AutoTokenizer.from_pretrained(path)
            processor = load_image_processor(Path(path))
            ends = generation_ends(Path(path))
        except (OSError, LookupError, AttributeError, TypeError, ValueError) as error:
            reason = " ".join(str(error).split())[:200] or type(error).__name__
            raise ConfigError(f"{path} cannot be read as a vision-language checkpoint ({reason}); {CURE}") from error
        if getattr(config, "vision_config", None) is None or getattr(config, "image_token_id", None) is None:
            what = f"a model of type {config.model_type!r} reads no images the way Qwen-VL and GLM-V do"
            raise ConfigError(f"{path}: {what}; use a checkpoint of Qwen2.5-VL, Qwen3-VL or GLM-4.1V")
        if problem := mismatch(tokenizer, processor, config):
            raise ConfigError(f"{path}: {problem}; {CURE}")
        return cls(tokenizer, processor, config, max_pixels, ends)

    def save(self, path: str | Path) -> None:
        """Writes both into a folder. With a cap, whoever reads the image processor sees pictures of that size too."""
        self.tokenizer.save_pretrained(path)
        processor = copy.copy(self.image_processor)
        if self.max_pixels:
            processor.size = self._size()["size"]
            setattr(processor, MAX_PIXELS, self.max_pixels)
        processor.save_pretrained(path)

    # --- text ------------------------------------------------------------------------------------------------

    def encode(self, messages: Sequence[Mapping[str, Any]], images: Sequence[bytes]) -> tuple[int, ...]:
        """Prompt ids up to where the assistant's turn begins. Raises ValueError when images and places differ."""
        ids = template_ids(self.tokenizer, messages)
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
        ids = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return tuple(ids) if ids and ids[-1] in self.end_ids else (*ids, self.eos_id)

    def decode(self, ids: Sequence[int]) -> str:
        """Text of a reply, without special tokens."""
        return self.tokenizer.decode([i for i in ids if i not in self._silent_ids])

    # --- images ----------------------------------------------------------------------------------------------

    def pixels(self, png: bytes) -> tuple[np.ndarray, np.ndarray]:
        """(patches (N, D) float32, grid (3,) = time, height, width in patches) of a PNG."""
        name = hashlib.sha256(png).digest()  # a whole PNG as the key would outlive its trajectory
        with self._cache_lock:
            if (hit := self._pixels.get(name)) is not None:
                self._pixels.move_to_end(name)
                return hit
        out = self.image_processor(images=[self._reduced(png)], return_tensors="np", **self._size())
        entry = (out["pixel_values"].astype(np.float32, copy=False), out["image_grid_thw"][0])
        self._remember(name, entry)
        return entry

    def picture(self, png: bytes) -> Image.Image:
        """The image at the size at which the model sees it.

        For samplers with an image processor of their own: it has nothing left to resize, in which such processors
        differ, and its placeholders are as many as `encode` wrote.
        """
        _, height, width = (int(n) * self.image_processor.patch_size for n in self.pixels(png)[1])
        return self._reduced(png).resize((width, height), self.image_processor.resample)

    def _reduced(self, png: bytes) -> Image.Image:
        image = open_picture(png).convert("RGB")
        if not self.max_pixels:
            return image
        # Cheap box reduction first: the processor's bicubic resize of a full screen is what costs.
        factor = int((image.width * image.height / self.max_pixels) ** 0.5)
        return image.reduce(factor) if factor > 1 else image

    def _size(self) -> dict[str, Any]:
        """How `max_pixels` is said to the image processor, whose two limits are called edges but are areas."""
        if not self.max_pixels:
            return {}
        processor = self.image_processor
        # GLM's limits count the pixels of all the frames that make a patch, and it repeats a still image.
        frames = processor.temporal_patch_size if type(processor).__name__.startswith("Glm") else 1
        most = self.max_pixels * frames
        return {"size": {"shortest_edge": min(processor.size["shortest_edge"], most), "longest_edge": most}}

    def _remember(self, name: bytes, entry: tuple[np.ndarray, np.ndarray]) -> None:
        with self._cache_lock:
            if name in self._pixels:  # made by two threads at once
                return
            self._pixels[name] = entry
            self._cached_bytes += _held(name, entry)
            while self._cached_bytes > PIXEL_CACHE_BYTES and len(self._pixels) > 1:
                self._cached_bytes -= _held(*self._pixels.popitem(last=False))

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


def _held(name: bytes, entry: tuple[np.ndarray, np.ndarray]) -> int:
    """Bytes that the cache holds of a picture."""
    return len(name) + entry[0].nbytes + entry[1].nbytes
