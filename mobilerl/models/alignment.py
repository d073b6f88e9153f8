"""Vision towers whose MLPs have an inner width that GPUs multiply slowly: Qwen2.5-VL's is 3,420.

Tensor cores read rows of 16 bytes, or 8 numbers in bfloat16; for other widths cuBLAS falls back to kernels that take
several times as long.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear, pad

MULTIPLE = 8


def align_vision_mlps(model: torch.nn.Module) -> None:
    """Pads the weights of gated vision MLPs with zeros as they compute. Results and stored weights do not change."""
    for name, module in model.named_modules():
        if "visual." in name and hasattr(module, "gate_proj") and module.gate_proj.out_features % MULTIPLE:
            module.forward = partial(_forward_padded, module)


def _forward_padded(mlp: Any, hidden: Tensor) -> Tensor:
    """down(act(gate(x)) * up(x)); the added columns are act(0) * 0 = 0."""
    more = -mlp.gate_proj.out_features % MULTIPLE
    gate, up = (_forward_widened(layer, hidden, more) for layer in (mlp.gate_proj, mlp.up_proj))
    return linear(mlp.act_fn(gate) * up, pad(mlp.down_proj.weight, (0, more)), mlp.down_proj.bias)


def _forward_widened(layer: torch.nn.Linear, hidden: Tensor, more: int) -> Tensor:
    bias = None if layer.bias is None else pad(layer.bias, (0, more))
    return linear(hidden, pad(layer.weight, (0, 0, 0, more)), bias)
