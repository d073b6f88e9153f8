"""Chat messages and screenshots <-> token ids and pixels, for Qwen2.5-VL, Qwen3-VL and GLM-4.1V checkpoints.

The tokenizer writes one placeholder per image; `encode` expands it to one per merged patch, so that the ids are exactly
what the model reads, in rollout and in training. Pixels are made from PNG bytes only when a batch is built, with a
bounded cache. Differences between model families are read from the checkpoint.
"""

from __future__ import annotations

import copy
import hashlib
import io
import math
import sys
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from PIL import Image
from transformers import AutoConfig, AutoTokenizer, PreTrainedTokenizerBase

from envs.device import open_picture
from mobilerl.config import ConfigError
from mobilerl.models.checkpoint_folder import MAX_PIXELS, generation_ends, image_settings, one_line

PIXEL_CACHE_BYTES = 256 * 2**20
"""Size of the cache of preprocessed images."""

VISION_TOKENS = "image video vision_start vision_end image_start image_end video_start video_end".split()
"""Special tokens of Qwen and GLM, which their configurations name `..._token_id`."""
REPLY_TAGS = frozenset({"<think>", "</think>", "<answer>", "</answer>"})
"""Kept in a reply's text even where the tokenizer treats them as special tokens."""
FIX = "copy the tokenizer, chat template and preprocessor_config.json of the model the weights are from"


