"""The local engine with vLLM as its sampler."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path

from mobilerl.algorithms.losses.aggregation import Aggregation
from mobilerl.engines.local import LocalEngine, LocalSettings
from mobilerl.inference.vllm import VllmSampler, VllmSettings, checkpoint_weights
from mobilerl.models.loading import compute_dtype
from mobilerl.records import Completion, TrainingSample
from mobilerl.records.engine import Objective, Request


class VllmEngine(LocalEngine):
    """A `StreamingEngine` whose `sampler` holds the published weights."""

    def __init__(self, path: Path, settings: LocalSettings, vllm: VllmSettings) -> None:
        super().__init__(path, settings)
        self.sampler, self._sleeps = VllmSampler(path, self.codec, vllm), vllm.vllm.sleep
        self._send()

    def _send(self) -> None:
        model = self.accelerator.unwrap_model(self.model)
        # Trained weights may have a higher precision than vLLM's.
        dtype = compute_dtype()
        weights = ((name, weight.detach().to(dtype)) for name, weight in checkpoint_weights(model))
        self.sampler.refresh(weights, self.version, dtype.itemsize * sum(p.numel() for p in model.parameters()))

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
        self._send()
        return version

    def load(self, path: Path) -> None:
        super().load(path)
        self._send()

    def close(self) -> None:
        self.sampler.close()
