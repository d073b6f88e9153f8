"""Extension of the workers of verl's vLLM servers, which import it by name."""

from __future__ import annotations

from typing import Any

from verl.workers.rollout.vllm_rollout.utils import vLLMColocateWorkerExtension

from mobilerl.inference.deepstack import clear_deepstack


class RolloutWorker(vLLMColocateWorkerExtension):
    """Receives weights from verl's workers."""

    def update_weights_from_ipc(self, *args: Any, **kwargs: Any) -> None:
        super().update_weights_from_ipc(*args, **kwargs)
        clear_deepstack(self.model_runner.model)
