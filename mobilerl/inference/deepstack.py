"""Buffers that vLLM loses when it sleeps. Imports only torch, because the workers of both engines use it."""

from __future__ import annotations

import torch

DEEPSTACK = "deepstack_input_embeds"
"""Attribute of vLLM's Qwen3-VL with the features that its vision tower adds to the first layers: a list of tensors that
are zero between requests, since each request clears the part that it wrote."""


@torch.no_grad()
def clear_deepstack(model: torch.nn.Module) -> None:
    """Zeroes the features: sleeping frees their memory, and waking restores only parameters and registered buffers."""
    for module in model.modules():
        for tensor in getattr(module, DEEPSTACK, None) or ():
            tensor.zero_()
