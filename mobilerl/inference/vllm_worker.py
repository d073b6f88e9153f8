"""Extension of vLLM's processes: replaces weights and adapters, holds signals, bans image placeholders.

Only vLLM imports it, by name, before a worker builds its model.
"""

from __future__ import annotations

import multiprocessing
import os
import select
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from vllm import _custom_ops as ops
from vllm.config import VllmConfig
from vllm.lora.layers import BaseLayerWithLoRA
from vllm.lora.request import LoRARequest
from vllm.platforms import current_platform
from vllm.v1.sample.logits_processor import BatchUpdate, LogitsProcessor

from mobilerl.inference.deepstack import clear_deepstack
from mobilerl.inference.vllm_adapter import ADAPTER_ID, ADAPTER_NAME
from mobilerl.inference.vllm_weights import read_bucket
from mobilerl.system.child_processes import JOB_SIGNALS

BANNED = "mobilerl_banned_ids"
"""Key of the banned token ids in vLLM's `additional_config`."""
TRAINER_PID = "MOBILERL_TRAINER_PID"
"""Environment variable with the id of the process that uses vLLM."""

if current_platform.is_cpu():
    # oneDNN packs the weights of linear layers when the model is built and drops the originals, so new weights would be
    # rejected, or loaded and never used.
    ops._supports_onednn = False
    # On CPUs with AMX vLLM packs the weights of convolutions, in place.
    torch.cpu._is_amx_tile_supported = lambda: False


def _end_with(trainer: int, parent: int) -> None:
    """Exits with the trainer, so that a killed one leaves no process behind that holds GPU memory."""
    select.select([os.pidfd_open(trainer)], [], [])
    if parent != trainer:
        os.kill(parent, signal.SIGKILL)
    os._exit(1)


if multiprocessing.parent_process() is not None and (trainer := os.environ.get(TRAINER_PID)):
    threading.Thread(target=_end_with, args=(int(trainer), os.getppid()), daemon=True).start()


class WeightLoader:
    """Extension of vLLM's worker class, called on every rank by `collective_rpc`."""

    mobilerl_weights_version = -1
    mobilerl_loaded: frozenset[str] = frozenset()
    """Names of the weights that an update has replaced so far."""

    def mobilerl_load_bucket(
        self, handles: Sequence[bytes], names: Sequence[str], shapes: Sequence[Sequence[int]]
    ) -> None:
        """Replaces the weights in a `Bucket`, of which each rank has a handle. Names are those of Hugging Face."""
        self.mobilerl_weights_version = -1
        model = self.model_runner.get_model()  # type: ignore[attr-defined]
        with _without_adapters(model):
            loaded = model.load_weights(read_bucket(handles[self.rank], names, shapes))  # type: ignore[attr-defined]
        self.mobilerl_loaded |= frozenset(loaded or ())
        if torch.cuda.is_available():
            torch.cuda.synchronize()  # the trainer frees the bucket when this returns

    def mobilerl_finish(self, adapter: str, version: int) -> None:
        """Ends an update that replaces all weights or none, and the adapter by the one in a folder, if any.

        Raises ValueError.
        """
        model = self.model_runner.get_model()  # type: ignore[attr-defined]
        self.mobilerl_weights_version, loaded, self.mobilerl_loaded = -1, self.mobilerl_loaded, frozenset()
        with _without_adapters(model):
            missing = {name for name, _ in model.named_parameters()} - loaded
        if loaded and missing:
            raise ValueError(f"the update lacks {len(missing)} weights, {min(missing)} for one")
        if adapter and (refusal := self.mobilerl_load_adapter(adapter)):
            raise ValueError(refusal)
        clear_deepstack(model)
        self.mobilerl_weights_version = version

    def mobilerl_load_adapter(self, folder: str) -> str:
        """Replaces the adapter by the one in a folder; returns why vLLM cannot apply it to the letter, or nothing."""
        request = LoRARequest(ADAPTER_NAME, ADAPTER_ID, folder, load_inplace=True)
        try:
            self.model_runner.add_lora(request)  # type: ignore[attr-defined]
        except ValueError as error:
            return str(error)
        manager = self.model_runner.lora_manager._adapter_manager  # type: ignore[attr-defined]
        # vLLM ignores what it has no layer for.
        if ignored := manager.get_adapter(ADAPTER_ID).loras.keys() - manager.modules.keys():
            manager.remove_adapter(ADAPTER_ID)
            return f"it adapts nothing in {len(ignored)} modules, {min(ignored)} for one"
        return ""

    def mobilerl_version(self) -> int:
        """Version of the weights; -1 if the last update failed."""
        return self.mobilerl_weights_version

    def mobilerl_obey_signals(self) -> None:
        """Lets SIGTERM, by which vLLM ends this process, through; those that came before are forgotten."""
        while signal.sigpending() & JOB_SIGNALS:
            signal.sigwait(JOB_SIGNALS)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, JOB_SIGNALS)


@contextmanager
def _without_adapters(model: torch.nn.Module) -> Iterator[None]:
    """Takes off the layers in which vLLM wraps adapted ones: its loaders of weights know only the plain names."""
    wrapped = [
        (parent, name, child)
        for parent in model.modules()
        for name, child in parent.named_children()
        if isinstance(child, BaseLayerWithLoRA)
    ]
    for parent, name, child in wrapped:
        setattr(parent, name, child.base_layer)
    try:
        yield
    finally:
        for parent, name, child in wrapped:
            setattr(parent, name, child)


class BannedTokens(LogitsProcessor):
    """Bans image placeholders and other unused ids from being sampled, before temperature scaling."""

    def __init__(self, vllm_config: VllmConfig, device: torch.device, is_pin_memory: bool) -> None:
        self._ids = torch.tensor(vllm_config.additional_config[BANNED], dtype=torch.long, device=device)

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        return logits.index_fill_(1, self._ids, -torch.inf)

    def is_argmax_invariant(self) -> bool:
        return False

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        """Does nothing, since the banned tokens are the same for all requests."""
