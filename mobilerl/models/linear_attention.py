"""Linear attention (Qwen3.5) within packed rows, whose samples must not pass on their states to each other.

Only these layers are affected, so rows stay packed elsewhere. Here they are computed side by side, padded on the right,
where padding reaches no token before it; rows of a micro-batch are of similar length. With the kernels of the packages
flash-linear-attention and causal-conv1d, which take the lengths of packed samples, nothing is padded.
"""

from __future__ import annotations

from functools import partial
from inspect import signature
from typing import Any

import torch
import transformers
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from mobilerl.config import ConfigError
from mobilerl.models.attention import Sequences

LINEAR = "linear_attention"
"""Name of such layers in `layer_types` of a config."""


def has_linear_attention(config: Any) -> bool:
    """Whether a model, by transformers' config, has layers with linear attention."""
    return LINEAR in (getattr(config.get_text_config(), "layer_types", None) or ())


def separate_rows(model: torch.nn.Module) -> None:
    """Makes the linear attention of a new model compute each of the `sequences` of a packed row by itself.

    Raises ConfigError with a version of transformers that does not tell these layers of the sequences.
    """
    for name, module in model.named_modules():
        if name.endswith(".linear_attn"):
            if "kwargs" not in signature(module.forward).parameters:
                raise ConfigError(f"linear attention needs transformers 5.9 or later, not {transformers.__version__}")
            module.forward = partial(_forward_separated, module, module.forward)


def takes_lengths(module: torch.nn.Module, hidden: Tensor) -> bool:
    """Whether the layer computes with kernels that take the lengths of packed samples, and that need a GPU.

    Where they are not installed, transformers' own functions are in their places, or none.
    """
    kernels = [getattr(module, name, None) for name in ("causal_conv1d_fn", "chunk_gated_delta_rule")]
    return hidden.is_cuda and not any(k is None or k.__module__.startswith("transformers.") for k in kernels)


def _forward_separated(
    module: torch.nn.Module, forward: Any, hidden_states: Tensor, sequences: Sequences | None = None, **kwargs: Any
) -> Tensor:
    """(B, L, size) -> (B, L, size), with B = 1 for packed `sequences`."""
    if sequences is None:
        return forward(hidden_states, **kwargs)
    if takes_lengths(module, hidden_states):
        device = hidden_states.device
        return forward(hidden_states, cu_seq_lens_q=sequences.ends(device), seq_idx=sequences.numbers(device))
    rows = pad_sequence(hidden_states[0].split(sequences.lengths), batch_first=True)
    return torch.cat([row[:n] for row, n in zip(forward(rows), sequences.lengths, strict=True)]).unsqueeze(0)
