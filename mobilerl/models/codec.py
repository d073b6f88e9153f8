"""Encoding of chat messages and screenshots as token ids and pixels.

The tokenizer writes one placeholder per image; `encode` expands it to one per merged patch, so that the ids are exactly
what the model reads in rollout and training. `images` converts PNGs to pixels only when a batch is built.
Differences between model families are read from the checkpoint. Text models have no image processor.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from transformers import AutoConfig, AutoTokenizer, PreTrainedTokenizerBase

from mobilerl.config import ConfigError
from mobilerl.models.adapter_folder import is_adapter
from mobilerl.models.checkpoint_folder import (
    MAX_PIXELS,
    PROCESSOR_FILES,
    chat_template,
    generation_ends,
    image_settings,
    one_line,
)
from mobilerl.models.hub import base_folder, source
from mobilerl.models.images import Images
from mobilerl.models.linear_attention import has_linear_attention
from mobilerl.models.text_models import TEXT_TYPES, is_supported, is_text_model
from mobilerl.models.thinking import with_thinking
from mobilerl.models.transfer import to_device

VISION_TOKENS = "image video vision_start vision_end image_start image_end video_start video_end".split()
"""Special tokens of Qwen and GLM, which their configs call `..._token_id`."""
RESPONSE_TAGS = frozenset({"<think>", "</think>", "<answer>", "</answer>"})
"""Tags that are kept in a response's text even if the tokenizer treats them as special tokens."""
TOKENIZER_FILES = ("tokenizer.json", "vocab.json")
FIX = "copy the tokenizer, chat template and preprocessor_config.json of the model the weights are from"


