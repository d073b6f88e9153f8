"""Models from checkpoint folders: full weights, LoRA adapters, and in which precision they are held."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import AutoModelForImageTextToText

LORA_TARGETS = r".*language_model.*\.(q_proj|k_proj|v_proj|o_proj|gate_proj|up_proj|gate_up_proj|down_proj)"
"""Every linear layer of the language model; the vision tower stays frozen."""
ADAPTER_FILE = "adapter_config.json"


def compute_dtype() -> torch.dtype:
    """What the device multiplies in."""
    return torch.bfloat16 if torch.cuda.is_available() else torch.float32


def load_model(path: Path, learns: bool = False) -> torch.nn.Module:
    """A checkpoint folder of full weights, or of a LoRA adapter (whose base it names).

    Weights that learn are float32 wherever they are: a bfloat16 one has three digits, and does not feel a step of 1e-6.
    Those of an adapter always are, over a base in `compute_dtype`; full weights are with `learns`.
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
