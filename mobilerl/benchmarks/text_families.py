"""Tiny random checkpoints of the supported text models."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from transformers import (
    GenerationConfig,
    LlamaConfig,
    LlamaForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from mobilerl.benchmarks.model_families import FAMILIES, HEADS, HIDDEN, tokenizer_of

TEXT_FAMILIES: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "Llama": (LlamaConfig, LlamaForCausalLM, {"tie_word_embeddings": True}),
    "Qwen2.5": (Qwen2Config, Qwen2ForCausalLM, {"tie_word_embeddings": True}),
    "Qwen3": (Qwen3Config, Qwen3ForCausalLM, {"head_dim": HIDDEN // HEADS}),
}
"""Settings, class and what else is set, by family."""


def create_text_model(family: str, path: Path, corpus: Iterable[str], seed: int = 0) -> None:
    """Writes a checkpoint folder."""
    settings, kind, more = TEXT_FAMILIES[family]
    tokenizer = tokenizer_of(FAMILIES["Qwen3-VL"], corpus)
    torch.manual_seed(seed)
    config = settings(
        vocab_size=len(tokenizer),
        hidden_size=HIDDEN,
        intermediate_size=2 * HIDDEN,
        num_hidden_layers=2,
        num_attention_heads=HEADS,
        num_key_value_heads=1,
        max_position_embeddings=8192,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        **more,
    )
    model = kind(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(5.0)  # as in `model_families`
    model.generation_config = GenerationConfig(eos_token_id=tokenizer.eos_token_id, temperature=0.2, do_sample=True)
    model.save_pretrained(path)
    tokenizer.save_pretrained(path)