class Codec:
    """Tokenizer and image processor of one checkpoint.

    `max_pixels` limits the size of an image; None for the checkpoint's own limit. `end_ids` are end-of-reply tokens
    besides the tokenizer's own: GLM ends a turn with the token that begins the next one.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        image_processor: Any,
        config: Any,
        max_pixels: int | None = None,
        end_ids: Iterable[int] = (),
    ) -> None:
        self.tokenizer = tokenizer
        self.image_processor = image_processor
        self.image_token_id: int = config.image_token_id
        self.merge = image_processor.merge_size**2
        self.max_pixels: int | None = max_pixels or getattr(image_processor, MAX_PIXELS, None)
        self.eos_id: int = tokenizer.eos_token_id
        self.end_ids = frozenset({self.eos_id, *end_ids})
        self.pad_id: int = self.eos_id if tokenizer.pad_token_id is None else tokenizer.pad_token_id
        placeholders = {getattr(config, f"{name}_token_id", None) for name in VISION_TOKENS} - {None}
        # Embeddings are often padded: ids beyond the last token have weights but no meaning.
        padding = range(len(tokenizer), config.get_text_config().vocab_size)
        self.placeholder_ids = tuple(sorted(placeholders))
        self.banned_ids = tuple(sorted({*placeholders, *padding}))
        """Never sampled, and excluded from log-probabilities."""
        self._silent_ids = frozenset(
            id_ for id_, t in tokenizer.added_tokens_decoder.items() if t.special and t.content not in REPLY_TAGS
        )
        self._pixels: OrderedDict[bytes, tuple[np.ndarray, np.ndarray]] = OrderedDict()
        self._cached_bytes = 0
        self._cache_lock = threading.Lock()
        """Episodes encode in the event loop's thread while sampling and training collate in others."""

    @classmethod
    def load(cls, path: str | Path, max_pixels: int | None = None) -> Codec:
        """Loads a Hugging Face model folder, without torchvision. Raises ConfigError when it cannot be used."""
        try:
            config = AutoConfig.from_pretrained(path)
            tokenizer = AutoTokenizer.from_pretrained(path)
            processor = load_image_processor(Path(path))
            ends = generation_ends(Path(path))
        except (OSError, LookupError, AttributeError, TypeError, ValueError) as error:
            raise ConfigError(
                f"{path} cannot be read as a vision-language checkpoint ({one_line(error)}); {FIX}"
            ) from error
        if getattr(config, "vision_config", None) is None or getattr(config, "image_token_id", None) is None:
            raise ConfigError(
                f"{path}: models of type {config.model_type!r} are not supported; use a checkpoint of Qwen2.5-VL, "
                "Qwen3-VL or GLM-4.1V"
            )
        if problem := mismatch(tokenizer, processor, config):
            raise ConfigError(f"{path}: {problem}; {FIX}")
        return cls(tokenizer, processor, config, max_pixels, ends)

    def save(self, path: str | Path) -> None:
        """Writes both into a folder, the image processor with the limit `max_pixels`."""
        self.tokenizer.save_pretrained(path)
        processor = copy.copy(self.image_processor)
        if self.max_pixels:
            processor.size = self._size()["size"]
            setattr(processor, MAX_PIXELS, self.max_pixels)
        processor.save_pretrained(path)

    def encode(self, messages: Sequence[Mapping[str, Any]], images: Sequence[bytes]) -> tuple[int, ...]:
        """Prompt ids up to the assistant's turn. Raises ValueError when images and placeholders differ in number."""
        ids = template_ids(self.tokenizer, messages)
        places = ids.count(self.image_token_id)
        if places != len(images):
            raise ValueError(f"the prompt has {places} image placeholders but {len(images)} images were given")
        if not images:
            return tuple(ids)
        area = self.merge * self.image_processor.patch_size**2
        counts = iter(math.prod(self.size_seen(*picture_size(png))) // area for png in images)
        expanded: list[int] = []
        for token in ids:
            expanded.extend([token] * next(counts) if token == self.image_token_id else [token])
        return tuple(expanded)

    def encode_reply(self, text: str) -> tuple[int, ...]:
        """Ids of an assistant's reply, with an end token."""
        ids = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return tuple(ids) if ids and ids[-1] in self.end_ids else (*ids, self.eos_id)

    def decode(self, ids: Sequence[int]) -> str:
        """Text of a reply, without special tokens."""
        return self.tokenizer.decode([i for i in ids if i not in self._silent_ids])

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

    def scaled_image(self, png: bytes) -> Image.Image:
        """The image at the size at which the model sees it.

        An inference engine's image processor then has nothing to resize and makes as many placeholders as `encode`.
        """
        picture = self._reduced(png)
        height, width = self.size_seen(*picture_size(png))
        return picture.resize((width, height), self.image_processor.resample)

    def size_seen(self, width: int, height: int) -> tuple[int, int]:
        """Height and width at which the model sees a picture, without making it."""
        processor = self.image_processor
        factor = self._reduction(width, height)
        height, width = -(-height // factor), -(-width // factor)
        limits = self._size().get("size", processor.size)
        resize = sys.modules[type(processor).__module__].smart_resize
        if self._frames > 1:
            resize = partial(resize, self._frames, temporal_factor=self._frames)
        return resize(
            height,
            width,
            factor=processor.patch_size * processor.merge_size,
            min_pixels=limits["shortest_edge"],
            max_pixels=limits["longest_edge"],
        )

    def _reduced(self, png: bytes) -> Image.Image:
        image = open_picture(png).convert("RGB")
        factor = self._reduction(image.width, image.height)
        return image.reduce(factor) if factor > 1 else image

    def _reduction(self, width: int, height: int) -> int:
        """Factor of a cheap box reduction: the processor's bicubic resize of a full screen is expensive."""
        return max(1, int((width * height / self.max_pixels) ** 0.5)) if self.max_pixels else 1

    @property
    def _frames(self) -> int:
        """GLM's limits count the pixels of all the frames that make a patch, and it repeats a still image."""
        processor = self.image_processor
        return processor.temporal_patch_size if type(processor).__name__.startswith("Glm") else 1

    def _size(self) -> dict[str, Any]:
        """`max_pixels` for the image processor, whose limits are called edges but are areas."""
        if not self.max_pixels:
            return {}
        most = self.max_pixels * self._frames
        shortest = min(self.image_processor.size["shortest_edge"], most)
        return {"size": {"shortest_edge": shortest, "longest_edge": most}}

    def _remember(self, name: bytes, entry: tuple[np.ndarray, np.ndarray]) -> None:
        with self._cache_lock:
            if name in self._pixels:
                return
            self._pixels[name] = entry
            self._cached_bytes += _held(name, entry)
            while self._cached_bytes > PIXEL_CACHE_BYTES and len(self._pixels) > 1:
                self._cached_bytes -= _held(*self._pixels.popitem(last=False))

    def collate(
        self,
        ids: Sequence[Sequence[int]],
        images: Sequence[Sequence[bytes]],
        pad_left: bool,
        device: torch.device | str = "cpu",
    ) -> dict[str, torch.Tensor]:
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


def picture_size(png: bytes) -> tuple[int, int]:
    """Width and height of a PNG, from its header."""
    return Image.open(io.BytesIO(png), formats=("PNG",)).size


def _held(name: bytes, entry: tuple[np.ndarray, np.ndarray]) -> int:
    """Size of a cache entry in bytes."""
    return len(name) + entry[0].nbytes + entry[1].nbytes


def load_image_processor(path: Path) -> Any:
    """The Pillow variant of a checkpoint's image processor: `AutoImageProcessor` insists on torchvision."""
    settings = image_settings(path)
    if settings is None:
        raise FileNotFoundError(f"{path} holds no preprocessor_config.json: it is not a vision-language checkpoint")
    name = settings["image_processor_type"].removesuffix("Fast").removesuffix("Pil")
    kind = getattr(transformers, f"{name}Pil")
    # Given min_pixels and max_pixels alone (published Qwen2.5-VL folders), the class would change its own defaults.
    return kind.from_pretrained(path, **({} if "size" in settings else {"size": dict(kind.size)}))


def mismatch(tokenizer: PreTrainedTokenizerBase, image_processor: Any, config: Any) -> str:
    """Why these parts do not fit each other; "" if they do."""
    vision = config.vision_config
    for name, of_model in (
        ("patch_size", "patch_size"),
        ("merge_size", "spatial_merge_size"),
        ("temporal_patch_size", "temporal_patch_size"),
    ):
        have, want = getattr(image_processor, name, None), getattr(vision, of_model, None)
        if have != want:
            return f"the image processor's {name} is {have}, but the model's {of_model} is {want}"
    if tokenizer.eos_token_id is None:
        return "the tokenizer has no end token (eos_token)"
    if not tokenizer.chat_template:
        return "the tokenizer has no chat template"
    embeddings = config.get_text_config().vocab_size
    if len(tokenizer) > embeddings:
        return f"the tokenizer has {len(tokenizer)} tokens, but the model only {embeddings}"
    one = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "x"}]}]
    if (places := template_ids(tokenizer, one).count(config.image_token_id)) != 1:
        return f"the chat template writes {places} placeholders (token {config.image_token_id}) for one image"
    return ""


def template_ids(tokenizer: PreTrainedTokenizerBase, messages: Sequence[Mapping[str, Any]]) -> list[int]:
    """Ids as the template writes them: one placeholder per image.

    A message without images is passed as a string: GLM's template would print a list of parts as a Python list.
    """
    plain = [m if isinstance(m["content"], str) else {**m, "content": _plain(m["content"])} for m in messages]
    text = tokenizer.apply_chat_template(plain, tokenize=False, add_generation_prompt=True)
    return tokenizer(text, add_special_tokens=False)["input_ids"]


def _plain(parts: Sequence[Mapping[str, Any]]) -> Any:
    if any(part["type"] == "image" for part in parts):
        return parts
    return "".join(part["text"] for part in parts)
