"""torch.compile of the layers of the language model."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from transformers import AttentionInterface
from transformers.modeling_layers import GradientCheckpointingLayer

from mobilerl.models.attention import ATTENTION, attention

LAYERS = ".layers."
"""Part of the names of the language model's layers; those of vision towers are `.blocks.`."""


def compile_layers(model: torch.nn.Module) -> None:
    """Compiles what the language model computes of packed rows, between the attention of one layer and of the next.

    One compilation serves all layers and all lengths. Call it before `enable_gradient_checkpointing`. Sampling with a
    cache is not compiled.
    """
    # The lengths of its sequences are Python numbers, for each of which it would be compiled anew.
    AttentionInterface.register(ATTENTION, torch.compiler.disable(attention))
    for name, layer in model.named_modules():
        if isinstance(layer, GradientCheckpointingLayer) and LAYERS in name:
            layer.forward = partial(_forward, torch.compile(layer.forward, dynamic=True), layer.forward)


def _forward(compiled: Callable[..., Any], plain: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return (compiled if kwargs.get("past_key_values") is None else plain)(*args, **kwargs)
