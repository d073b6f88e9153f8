"""The interface of an engine, which samples, scores, updates, publishes and saves. It does not know the algorithm.

An algorithm is passed to an engine as an `Objective`, a function of the tensors of a micro-batch. Engines contain no
formulas; they pass the same tensors to all objectives.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from mobilerl.records import Completion, Objective, TrainingSample

if TYPE_CHECKING:
    from mobilerl.algorithms.losses.aggregation import Aggregation
    from mobilerl.models.codec import Codec


ADAM_BETAS = (0.9, 0.98)
"""AdamW's betas in every engine."""


ANSWER_END = "</answer>"
"""Tag that ends a response in mobilerl's own format."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """Sampling settings. `temperature` 0 is greedy. There is no top-p or penalty, so that training matches rollout."""

    temperature: float = 1.0
    max_new_tokens: int = 64
    stop: tuple[str, ...] = (ANSWER_END,)
    """Stop strings for a model server; an engine samples up to the end token."""


@dataclass(frozen=True, slots=True)
class Request:
    """One model call: the token-exact prompt and PNGs in the order of their placeholders."""

    prompt_ids: tuple[int, ...]
    images: tuple[bytes, ...]
    sampling: Sampling


class EngineError(RuntimeError):
    """The processes of an engine failed or stopped responding. The run ends; its last checkpoint is intact."""


class SkippedStep(ArithmeticError):
    """An engine did not apply an optimizer step. The message names the first quantity of it that was not finite."""


class Engine(Protocol):
    """Weights, their optimizer and a sampler."""

    version: int
    """Number of published updates."""
    codec: Codec
    """Turns messages and screenshots into prompts; thread-safe."""

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        """Samples a completion for each request. Image placeholders are never sampled."""

    def logprobs(self, rows: Sequence[TrainingSample], reference: bool = False) -> list[tuple[float, ...]]:
        """Log-probabilities of the response tokens under the current weights or the frozen reference model."""

    def update(
        self, samples: Sequence[TrainingSample], objective: Objective, aggregation: Aggregation
    ) -> dict[str, float]:
        """Takes one optimizer step; returns metrics. `aggregation` is a mode of `losses.aggregation_weights`.

        Raises SkippedStep, with the weights and the optimizer as before, if loss or gradient are not finite.
        """

    def publish(self) -> int:
        """Makes `generate` sample from the current weights and returns their version."""

    def save(self, path: Path) -> None:
        """Writes a Hugging Face model folder, including optimizer and RNG state."""

    def load(self, path: Path) -> None:
        """Restores a saved state exactly. Raises OSError or ValueError naming a file that cannot be used, and
        EngineError if the files are fine but do not fit this run."""

    def close(self) -> None:
        """Ends the processes that the engine started. It cannot be used afterwards."""


@runtime_checkable
class StreamingEngine(Engine, Protocol):
    """An engine whose sampler batches requests by itself as they arrive."""

    def submit(self, request: Request) -> Future[Completion]:
        """Starts sampling. Thread-safe, but it may block (to prepare images or send weights), so do not call it in an
        event loop's thread. Raises EngineError, here or through the future, which may be cancelled.
        """
