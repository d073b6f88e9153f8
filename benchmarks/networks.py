"""Models to measure with: tiny ones, and published sizes with random weights (nothing is downloaded)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

VISION = {
    "depth": 32, "hidden_size": 1280, "intermediate_size": 3420, "num_heads": 16,
    "fullatt_block_indexes": [7, 15, 23, 31], "window_size": 112, "patch_size": 14,
}  # fmt: skip
"""The vision tower that all sizes of Qwen2.5-VL share."""
PUBLISHED: dict[str, dict[str, Any]] = {
    "3B": {"hidden_size": 2048, "num_hidden_layers": 36, "num_attention_heads": 16, "num_key_value_heads": 2,
           "intermediate_size": 11008, "vocab_size": 151936, "tie_word_embeddings": True},
    "7B": {"hidden_size": 3584, "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4,
           "intermediate_size": 18944, "vocab_size": 152064, "tie_word_embeddings": False},
}  # fmt: skip
"""Text sizes of Qwen2.5-VL."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Of a tiny model, as in `[tiny]`; heads are 32 wide."""

    hidden: int = 128
    layers: int = 4


def published_config(name: str, tokenizer: Any = None) -> Any:
    """A transformers configuration; special tokens are those of `tokenizer`, whose vocabulary may be smaller."""
    from transformers import Qwen2_5_VLConfig

    text = {
        **PUBLISHED[name], "max_position_embeddings": 32768,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [16, 24, 24]},
    }  # fmt: skip
    vision = {**VISION, "out_hidden_size": text["hidden_size"]}
    ids: dict[str, int] = {}
    if tokenizer is not None:
        text |= {"bos_token_id": None, "eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
        names = {"image_token_id": "<|image_pad|>", "video_token_id": "<|video_pad|>",
                 "vision_start_token_id": "<|vision_start|>", "vision_end_token_id": "<|vision_end|>"}  # fmt: skip
        ids = {field: tokenizer.convert_tokens_to_ids(token) for field, token in names.items()}
    return Qwen2_5_VLConfig(text_config=text, vision_config=vision, **ids,
                            tie_word_embeddings=text["tie_word_embeddings"])  # fmt: skip


def make_checkpoint(path: Path, network: Shape | str, max_pixels: int) -> None:
    """An untrained checkpoint whose tokenizer knows the embedded phone's words. ValueError for an unknown name."""
    import torch

    from envs.phone.env import PhoneEnv
    from mobilerl import tiny
    from sft.vocabulary import corpus

    torch.manual_seed(0)
    words = corpus(PhoneEnv("bench"))
    if isinstance(network, Shape):
        tiny.create(path, words, hidden=network.hidden, layers=network.layers, heads=max(1, network.hidden // 32))
        return
    from transformers import AutoModelForImageTextToText, Qwen2VLImageProcessorPil

    from mobilerl.engines.codec import Codec

    tokenizer = tiny.build_tokenizer(words)
    config = published_config(network, tokenizer)
    with torch.device("cuda" if torch.cuda.is_available() else "cpu"):
        model = AutoModelForImageTextToText.from_config(config, dtype=torch.bfloat16)
    model.save_pretrained(path)
    processor = Qwen2VLImageProcessorPil(size={"shortest_edge": 4 * 28 * 28, "longest_edge": max_pixels})
    Codec(tokenizer, processor, config).save(path)
