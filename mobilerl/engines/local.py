"""The local engine: transformers + accelerate (+ peft), one process, CPU or one GPU."""

from __future__ import annotations

import copy
import math
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError

import torch
from accelerate import Accelerator
from safetensors import SafetensorError
from safetensors.torch import load as read_tensors
from safetensors.torch import save as write_tensors
from torch import Tensor
from transformers import AutoModelForImageTextToText

from mobilerl.algorithms.losses import aggregation_weights
from mobilerl.engines.base import MicroBatch, Objective, Request
from mobilerl.engines.codec import Codec
from mobilerl.engines.sampler import length_batches, sample
from mobilerl.records import Batch, Completion, Row

STATE_FILE = "trainer.pt"
ADAPTER_FILE = "adapter_config.json"


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
        self.accelerator = Accelerator(mixed_precision="bf16" if torch.cuda.is_available() else "no")
        model = load_model(path)
        if settings.lora_rank and not hasattr(model, "peft_config"):
            model = add_lora(model, settings.lora_rank)
        self._reference = self._freeze(model) if settings.reference else None
        trained = [p for p in model.parameters() if p.requires_grad]
        optimizer = torch.optim.AdamW(trained, lr=settings.learning_rate, betas=(0.9, 0.98),
                                      weight_decay=settings.weight_decay)  # fmt: skip
        self.model, self.optimizer = self.accelerator.prepare(model, optimizer)
        self.device = self.accelerator.device
        self.model.eval()
        # Collection may go on in another thread while the learner updates: weights must not move under a generation.
        self._weights = threading.Lock()

    def _freeze(self, model: torch.nn.Module) -> torch.nn.Module | None:
        """A copy of the first weights; with LoRA the base under the adapter serves, at no memory."""
        if hasattr(model, "peft_config"):
            return None
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
        if self._reference is not None:
            return self._logp(self._reference, rows)
        if not self.settings.lora_rank:
            raise ValueError("this engine keeps no reference weights; make it with LocalSettings(reference=True)")
        with self.accelerator.unwrap_model(self.model).disable_adapter():
            return self._logp(self.model, rows)

    def _logp(self, model: torch.nn.Module, rows: Sequence[Row]) -> tuple[Tensor, Tensor]:
        """(R, L) log-probabilities and mask. Responses end at the last column: rows are padded on the left."""
        inputs = self.codec.collate(
            [r.prompt_ids + r.response_ids for r in rows], [r.images for r in rows], pad_left=True, device=self.device
        )
        longest = max(len(r.response_ids) for r in rows)
        logits = model(**inputs, logits_to_keep=longest + 1).logits[:, :-1].float()
        logits = logits / self.settings.temperature
        logits[..., list(self.codec.banned_ids)] = torch.finfo(logits.dtype).min
        targets = inputs["input_ids"][:, -longest:]
        logp = logits.gather(-1, targets.unsqueeze(-1)).squeeze(-1) - logits.logsumexp(-1)
        mask = _pad([[1.0] * len(r.response_ids) for r in rows], longest).to(self.device)
        return logp * mask, mask

    # --- learning --------------------------------------------------------------------------------------------

    def update(self, batch: Batch, objective: Objective, agg: str) -> dict[str, float]:
        torch.set_num_threads(self._threads)  # a thread's own setting: this may be another one than sampled
        rows, device = batch.rows, self.device
        longest = max(len(r.response_ids) for r in rows)
        mask = _pad([[1.0] * len(r.response_ids) for r in rows], longest).to(device)
        # One that is replayed beside its fresh self is two: else chance would set its weight.
        plays = [(r.trajectory_id, again) for r, again in zip(rows, batch.replayed, strict=True)]
        ids = {play: i for i, play in enumerate(dict.fromkeys(plays))}
        trajectory = torch.tensor([ids[play] for play in plays], device=device)
        weights = aggregation_weights(mask, agg, trajectory)
        rollout = _pad([r.rollout_logprobs for r in rows], longest).to(device)
        old = rollout if batch.old_logprobs is None else _pad(batch.old_logprobs, longest).to(device)
        ref = None if batch.ref_logprobs is None else _pad(batch.ref_logprobs, longest).to(device)
        advantage = torch.tensor(batch.advantages, dtype=torch.float32, device=device)
        replayed = torch.tensor(batch.replayed, device=device)

        metrics: dict[str, float] = {}
        self.optimizer.zero_grad()
        for part in self._micro_batches(rows):
            logp, part_mask = self._logp(self.model, [rows[i] for i in part])
            width = logp.shape[1]
            cut = lambda t, part=part, width=width: t[part][:, longest - width :]  # noqa: E731
            micro = MicroBatch(logp, cut(old), cut(rollout), None if ref is None else cut(ref), advantage[part],
                               replayed[part], part_mask, cut(weights))  # fmt: skip
            loss, parts = objective(micro)
            self.accelerator.backward(loss)
            _accumulate(metrics, {"loss": loss.detach(), **parts})
        metrics["grad_norm"] = self._step()
        return metrics

    def _step(self) -> float:
        """Clips, steps, and returns the gradient norm before clipping. A non-finite gradient is not applied."""
        norm = self.accelerator.clip_grad_norm_(self.model.parameters(), self.settings.grad_clip)
        if torch.isfinite(norm):
            self.steps += 1
            warm = min(1.0, self.steps / self.settings.warmup_steps) if self.settings.warmup_steps else 1.0
            for group in self.optimizer.param_groups:
                group["lr"] = self.settings.learning_rate * warm
            with self._weights:
                self.optimizer.step()
        return float(norm)

    def _micro_batches(self, rows: Sequence[Row]) -> Iterator[list[int]]:
        """Indices of rows of similar length, at most `micro_tokens` padded tokens each."""
        lengths = [len(r.prompt_ids) + len(r.response_ids) for r in rows]
        part: list[int] = []
        for i in sorted(range(len(rows)), key=lambda i: -lengths[i]):
            if part and (len(part) + 1) * lengths[part[0]] > self.settings.micro_tokens:
                yield part
                part = []
            part.append(i)
        if part:
            yield part

    # --- persistence -----------------------------------------------------------------------------------------

    def publish(self) -> int:
        self.version += 1
        return self.version

    def weights(self) -> bytes:
        trained = self.accelerator.unwrap_model(self.model).named_parameters()
        return write_tensors({name: p.detach().cpu().contiguous() for name, p in trained if p.requires_grad})

    def set_weights(self, data: bytes, version: int) -> None:
        own = dict(self.accelerator.unwrap_model(self.model).named_parameters())
        with torch.no_grad():
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
            saved = load_model(path).state_dict()
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


