"""The local engine: transformers + accelerate (+ peft), one process, CPU or one GPU."""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError

import torch
from accelerate import Accelerator
from accelerate.utils import AutocastKwargs
from safetensors import SafetensorError
from safetensors.torch import load as read_tensors
from safetensors.torch import save as write_tensors
from torch import Tensor

from mobilerl.engines.base import Objective, Request
from mobilerl.engines.codec import Codec
from mobilerl.engines.defaults import ADAM_BETAS
from mobilerl.engines.loading import add_lora, compute_dtype, load_model
from mobilerl.engines.recompute import recompute_layers
from mobilerl.engines.reference import FirstAdapter
from mobilerl.engines.sampler import length_batches, sample
from mobilerl.engines.scoring import BatchTensors, add_metrics, micro_batches, row_logprobs, warmed_up
from mobilerl.records import Batch, Completion, Row

STATE_FILE = "trainer.pt"


@dataclass(frozen=True, slots=True)
class LocalSettings:
    """`micro_tokens` bounds rows x longest row of a micro-batch; `generate_batch` the rows that are sampled at once,
    and `generate_tokens` rows x longest prompt."""

    learning_rate: float = 1e-4
    weight_decay: float = 0.0
    warmup_steps: int = 0
    grad_clip: float = 1.0
    micro_tokens: int = 16384
    generate_batch: int = 24
    generate_tokens: int = 16384
    generate_threads: int = 0
    """CPU threads while sampling; 0: as many as for everything else."""
    temperature: float = 1.0
    """Of the rollouts: the trainer's log-probabilities are taken at the same temperature."""
    max_pixels: int | None = None
    lora_rank: int = 0
    """0: all weights are trained."""
    reference: bool = False
    """Keep the first weights for a KL anchor."""
    recompute: bool = False
    """Keep only the layers' inputs for the backward pass: far less memory, updates take about a third longer."""


