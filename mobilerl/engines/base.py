"""The contract of an engine: it samples, scores, learns, publishes, saves. It knows no algorithm.

An algorithm reaches an engine as an `Objective`: a function of the tensors of a micro-batch. Engines must not restate
a formula; they give every objective the same tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from mobilerl.records import Batch, Completion, Row

if TYPE_CHECKING:
    from torch import Tensor

    from mobilerl.engines.codec import Codec


@dataclass(frozen=True, slots=True)
class Sampling:
    """`temperature` 0 is greedy. Nothing else reshapes the distribution, so that trainer and rollout agree."""

    temperature: float = 1.0
    max_new_tokens: int = 64


@dataclass(frozen=True, slots=True)
class Request:
    """One model call to be sampled: token-exact prompt, PNGs in the order of their placeholders."""

    prompt_ids: tuple[int, ...]
    images: tuple[bytes, ...]
    sampling: Sampling


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """What an objective sees of R rows whose responses are at most L tokens long.

    `mask` is 1.0 on response tokens; log-probabilities are 0 elsewhere. `weights` is this micro-batch's part of the
    aggregation weights, which sum to 1 over the whole optimiser step: a loss is `sum(weights * per_token)`.
    """

    logp: Tensor
    """(R, L) under the current weights, with gradient."""
    old_logp: Tensor
    """(R, L) under the weights the clipping compares with."""
    rollout_logp: Tensor
    """(R, L) as the sampler reported them."""
    ref_logp: Tensor | None
    """(R, L) under the frozen reference, when the objective asked for one."""
    advantage: Tensor
    """(R,)"""
    older: Tensor
    """(R,) bool: not drawn by the weights that this iteration began with: replayed, or collected ahead of learning."""
    mask: Tensor
    weights: Tensor


Objective = Callable[[MicroBatch], tuple["Tensor", Mapping[str, "Tensor"]]]
"""(loss, metrics). Metrics add up over micro-batches, except those ending in `_max`, of which the largest is kept."""


class EngineError(RuntimeError):
    """An engine's processes failed or stopped answering. The run ends; its last checkpoint is whole."""


class Engine(Protocol):
    """Weights, their optimiser and a sampler."""

    version: int
    """Counts published updates."""
    codec: Codec
    """Turns messages and screenshots into the prompts this engine takes; any thread may use it."""

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        """Samples every request. Placeholder ids of images can never come out."""

    def logprobs(self, rows: Sequence[Row], reference: bool = False) -> list[tuple[float, ...]]:
        """Per response token, under the current weights or the frozen reference."""

    def update(self, batch: Batch, objective: Objective, agg: str) -> dict[str, float]:
        """One optimiser step on all rows. `agg` is the aggregation of `losses.aggregation_weights`."""

    def publish(self) -> int:
        """Makes the current weights those that `generate` samples from; returns the new version."""

    def save(self, path: Path) -> None:
        """Writes a Hugging Face model folder with the optimiser's and the RNG's state beside it."""

    def load(self, path: Path) -> None:
        """Restores what `save` wrote, bit for bit. OSError or ValueError name the file that cannot be used."""

    def close(self) -> None:
        """Ends the processes the engine started. It is of no use afterwards."""


class CopiedEngine(Engine, Protocol):
    """One that worker processes can have copies of, to sample with."""

    def weights(self) -> bytes:
        """The trained weights as safetensors."""

    def set_weights(self, data: bytes, version: int) -> None:
        """Takes over the weights of the engine this one is a copy of."""


@runtime_checkable
class StreamingEngine(Engine, Protocol):
    """One whose sampler batches by itself: requests are given to it as they come."""

    def submit(self, request: Request) -> Future[Completion]:
        """Starts sampling. Any thread may call it but an event loop's, since it may block: pictures are made, or
        weights sent first. When the sampler is lost, it or the future raises EngineError. A future may be cancelled.
        """
