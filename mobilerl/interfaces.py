"""The interface of an engine: it samples, scores, updates, publishes and saves. It knows no algorithm.

An algorithm reaches an engine as an `Objective`, a function of the tensors of a micro-batch. Engines contain no
formula; they give every objective the same tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from mobilerl.records import Completion, Objective, TrainingSample

if TYPE_CHECKING:
    from mobilerl.models.codec import Codec


ADAM_BETAS = (0.9, 0.98)
"""AdamW's betas in every engine."""


ANSWER_END = "</answer>"
"""Ends a reply in mobilerl's own format."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """`temperature` 0 is greedy. There is no top-p or penalty, so that training and rollout agree."""

    temperature: float = 1.0
    max_new_tokens: int = 64
    stop: tuple[str, ...] = (ANSWER_END,)
    """Texts at which a model server ends a reply; an engine samples up to the end token."""


@dataclass(frozen=True, slots=True)
class Request:
    """One model call: token-exact prompt, PNGs in the order of their placeholders."""

    prompt_ids: tuple[int, ...]
    images: tuple[bytes, ...]
    sampling: Sampling


class EngineError(RuntimeError):
    """An engine's processes failed or stopped answering. The run ends; its last checkpoint is intact."""


class Engine(Protocol):
    """Weights, their optimizer and a sampler."""

    version: int
    """Number of published updates."""
    codec: Codec
    """Turns messages and screenshots into prompts; thread-safe."""

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        """Samples every request. Image placeholders are never sampled."""

    def logprobs(self, rows: Sequence[TrainingSample], reference: bool = False) -> list[tuple[float, ...]]:
        """Per response token, under the current weights or the frozen reference."""

    def update(self, samples: Sequence[TrainingSample], objective: Objective, aggregation: str) -> dict[str, float]:
        """One optimizer step on all rows. `agg` is the mode of `losses.aggregation_weights`."""

    def publish(self) -> int:
        """Makes `generate` sample from the current weights; returns their version."""

    def save(self, path: Path) -> None:
        """Writes a Hugging Face model folder with optimizer and RNG state."""

    def load(self, path: Path) -> None:
        """Restores a saved state exactly. OSError or ValueError name the file that cannot be used."""

    def close(self) -> None:
        """Ends the processes the engine started. It cannot be used afterwards."""


@runtime_checkable
class StreamingEngine(Engine, Protocol):
    """An engine whose sampler forms batches itself from requests as they arrive."""

    def submit(self, request: Request) -> Future[Completion]:
        """Starts sampling. Thread-safe, but may block (images are prepared, weights sent first), so not for an event
        loop's thread. A lost sampler raises EngineError here or in the future. A future may be cancelled.
        """
