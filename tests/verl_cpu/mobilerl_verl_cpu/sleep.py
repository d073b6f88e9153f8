"""What a vLLM worker looks like after a sleep of level 2, which only GPUs have."""

from __future__ import annotations

from typing import Any

from mobilerl.engines.verl.rollout_worker import RolloutWorker
from mobilerl.inference.deepstack import DEEPSTACK


class Slept(RolloutWorker):
    """Tensors that are neither parameters nor buffers hold what was in that memory before."""

    def update_weights_from_ipc(self, *args: Any, **kwargs: Any) -> None:
        for module in self.model_runner.model.modules():  # type: ignore[attr-defined]
            for tensor in getattr(module, DEEPSTACK, None) or ():
                tensor.fill_(3.0)
        super().update_weights_from_ipc(*args, **kwargs)