class Codec:
    """Tokenizer and image processor of one checkpoint; None in the place of the latter for a text model.

    `max_pixels` limits the size of an image; None uses the checkpoint's own limit. `end_ids` are end-of-response tokens
    besides the tokenizer's own, since GLM ends a turn with the token that begins the next one.
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
        self.image_token_id: int | None = getattr(config, "image_token_id", None)
        self.merge = image_processor.merge_size**2 if image_processor else 1
        self.max_pixels: int | None = max_pixels or getattr(image_processor, MAX_PIXELS, None)
        self.eos_id: int = tokenizer.eos_token_id
        self.end_ids = frozenset({self.eos_id, *end_ids})
        self.pad_id: int = self.eos_id if tokenizer.pad_token_id is None else tokenizer.pad_token_id
        vision = (getattr(config, f"{name}_token_id", None) for name in VISION_TOKENS)
        placeholders = {token for token in vision if token is not None}
        # Embeddings are often padded: ids beyond the last token have weights but no meaning.
        padding = range(len(tokenizer), config.get_text_config().vocab_size)
        self.placeholder_ids = tuple(sorted(placeholders))
        self.banned_ids = tuple(sorted({*placeholders, *padding}))
        """Ids that are never sampled and that are excluded from log-probabilities."""
        self._silent_ids = frozenset(
            id_ for id_, t in tokenizer.added_tokens_decoder.items() if t.special and t.content not in RESPONSE_TAGS
        )
        self.images = Images(image_processor, self.max_pixels)

    @classmethod
    def load(cls, path: str | Path, max_pixels: int | None = None, thinking: bool | None = None) -> Codec:
        """Loads the codec of a Hugging Face model folder, without torchvision. Raises ConfigError if it is unusable.

        What the folder of an adapter lacks is taken from its base model. `thinking` sets the switch of the chat
        template; None leaves it as it is.
        """
        try:
            config = AutoConfig.from_pretrained(source(path, "config.json"))
            tokenizer = load_tokenizer(path)
            processor = None if is_text_model(config) else load_image_processor(source(path, *PROCESSOR_FILES))
            ends = generation_ends(source(path, "generation_config.json"))
        except ConfigError:
            raise
        except (OSError, LookupError, AttributeError, TypeError, ValueError) as error:
            raise ConfigError(f"{path} cannot be read as a checkpoint ({one_line(error)}); {FIX}") from error
        if not is_supported(config) if processor is None else getattr(config, "image_token_id", None) is None:
            raise ConfigError(
                f"{path}: models of type {config.model_type!r} are not supported; use a checkpoint of Qwen2.5-VL, "
                f"Qwen3-VL, Qwen3.5 or GLM-4.1V, or of a text model ({', '.join(TEXT_TYPES)}, without sliding windows)"
            )
        if has_linear_attention(config) and config.model_type != "qwen3_5":
            raise ConfigError(
                f"{path}: models of type {config.model_type!r} are not supported, of Qwen3.5 only its dense ones "
                "(qwen3_5) and no mixture of experts; evaluate it behind a model server (--model http://HOST:PORT/v1)"
            )
        if problem := mismatch(tokenizer, processor, config):
            raise ConfigError(f"{path}: {problem}; {FIX}")
        if thinking is not None:
            try:
                tokenizer.chat_template = with_thinking(tokenizer.chat_template, thinking)
            except ValueError as error:
                raise ConfigError(f"engine.thinking is set, but {path} does not fit: {error}; leave it out") from None
        return cls(tokenizer, processor, config, max_pixels, ends)

    @cached_property
    def banned(self) -> torch.Tensor:
        """`banned_ids` as an int64 tensor in main memory: a vocabulary that is padded has 100,000."""
        return torch.tensor(self.banned_ids, dtype=torch.long)

    def save(self, path: str | Path) -> None:
        """Writes tokenizer and image processor, with its `max_pixels`, into a folder."""
        self.tokenizer.save_pretrained(path)
        if self.image_processor is None:
            return
        processor = copy.copy(self.image_processor)
        if self.max_pixels:
            processor.size = self.images.limits()
            setattr(processor, MAX_PIXELS, self.max_pixels)
        processor.save_pretrained(path)

    def encode(self, messages: Sequence[Mapping[str, Any]], images: Sequence[bytes]) -> tuple[int, ...]:
        """Prompt ids up to the assistant's turn. Raises ValueError if images and placeholders differ in number."""
        ids = template_ids(self.tokenizer, messages)
        places = 0 if self.image_token_id is None else ids.count(self.image_token_id)
        if places != len(images):
            raise ValueError(f"the prompt has {places} image placeholders but {len(images)} images were given")
        if not images:
            return tuple(ids)
        counts = iter(map(self.images.tokens, images))
        expanded: list[int] = []
        for token in ids:
            expanded.extend([token] * next(counts) if token == self.image_token_id else [token])
        return tuple(expanded)

    def encode_response(self, text: str) -> tuple[int, ...]:
        """Ids of an assistant's response, including an end token."""
        ids = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return tuple(ids) if ids and ids[-1] in self.end_ids else (*ids, self.eos_id)

    def decode(self, ids: Sequence[int]) -> str:
        """Text of a response, without special tokens."""
        return self.tokenizer.decode([i for i in ids if i not in self._silent_ids])

    def pixels(self, png: bytes) -> tuple[np.ndarray, np.ndarray]:
        """Patches (N, D) float32 of a PNG, and their grid (3,): time, height and width in patches."""
        patches, grid = self.images.patches(png)
        return self.images.values([patches]).numpy(), grid

    def collate(
        self,
        ids: Sequence[Sequence[int]],
        images: Sequence[Sequence[bytes]],
        pad_left: bool,
        device: torch.device | str = "cpu",
    ) -> dict[str, torch.Tensor]:
        """Padded model inputs: (B, L) input_ids, attention_mask and mm_token_type_ids, pixel_values, image_grid_thw."""
        inputs = self.text_inputs(ids, pad_left) | self.pixel_inputs(images, device)
        return {name: to_device(tensor, device) for name, tensor in inputs.items()}

    def text_inputs(self, ids: Sequence[Sequence[int]], pad_left: bool) -> dict[str, torch.Tensor]:
        """Padded (B, L) input_ids, attention_mask and, with images, mm_token_type_ids in main memory."""
        longest = max(map(len, ids))
        batch = torch.full((len(ids), longest), self.pad_id, dtype=torch.long)
        mask = torch.zeros_like(batch)
        for i, sequence in enumerate(ids):
            where = slice(longest - len(sequence), longest) if pad_left else slice(0, len(sequence))
            batch[i, where] = torch.tensor(sequence, dtype=torch.long)
            mask[i, where] = 1
        inputs = {"input_ids": batch, "attention_mask": mask}
        if self.image_token_id is not None:
            inputs["mm_token_type_ids"] = (batch == self.image_token_id).long()
        return inputs

    def pixel_inputs(
        self, images: Sequence[Sequence[bytes]], device: torch.device | str | int = "cpu"
    ) -> dict[str, torch.Tensor]:
        """`pixel_values`, computed on `device`, and `image_grid_thw` in main memory; {} without images."""
        parts = [made.result() for made in self.images.prepare(png for row in images for png in row)]
        if not parts:
            return {}
        grid = torch.from_numpy(np.stack([g for _, g in parts]).astype(np.int64))
        return {"pixel_values": self.images.values([p for p, _ in parts], device), "image_grid_thw": grid}


