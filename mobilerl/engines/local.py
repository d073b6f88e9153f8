"""The local engine: transformers + accelerate (+ peft), one process, CPU or one GPU."""

from __future__ import annotations

import copy
import math
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from pickle import UnpicklingError
from typing import Literal

import torch
from accelerate import Accelerator
from accelerate.utils import AutocastKwargs
from safetensors import SafetensorError
from safetensors.torch import load as read_tensors
from safetensors.torch import save as write_tensors
from torch import Tensor
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from mobilerl.algorithms.checks import count, finite, load_optimizer
from mobilerl.algorithms.losses.aggregation import Aggregation
from mobilerl.config import EngineSection, OptimizerSection
from mobilerl.config.types import Count, Positive, Rate
from mobilerl.engines.finite import FirstNonFinite
from mobilerl.engines.micro_batch import GpuMemory, MicroBatchSize
from mobilerl.engines.reference import FirstAdapter
from mobilerl.engines.scoring import (
    Metrics,
    make_micro_batch,
    micro_batches,
    response_values,
    sample_logprobs,
    sample_weights,
    warmup_rate,
    with_prepared_images,
)
from mobilerl.inference.local import length_batches, sample
from mobilerl.models import tiny
from mobilerl.models.adapter_folder import is_adapter
from mobilerl.models.adapters import load_adapter, read_adapter_tensors
from mobilerl.models.checkpoint_folder import one_line
from mobilerl.models.codec import Codec
from mobilerl.models.compilation import compile_layers
from mobilerl.models.loading import (
    add_lora,
    compute_dtype,
    enable_gradient_checkpointing,
    freeze_vision,
    load_model,
    save_model,
)
from mobilerl.records import Completion, TrainingSample
from mobilerl.records.engine import ADAM_BETAS, Objective, Request, SkippedStep

STATE_FILE = "trainer.pt"
DAMAGED = (OSError, RuntimeError, ValueError, LookupError, AttributeError, TypeError, EOFError)
GENERATE_ROWS = 128 if torch.cuda.is_available() else 24
"""Maximum number of sequences sampled at once: on a GPU, a token of many takes hardly longer than one of few."""
GENERATE_TOKENS = 16384
"""Maximum number of prompt tokens prefilled at once, padding included."""


class LocalSettings(EngineSection, OptimizerSection):
    """The engine and optimizer settings of a recipe, with those that training adds.

    Code that makes an engine without a recipe trains all weights of any checkpoint by default.
    """

    lora_rank: Count = 0
    gradient_checkpointing: bool = False
    max_pixels: Positive | None = None
    micro_batch_tokens: Positive | Literal["auto"] = 16384
    learning_rate: Rate = 3e-4
    warmup_steps: Count = 10

    temperature: float = 1.0
    """Temperature of rollouts; log-probabilities are computed at the same temperature."""
    reference: bool = False
    """Whether to keep the initial weights as the reference of a KL term."""
    learns: bool = True
    """Whether there will be updates, for which trained weights are in float32."""

    @property
    def learns_all(self) -> bool:
        """Whether all weights are trained."""
        return self.learns and not self.lora_rank

    @classmethod
    def of(
        cls,
        engine: EngineSection,
        optimizer: OptimizerSection | None,
        temperature: float = 1.0,
        reference: bool = False,
    ) -> LocalSettings:
        """Puts together settings of several sections; `optimizer` may be an algorithm's section, which has more.

        Without one the engine does not learn.
        """
        steps = optimizer.model_dump(include=set(OptimizerSection.model_fields)) if optimizer else {"learns": False}
        return cls(**engine.model_dump(), **steps, temperature=temperature, reference=reference)


def load_learner(path: Path, settings: LocalSettings) -> torch.nn.Module:
    """Loads a checkpoint folder with what is to be trained, on the CPU."""
    # An adapter's folder names its base model, so the path has to be absolute.
    return with_adapter(load_model(path.resolve() if settings.lora_rank else path, settings.learns_all), settings)


def with_adapter(model: torch.nn.Module, settings: LocalSettings) -> torch.nn.Module:
    """Adds a LoRA adapter if one is to be trained and the model has none; else freezes the vision tower if asked to."""
    if hasattr(model, "peft_config"):
        return model
    if settings.lora_rank:
        return add_lora(model, settings.lora_rank)
    if settings.freeze_vision:
        freeze_vision(model)
    return model


