"""Models from checkpoint folders: full weights or LoRA adapters, their precision, and gradient checkpointing."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint
from transformers import AutoModelForImageTextToText
from transformers.modeling_layers import GradientCheckpointingLayer

LORA_TARGETS = r".*language_model.*\.(q_proj|k_proj|v_proj|o_proj|gate_proj|up_proj|gate_up_proj|down_proj)"
"""Every linear layer of the language model; the vision tower stays frozen."""
ADAPTER_FILE = "adapter_config.json"


def compute_dtype() -> torch.dtype:
    """Precision of matrix multiplications on this machine."""
    return torch.bfloat16 if torch.cuda.is_available() else torch.float32


def load_model(path: Path, learns: bool = False) -> torch.nn.Module:
    """A checkpoint folder of full weights, or of a LoRA adapter (which names its base).

    Trained weights are float32: bfloat16 has three digits, too few for a step of 1e-6. An adapter's always are, over a
    base in `compute_dtype`; full weights are with `learns`.
    """
    if (path / ADAPTER_FILE).is_file():
        from peft import AutoPeftModel

        return AutoPeftModel.from_pretrained(path, is_trainable=True, dtype=compute_dtype())
    dtype = torch.float32 if learns else compute_dtype()
    return AutoModelForImageTextToText.from_pretrained(path, dtype=dtype, attn_implementation="sdpa")


def add_lora(model: torch.nn.Module, rank: int) -> torch.nn.Module:
    """Adapters on every linear layer of the language model; the vision tower stays frozen."""
    from peft import LoraConfig, get_peft_model

    return get_peft_model(model, LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=LORA_TARGETS))


def enable_gradient_checkpointing(model: torch.nn.Module) -> None:
    """Recomputes each layer in the backward pass. Results stay the same to the bit.

    transformers' own switch acts in training mode, which belongs to the whole model and would disable the cache of a
    generation in another thread. This one acts where gradients are recorded, which is a property of the thread.
    """
    for layer in model.modules():
        if isinstance(layer, GradientCheckpointingLayer):
            layer.forward = partial(_checkpointed, layer.forward)


def _checkpointed(forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    if not torch.is_grad_enabled():
        return forward(*args, **kwargs)
    if "past_key_values" in kwargs:  # the second pass would add to the cache again
        kwargs["past_key_values"] = None
    return checkpoint(forward, *args, use_reentrant=False, **kwargs)