def load_tokenizer(path: str | Path) -> PreTrainedTokenizerBase:
    """Loads the tokenizer with its chat template, which may be in a file of its own or in an adapter's base model."""
    home = source(path, *TOKENIZER_FILES)
    if home != Path(path):
        tokenizer = load_tokenizer(home)
        tokenizer.chat_template = chat_template(path) or tokenizer.chat_template
        return tokenizer
    tokenizer = AutoTokenizer.from_pretrained(path)
    if not tokenizer.chat_template:
        tokenizer.chat_template = chat_template(path)
    if not tokenizer.chat_template and is_adapter(path):
        tokenizer.chat_template = load_tokenizer(base_folder(path)).chat_template
    return tokenizer


def load_image_processor(path: Path) -> Any:
    """Loads the Pillow variant of a checkpoint's image processor, since `AutoImageProcessor` requires torchvision."""
    settings = image_settings(path)
    if settings is None:
        raise FileNotFoundError(f"{path} holds no preprocessor_config.json: it is not a vision-language checkpoint")
    name = settings["image_processor_type"].removesuffix("Fast").removesuffix("Pil")
    kind = getattr(transformers, f"{name}Pil")
    # Given only min_pixels and max_pixels, as in published Qwen2.5-VL folders, the class would change its defaults.
    return kind.from_pretrained(path, **({} if "size" in settings else {"size": dict(kind.size)}))


def mismatch(tokenizer: PreTrainedTokenizerBase, image_processor: Any, config: Any) -> str:
    """Describes why tokenizer, image processor and config do not fit each other; "" if they do."""
    vision = getattr(config, "vision_config", None)
    for name, of_model in (
        ("patch_size", "patch_size"),
        ("merge_size", "spatial_merge_size"),
        ("temporal_patch_size", "temporal_patch_size"),
    ):
        have, want = getattr(image_processor, name, None), getattr(vision, of_model, None)  # None in text models
        if have != want:
            return f"the image processor's {name} is {have}, but the model's {of_model} is {want}"
    if tokenizer.eos_token_id is None:
        return "the tokenizer has no end token (eos_token)"
    if not tokenizer.chat_template:
        return "the tokenizer has no chat template"
    embeddings = config.get_text_config().vocab_size
    if len(tokenizer) > embeddings:
        return f"the tokenizer has {len(tokenizer)} tokens, but the model only {embeddings}"
    if image_processor is None:
        return ""
    one = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "x"}]}]
    if (places := template_ids(tokenizer, one).count(config.image_token_id)) != 1:
        return f"the chat template writes {places} placeholders (token {config.image_token_id}) for one image"
    return ""


def template_ids(tokenizer: PreTrainedTokenizerBase, messages: Sequence[Mapping[str, Any]]) -> list[int]:
    """Ids as the chat template writes them, with one placeholder per image.

    A message without images is passed as a string, because GLM's template would print a list of parts as is.
    """
    plain = [m if isinstance(m["content"], str) else {**m, "content": _plain(m["content"])} for m in messages]
    text = tokenizer.apply_chat_template(plain, tokenize=False, add_generation_prompt=True)
    return tokenizer(text, add_special_tokens=False)["input_ids"]


def _plain(parts: Sequence[Mapping[str, Any]]) -> Any:
    if any(part["type"] == "image" for part in parts):
        return parts
    return "".join(part["text"] for part in parts)