def load_model(path: Path) -> torch.nn.Module:
    """A checkpoint folder of full weights, or of a LoRA adapter (whose base it names)."""
    dtype = torch.bfloat16 if torch.cuda.is_available() else torch.float32
    if (path / ADAPTER_FILE).is_file():
        from peft import AutoPeftModel

        return AutoPeftModel.from_pretrained(path, is_trainable=True, dtype=dtype)
    return AutoModelForImageTextToText.from_pretrained(path, dtype=dtype, attn_implementation="sdpa")


def add_lora(model: torch.nn.Module, rank: int) -> torch.nn.Module:
    """Adapters on every linear layer of the language model; the vision tower stays frozen."""
    from peft import LoraConfig, get_peft_model

    targets = r".*language_model.*\.(q_proj|k_proj|v_proj|o_proj|gate_proj|up_proj|gate_up_proj|down_proj)"
    return get_peft_model(model, LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=targets))


def _pad(values: Sequence[Sequence[float]], width: int) -> Tensor:
    """(R, width) float32, each row at the right edge."""
    out = torch.zeros(len(values), width)
    for i, row in enumerate(values):
        if len(row):
            out[i, width - len(row) :] = torch.tensor(row)
    return out


def _accumulate(total: dict[str, float], parts: dict[str, Tensor]) -> None:
    for name, value in parts.items():
        if name.endswith("_max"):
            total[name] = max(total.get(name, -math.inf), float(value))
        else:
            total[name] = total.get(name, 0.0) + float(value)
