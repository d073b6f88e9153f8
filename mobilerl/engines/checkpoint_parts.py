"""The parts of a checkpoint that a codec is made of: do they belong together, and what do they write?"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import transformers
from transformers import PreTrainedTokenizerBase

from mobilerl.engines.image_settings import image_settings


def load_image_processor(path: Path) -> Any:
    """The Pillow variant of a checkpoint's image processor: `AutoImageProcessor` insists on torchvision."""
    settings = image_settings(path)
    if settings is None:
        raise FileNotFoundError(f"{path} holds no preprocessor_config.json: it is not a vision-language checkpoint")
    name = settings["image_processor_type"].removesuffix("Fast").removesuffix("Pil")
    kind = getattr(transformers, f"{name}Pil")
    # Published Qwen2.5-VL folders give min_pixels and max_pixels alone, which the class would write into its own
    # default size: for the whole process.
    return kind.from_pretrained(path, **({} if "size" in settings else {"size": dict(kind.size)}))


def mismatch(tokenizer: PreTrainedTokenizerBase, image_processor: Any, config: Any) -> str:
    """Why these parts cannot work together; "" if they do. Found here, else in the middle of the first episode."""
    vision = config.vision_config
    for name, of_model in (("patch_size", "patch_size"), ("merge_size", "spatial_merge_size"),
                           ("temporal_patch_size", "temporal_patch_size")):  # fmt: skip
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
        return (f"for one image the chat template and the tokenizer write {places} placeholders with the model's id "
                f"for them, {config.image_token_id}")  # fmt: skip
    return ""


def template_ids(tokenizer: PreTrainedTokenizerBase, messages: Sequence[Mapping[str, Any]]) -> list[int]:
    """Ids as the template writes them: one placeholder per image.

    A message without images goes in as a string: GLM's template would print a list of parts the way Python does.
    """
    said = [m if isinstance(m["content"], str) else {**m, "content": _plain(m["content"])} for m in messages]
    text = tokenizer.apply_chat_template(said, tokenize=False, add_generation_prompt=True)
    return tokenizer(text, add_special_tokens=False)["input_ids"]


def _plain(parts: Sequence[Mapping[str, Any]]) -> Any:
    if any(part["type"] == "image" for part in parts):
        return parts
    return "".join(part["text"] for part in parts)


def generation_ends(path: Path) -> tuple[int, ...]:
    """The tokens with which the checkpoint ends a reply, as its generation_config.json lists them."""
    file = path / "generation_config.json"
    ends = json.loads(file.read_text()).get("eos_token_id") if file.is_file() else None
    return tuple(ends) if isinstance(ends, list) else () if ends is None else (ends,)
