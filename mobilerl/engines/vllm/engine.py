"""The local engine with vLLM as its sampler."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path

import torch

from mobilerl.config import Recipe
from mobilerl.engines.base import Objective, Request
from mobilerl.engines.loading import compute_dtype
from mobilerl.engines.local import LocalEngine
from mobilerl.engines.vllm.sampler import VllmSampler
from mobilerl.engines.vllm.settings import VllmSettings
from mobilerl.engines.vllm.weights import checkpoint_weights
from mobilerl.records import Batch, Completion, Row


def make_vllm_engine(recipe: Recipe, learner: LocalEngine) -> VllmEngine:
    """vLLM beside `learner`, which has the recipe's checkpoint. ConfigError or EngineError where it does not start."""
    asked = recipe.vllm
    dtype = str(compute_dtype()).removeprefix("torch.") if asked.dtype == "auto" else asked.dtype
    settings = VllmSettings(
        tensor_parallel=asked.tensor_parallel, gpu_memory=asked.gpu_memory, max_prompt=asked.max_prompt,
        max_new_tokens=recipe.agent.max_new_tokens, max_images=max(1, recipe.agent.screenshots),
        max_sequences=asked.max_sequences, dtype=dtype, eager=asked.eager, timeout_s=asked.timeout_s,
        seed=recipe.train.seed, threads=recipe.engine.generate_threads or recipe.engine.threads,
    )  # fmt: skip
    return VllmEngine(learner, VllmSampler(Path(recipe.model), learner.codec, settings))


class VllmEngine:
    """A `StreamingEngine`: `learner` scores, learns and saves, `sampler` samples with the published weights.

    Whatever changes the published weights sends them to the sampler before it returns.
    """

    def __init__(self, learner: LocalEngine, sampler: VllmSampler) -> None:
        self.learner, self.sampler = learner, sampler
        self.codec = learner.codec
        self._send()

    @property
    def version(self) -> int:
        return self.learner.version

    def _send(self) -> None:
        model = self.learner.accelerator.unwrap_model(self.learner.model)
        dtype = getattr(torch, self.sampler.settings.dtype)  # what learns may be wider than what samples
        weights = ((name, weight.detach().to(dtype)) for name, weight in checkpoint_weights(model))
        self.sampler.refresh(weights, self.version)

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        return self.sampler.generate(requests)

    def submit(self, request: Request) -> Future[Completion]:
        return self.sampler.submit(request)

    def logprobs(self, rows: Sequence[Row], reference: bool = False) -> list[tuple[float, ...]]:
        return self.learner.logprobs(rows, reference)

    def update(self, batch: Batch, objective: Objective, agg: str) -> dict[str, float]:
        return self.learner.update(batch, objective, agg)

    def publish(self) -> int:
        version = self.learner.publish()
        self._send()
        return version

    def save(self, path: Path) -> None:
        self.learner.save(path)

    def load(self, path: Path) -> None:
        self.learner.load(path)
        self._send()

    def close(self) -> None:
        self.sampler.close()
        self.learner.close()
