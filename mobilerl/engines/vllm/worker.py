"""What runs inside vLLM's workers: weights are swapped in place, and placeholders of images cannot come out.

Imported by vLLM alone, by name, before a worker makes its model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from safetensors import safe_open
from vllm import _custom_ops as ops
from vllm.config import VllmConfig
from vllm.platforms import current_platform
from vllm.v1.sample.logits_processor import BatchUpdate, LogitsProcessor

BANNED = "mobilerl_banned_ids"
"""Key of the ids in vLLM's `additional_config`."""

if current_platform.is_cpu():
    # oneDNN packs the weights of linear layers when the model is made and drops the originals: new ones would then
    # find nothing to go to, or be loaded and never used.
    ops._supports_onednn = False


class WeightLoader:
    """Mixed into vLLM's worker class; called on every rank by `collective_rpc`."""

    mobilerl_weights_version = -1

    def mobilerl_load_weights(self, paths: Sequence[str], version: int) -> None:
        """Replaces every weight by those in safetensors files under their Hugging Face names."""
        self.mobilerl_weights_version = -1
        model = self.model_runner.get_model()  # type: ignore[attr-defined]
        loaded = model.load_weights(_tensors(paths))
        if loaded is not None and (missing := {name for name, _ in model.named_parameters()} - loaded):
            raise ValueError(f"the update lacks {len(missing)} weights, {min(missing)} for one")
        self.mobilerl_weights_version = version

    def mobilerl_version(self) -> int:
        """Of the weights that were loaded last; -1 when that failed."""
        return self.mobilerl_weights_version


def _tensors(paths: Sequence[str]) -> Iterator[tuple[str, torch.Tensor]]:
    for path in paths:
        with safe_open(path, "pt") as file:
            for name in file.keys():  # noqa: SIM118 - no mapping
                yield name, file.get_tensor(name)


class BannedTokens(LogitsProcessor):
    """Takes the tokens that stand for images out of every distribution, before temperature."""

    def __init__(self, vllm_config: VllmConfig, device: torch.device, is_pin_memory: bool) -> None:
        self._ids = torch.tensor(vllm_config.additional_config[BANNED], dtype=torch.long, device=device)

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        return logits.index_fill_(1, self._ids, -torch.inf)

    def is_argmax_invariant(self) -> bool:
        return False

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        """The same for every request: there is no state."""
