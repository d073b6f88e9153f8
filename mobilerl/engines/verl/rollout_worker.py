"""Mixed into the workers of verl's vLLM servers, which import it by name."""

from __future__ import annotations

from typing import Any

import torch
from verl.workers.rollout.vllm_rollout.utils import vLLMColocateWorkerExtension

DEEPSTACK = "deepstack_input_embeds"
"""Where vLLM's Qwen3-VL keeps the features that its vision tower adds to the first layers: a list of tensors, zero
between requests, of which a request writes and clears no more than it needs."""


class RolloutWorker(vLLMColocateWorkerExtension):
    """Gets weights from verl's workers."""

    def update_weights_from_ipc(self, *args: Any, **kwargs: Any) -> None:
        super().update_weights_from_ipc(*args, **kwargs)
        clear_deepstack(self.model_runner.model)  # type: ignore[attr-defined]


@torch.no_grad()
def clear_deepstack(model: torch.nn.Module) -> None:
    """Sleeping gives their memory away, and waking restores only parameters and registered buffers."""
    for module in model.modules():
        for tensor in getattr(module, DEEPSTACK, None) or ():
            tensor.zero_()