class LocalEngine:
    """Holds a checkpoint of the class of Qwen2.5-VL, Qwen3-VL or GLM-4.1V.

    Trainer and sampler share the weights: publishing costs nothing.
    """

    def __init__(self, path: Path, settings: LocalSettings) -> None:
        self.settings = settings
        self._threads = torch.get_num_threads()
        self.version = 0
        self.steps = 0
        self.codec = Codec.load(path, settings.max_pixels)
        mixed = "bf16" if compute_dtype() == torch.bfloat16 else "no"
        # torch caches casts for all threads: one made while sampling has no gradient, and updates would take it up.
        self.accelerator = Accelerator(mixed_precision=mixed, kwargs_handlers=[AutocastKwargs(cache_enabled=False)])
        # An adapter's folder names that of its base: in full, so that it is found from anywhere.
        model = load_model(path.resolve() if settings.lora_rank else path, learns=not settings.lora_rank)
        if settings.lora_rank and not hasattr(model, "peft_config"):
            model = add_lora(model, settings.lora_rank)
        self._reference = self._freeze(model) if settings.reference else None
        if settings.recompute:
            recompute_layers(model)
        trained = [p for p in model.parameters() if p.requires_grad]
        optimizer = torch.optim.AdamW(trained, lr=settings.learning_rate, betas=ADAM_BETAS,
                                      weight_decay=settings.weight_decay)  # fmt: skip
        self.model, self.optimizer = self.accelerator.prepare(model, optimizer)
        self.device = self.accelerator.device
        self.model.eval()
        # Collection may go on in another thread while the learner updates: weights must not move under a generation.
        self._weights = threading.Lock()

    def _freeze(self, model: torch.nn.Module) -> torch.nn.Module | FirstAdapter:
        """A copy of the first weights; of an adapter and its base, of the adapter alone."""
        if hasattr(model, "peft_config"):
            return FirstAdapter(model)
        return copy.deepcopy(model).eval().requires_grad_(False).to(self.accelerator.device)

    # --- sampling --------------------------------------------------------------------------------------------

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        if len({r.sampling for r in requests}) > 1:
            raise ValueError("requests of one call must share their sampling settings")
        done: dict[int, Completion] = {}
        for part in length_batches(requests, self.settings.generate_batch, self.settings.generate_tokens):
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
        """Steps of single tokens are too small to be worth waking a second thread; updates are not."""
        torch.set_num_threads(self.settings.generate_threads or self._threads)
        try:
            yield
        finally:
            torch.set_num_threads(self._threads)

    # --- scoring ---------------------------------------------------------------------------------------------

    @torch.no_grad()
    def logprobs(self, rows: Sequence[Row], reference: bool = False) -> list[tuple[float, ...]]:
        result: list[tuple[float, ...]] = [()] * len(rows)
        for part in self._micro_batches(rows):
            chosen = [rows[i] for i in part]
            logp, _ = self._reference_logp(chosen) if reference else self._logp(self.model, chosen)
            for i, row, values in zip(part, chosen, logp.tolist(), strict=True):
                result[i] = tuple(values[len(values) - len(row.response_ids) :])
        return result

    def _reference_logp(self, rows: Sequence[Row]) -> tuple[Tensor, Tensor]:
        if self._reference is None:
            raise ValueError("this engine keeps no reference weights; make it with LocalSettings(reference=True)")
        if not isinstance(self._reference, FirstAdapter):
            with self.accelerator.autocast():
                return self._logp(self._reference, rows)
        with self._weights, self._reference.in_place(self.accelerator.unwrap_model(self.model)):
            return self._logp(self.model, rows)

    def _logp(self, model: torch.nn.Module, rows: Sequence[Row]) -> tuple[Tensor, Tensor]:
        return row_logprobs(model, self.codec, rows, self.settings.temperature, self.device)

    # --- learning --------------------------------------------------------------------------------------------

    def update(self, batch: Batch, objective: Objective, agg: str) -> dict[str, float]:
        torch.set_num_threads(self._threads)  # a thread's own setting: this may be another one than sampled
        tensors = BatchTensors.of(batch, agg)
        metrics: dict[str, float] = {}
        self.optimizer.zero_grad()
        for part in self._micro_batches(batch.rows):
            logp, mask = self._logp(self.model, [batch.rows[i] for i in part])
            loss, parts = objective(tensors.micro_batch(part, logp, mask))
            self.accelerator.backward(loss)
            add_metrics(metrics, {"loss": loss.detach(), **parts})
        metrics["grad_norm"] = self._step()
        return metrics

    def _step(self) -> float:
        """Clips, steps, and returns the gradient norm before clipping. A non-finite gradient is not applied."""
        norm = self.accelerator.clip_grad_norm_(self.model.parameters(), self.settings.grad_clip)
        if torch.isfinite(norm):
            self.steps += 1
            rate = warmed_up(self.settings.learning_rate, self.steps, self.settings.warmup_steps)
            for group in self.optimizer.param_groups:
                group["lr"] = rate
            with self._weights:
                self.optimizer.step()
        return float(norm)

    def _micro_batches(self, rows: Sequence[Row]) -> Iterator[list[int]]:
        return micro_batches(rows, self.settings.micro_tokens)

    def close(self) -> None:
        """There is nothing to end: everything is in this process."""

    # --- persistence -----------------------------------------------------------------------------------------

    def publish(self) -> int:
        self.version += 1
        return self.version

    def weights(self) -> bytes:
        trained = self.accelerator.unwrap_model(self.model).named_parameters()
        return write_tensors({name: p.detach().cpu().contiguous() for name, p in trained if p.requires_grad})

    def set_weights(self, data: bytes, version: int) -> None:
        own = dict(self.accelerator.unwrap_model(self.model).named_parameters())
        with self._weights, torch.no_grad():
            for name, value in read_tensors(data).items():
                own[name].copy_(value)
        self.version = version

    def save(self, path: Path) -> None:
        model = self.accelerator.unwrap_model(self.model)
        model.save_pretrained(path)
        # An adapter's folder would have neither, and the codec reads both.
        model.config.save_pretrained(path)
        model.generation_config.save_pretrained(path)
        self.codec.save(path)
        state = {
            "optimizer": self.optimizer.state_dict(),
            "version": self.version,
            "steps": self.steps,
            "rng": torch.get_rng_state(),
            "cuda_rng": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
        }
        with open(path / STATE_FILE, "wb") as f:  # given a path, torch would not say that the disk is full
            torch.save(state, f)

    def load(self, path: Path) -> None:
        with _reading("the model's files"):
            saved = load_model(path, learns=not self.settings.lora_rank).state_dict()
            self.accelerator.unwrap_model(self.model).load_state_dict(saved)
        with _reading(STATE_FILE):
            state = torch.load(path / STATE_FILE, map_location=self.device, weights_only=True)
            self.optimizer.load_state_dict(state["optimizer"])
            self.version, self.steps = state["version"], state["steps"]
            torch.set_rng_state(state["rng"].cpu())
            if state["cuda_rng"]:
                torch.cuda.set_rng_state_all([r.cpu() for r in state["cuda_rng"]])


@contextmanager
def _reading(name: str) -> Iterator[None]:
    """Gives the many errors of a damaged or foreign file one form, a ValueError that names it."""
    try:
        yield
    except (OSError, RuntimeError, ValueError, LookupError, AttributeError, TypeError, EOFError,
            SafetensorError, UnpicklingError) as error:  # fmt: skip
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise ValueError(f"{name} cannot be read ({reason})") from error