class LocalEngine:
    """Holds a checkpoint. Training and sampling share the weights."""

    def __init__(self, path: Path, settings: LocalSettings, model: torch.nn.Module | None = None) -> None:
        """Loads the checkpoint folder `path`; `model` is used instead of its weights if given."""
        self.settings = settings
        self._threads = torch.get_num_threads()
        self.version = 0
        self.steps = 0
        self.codec = Codec.load(path, settings.max_pixels, settings.thinking)
        self._is_tiny = tiny.is_tiny(self.codec.tokenizer)
        mixed = "bf16" if compute_dtype() == torch.bfloat16 else "no"
        # torch shares cached casts between threads: updates would use one made while sampling, which has no gradient.
        self.accelerator = Accelerator(mixed_precision=mixed, kwargs_handlers=[AutocastKwargs(cache_enabled=False)])
        model = model or load_learner(path, settings)
        if torch.cuda.is_available():
            # cuDNN's attention makes a plan for every new length, and in sampling every token makes a new length.
            torch.backends.cuda.enable_cudnn_sdp(False)
        self._reference = self._freeze(model) if settings.reference else None
        if settings.compile:
            compile_layers(model)
        if settings.gradient_checkpointing:
            enable_gradient_checkpointing(model)
        trained = [p for p in model.parameters() if p.requires_grad]
        optimizer = torch.optim.AdamW(
            trained,
            lr=settings.learning_rate,
            betas=ADAM_BETAS,
            weight_decay=settings.weight_decay,
            fused=torch.cuda.is_available(),  # avoids temporary copies of all weights
        )
        self.model, self.optimizer = self.accelerator.prepare(model, optimizer)
        self.device = self.accelerator.device
        self.model.eval()
        self.micro_batch = MicroBatchSize(
            settings.micro_batch_tokens, GpuMemory() if self.device.type == "cuda" else None
        )
        # Another thread may sample during an update, and weights must not change during a generation.
        self._weights = threading.Lock()

    def _freeze(self, model: torch.nn.Module) -> torch.nn.Module | FirstAdapter:
        """Copies the initial weights; with LoRA, only those of the adapter."""
        if hasattr(model, "peft_config"):
            return FirstAdapter(model)
        return copy.deepcopy(model).eval().requires_grad_(False).to(self.accelerator.device)

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        if len({r.sampling for r in requests}) > 1:
            raise ValueError("requests of one call must share their sampling settings")
        done: dict[int, Completion] = {}
        for part in length_batches(requests, GENERATE_ROWS, GENERATE_TOKENS):
            with self._weights, self._few_threads():
                version = self.version
                model = self.accelerator.unwrap_model(self.model)
                drawn = sample(model, self.codec, [requests[i] for i in part], self.device)
            for i, s in zip(part, drawn, strict=True):
                text = self.codec.decode(s.ids)
                done[i] = Completion(requests[i].prompt_ids, tuple(s.ids), tuple(s.logprobs), version, text)
        return [done[i] for i in range(len(requests))]

    @contextmanager
    def _few_threads(self) -> Iterator[None]:
        """Limits torch's threads: a second one would slow down decoding of a tiny model."""
        torch.set_num_threads(1 if self._is_tiny else self._threads)
        try:
            yield
        finally:
            torch.set_num_threads(self._threads)

    @torch.no_grad()
    def logprobs(self, rows: Sequence[TrainingSample], reference: bool = False) -> list[tuple[float, ...]]:
        result: list[tuple[float, ...]] = [()] * len(rows)
        for part in self._prepared(rows, micro_batches(rows, self.micro_batch.tokens)):
            chosen = [rows[i] for i in part]
            logp, _ = self._reference_logp(chosen) if reference else self._logp(self.model, chosen)
            for i, values in zip(part, response_values(chosen, logp), strict=True):
                result[i] = values
        return result

    def _reference_logp(self, rows: Sequence[TrainingSample]) -> tuple[Tensor, Tensor]:
        if self._reference is None:
            raise ValueError("this engine keeps no reference weights; make it with LocalSettings(reference=True)")
        if not isinstance(self._reference, FirstAdapter):
            with self.accelerator.autocast():
                return self._logp(self._reference, rows)
        with self._weights, self._reference.in_place(self.accelerator.unwrap_model(self.model)):
            return self._logp(self.model, rows)

    def _prepared(self, rows: Sequence[TrainingSample], parts: Iterable[list[int]]) -> Iterator[list[int]]:
        return with_prepared_images(self.codec, rows, parts)

    def _logp(self, model: torch.nn.Module, rows: Sequence[TrainingSample]) -> tuple[Tensor, Tensor]:
        return sample_logprobs(model, self.codec, rows, self.settings.temperature, self.device)

    def update(
        self, samples: Sequence[TrainingSample], objective: Objective, aggregation: Aggregation
    ) -> dict[str, float]:
        torch.set_num_threads(self._threads)  # set per thread
        weights = sample_weights(samples, aggregation)
        parts, watch = Metrics(), FirstNonFinite()
        objective = watch.watching(objective)
        self.optimizer.zero_grad()
        for split in self.micro_batch.split(samples, self._unallocated()):
            for index in self._prepared(samples, split):
                part = [samples[i] for i in index]
                logp, mask = self._logp(self.model, part)
                loss, measured = objective(make_micro_batch(part, weights[index], logp, mask, self.version))
                self.accelerator.backward(loss)
                parts.add({"loss": loss, **measured})
        metrics = parts.total()
        metrics["grad_norm"] = self._step(metrics["loss"], watch)
        metrics["learning_rate"] = self.optimizer.param_groups[0]["lr"]
        return metrics

    def _unallocated(self) -> int:
        """Bytes of the optimizer's state before it has any: two moments of four bytes."""
        return 0 if self.steps else 8 * sum(p.numel() for p in self.model.parameters() if p.requires_grad)

    def _step(self, loss: float, watch: FirstNonFinite) -> float:
        """Clips the gradient, steps, and returns the norm before clipping. Raises SkippedStep."""
        parameters = list(self.model.parameters())
        norm = get_total_norm([p.grad for p in parameters if p.grad is not None])
        if not (math.isfinite(loss) and torch.isfinite(norm)):
            watch.gradients(self.accelerator.unwrap_model(self.model).named_parameters())
            raise SkippedStep(watch.name or "the norm of the gradient")
        clip_grads_with_norm_(parameters, self.settings.grad_clip, norm)
        self.steps += 1
        rate = warmup_rate(self.settings.learning_rate, self.steps, self.settings.warmup_steps)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        with self._weights:
            self.optimizer.step()
        return float(norm)

    def close(self) -> None:
        """Does nothing, since everything is in this process."""

    def publish(self) -> int:
        self.version += 1
        return self.version

    def weights(self) -> bytes:
        """Serializes the trained weights as safetensors for a copy of this engine in another process."""
        trained = self.accelerator.unwrap_model(self.model).named_parameters()
        return write_tensors({name: p.detach().cpu().contiguous() for name, p in trained if p.requires_grad})

    def set_weights(self, data: bytes, version: int) -> None:
        """Loads the `weights` of the engine that this one is a copy of."""
        own = dict(self.accelerator.unwrap_model(self.model).named_parameters())
        with self._weights, torch.no_grad():
            for name, value in read_tensors(data).items():
                own[name].copy_(value)
        self.version = version

    def save(self, path: Path) -> None:
        save_model(self.accelerator.unwrap_model(self.model), self.codec, path)
        state = {
            "optimizer": self.optimizer.state_dict(),
            "version": self.version,
            "steps": self.steps,
            "micro_batch_tokens": self.micro_batch.tokens,
            "rng": torch.get_rng_state(),
            "cuda_rng": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
        }
        with open(path / STATE_FILE, "wb") as f:  # torch does not report a full disk if it opens the file itself
            torch.save(state, f)

    def _load_weights(self, path: Path) -> None:
        model = self.accelerator.unwrap_model(self.model)
        if is_adapter(path):  # its base model is in place, and may no longer be where the adapter was trained
            saved = read_adapter_tensors(path, model)
            finite(saved)
            load_adapter(model, path, saved)
        else:
            saved = load_model(path, self.settings.learns_all).state_dict()
            finite(saved)
            model.load_state_dict(saved)

    def load(self, path: Path) -> None:
        with _reading("the model's files"):
            self._load_weights(path)
        with _reading(STATE_FILE):
            state = torch.load(path / STATE_FILE, map_location=self.device, weights_only=True)
            version, steps = (count(name, state[name]) for name in ("version", "steps"))
            load_optimizer(self.optimizer, state["optimizer"], stepped=steps > 0)
            self.version, self.steps = version, steps
            if "micro_batch_tokens" in state:
                self.micro_batch.restore(count("micro_batch_tokens", state["micro_batch_tokens"]))
            torch.set_rng_state(state["rng"].cpu())
            if state["cuda_rng"]:
                torch.cuda.set_rng_state_all([r.cpu() for r in state["cuda_rng"]])


@contextmanager
def _reading(name: str) -> Iterator[None]:
    """Turns the various errors of a damaged or foreign file into a ValueError that names it."""
    try:
        yield
    except (*DAMAGED, SafetensorError, UnpicklingError) as error:
        raise ValueError(f"{name} cannot be read ({one_line(error)})") from error
