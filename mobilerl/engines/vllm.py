"""The local engine with vLLM as its sampler."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from mobilerl.algorithms.losses.aggregation import Aggregation
from mobilerl.engines.local import LocalEngine, LocalSettings, load_learner, with_adapter
from mobilerl.inference.vllm import VllmSampler
from mobilerl.inference.vllm_adapter import adapted_names, adapter_rank, adapter_refusal, adapter_tensors
from mobilerl.inference.vllm_arguments import AdapterShape, VllmSettings
from mobilerl.inference.vllm_weights import checkpoint_weights
from mobilerl.models.codec import Codec
from mobilerl.models.loading import compute_dtype, load_without_data
from mobilerl.records import Completion, TrainingSample
from mobilerl.records.engine import Objective, Request
from mobilerl.system.terminal import announced

log = logging.getLogger(__name__)
LOADS_BESIDE = torch.cuda.is_available()
"""Whether the learner is loaded, in main memory, while vLLM starts: where vLLM computes in other processes."""
MERGED = "vLLM cannot apply this LoRA adapter (%s): it is merged into all weights at every update, which rounds it"


class VllmEngine(LocalEngine):
    """A `StreamingEngine` whose `sampler` holds the published weights.

    A LoRA adapter is sent alone, for vLLM to apply. Where it cannot, which is decided here, the adapter is merged.
    """

    def __init__(self, path: Path, settings: LocalSettings, vllm: VllmSettings) -> None:
        blank, shape = with_adapter(load_without_data(path), settings), None
        refusal = adapter_refusal(blank) if hasattr(blank, "peft_config") else ""
        if hasattr(blank, "peft_config") and not refusal:
            shape = AdapterShape(adapter_rank(blank), tuple(adapted_names(blank)))
        with ThreadPoolExecutor(1, "loading") as thread:
            loading = thread.submit(self._load_learner, path, settings)
            if not LOADS_BESIDE:
                loading.result()
            with announced("starting vLLM, which compiles and captures CUDA graphs on a GPU"):
                codec = Codec.load(path, settings.max_pixels)
                self.sampler = VllmSampler(path, codec, replace(vllm, adapter=shape))
        try:
            super().__init__(path, settings, loading.result())
        except BaseException:
            self.sampler.close()
            raise
        self._sleeps = bool(vllm.vllm.sleep)
        if shape:
            model = self.accelerator.unwrap_model(self.model)
            refusal = self.sampler.adapter_refusal(adapter_tensors(model, compute_dtype()))
        if refusal:
            log.warning(MERGED, refusal)
        self._sends_adapter = shape is not None and not refusal
        with announced("sending vLLM the weights"):
            self._send()

    @staticmethod
    def _load_learner(path: Path, settings: LocalSettings) -> torch.nn.Module:
        with announced("loading the learner"):
            return load_learner(path, settings)

    def _send(self) -> None:
        """Sends all weights and, apart from them, the adapter."""
        model = self.accelerator.unwrap_model(self.model)
        self._refresh(checkpoint_weights(model, merged=not self._sends_adapter))

    def _refresh(self, weights: Iterable[tuple[str, Tensor]]) -> None:
        # Trained weights may have a higher precision than vLLM's.
        model, dtype = self.accelerator.unwrap_model(self.model), compute_dtype()
        adapter = adapter_tensors(model, dtype) if self._sends_adapter else None
        self.sampler.refresh(_cast(weights, dtype), self.version, adapter)

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        return self.sampler.generate(requests)

    def submit(self, request: Request) -> Future[Completion]:
        return self.sampler.submit(request)

    def logprobs(self, rows: Sequence[TrainingSample], reference: bool = False) -> list[tuple[float, ...]]:
        self._make_room()
        return super().logprobs(rows, reference)

    def update(
        self, samples: Sequence[TrainingSample], objective: Objective, aggregation: Aggregation
    ) -> dict[str, float]:
        self._make_room()
        return super().update(samples, objective, aggregation)

    def _make_room(self) -> None:
        """Frees the sampler's GPU memory for the learner until `publish`."""
        if self._sleeps:
            self.sampler.sleep()

    def publish(self) -> int:
        version = super().publish()
        if self._sends_adapter:  # vLLM has the base weights, which never change
            self._refresh(())
        else:
            self._send()
        return version

    def load(self, path: Path) -> None:
        super().load(path)
        self._send()

    def close(self) -> None:
        self.sampler.close()


def _cast(weights: Iterable[tuple[str, Tensor]], dtype: torch.dtype) -> Iterable[tuple[str, Tensor]]:
    return ((name, weight.detach().to(dtype)) for name, weight in weights)
