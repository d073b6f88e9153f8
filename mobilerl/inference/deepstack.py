"""What vLLM forgets when it sleeps. Imports torch alone: workers of both engines use it."""

from __future__ import annotations

import torch

DEEPSTACK = "deepstack_input_embeds"
"""Where vLLM's Qwen3-VL keeps the features that its vision tower adds to the first layers: a list of tensors, zero
between requests, of which a request writes and clears no more than it needs."""


@torch.no_grad()
def clear_deepstack(model: torch.nn.Module) -> None:
    """Sleeping gives their memory away, and waking restores only parameters and registered buffers."""
    for module in model.modules():
        for tensor in getattr(module, DEEPSTACK, None) or ():
            tensor.zero_()
