"""The sides that learner.py compares: one optimizer step on the same samples, by this project and by TRL.

All sides have the same checkpoint and samples, the same limit on the padded tokens of a micro-batch, AdamW with the
same settings, the same clipped token-mean loss and gradient clipping. All compute pixels from PNGs in every step.

- `mobilerl`: `LocalEngine.update`; `mobilerl-recompute`: with gradient checkpointing.
- `trl`: `GRPOTrainer.training_step` until the optimizer steps, with recorded samples instead of generation. The rest
  is the trainer's: padding to the longest prompt and response, shuffling, splitting, its loss and metrics.
- `trl-recompute`: the same with gradient checkpointing, which is TRL's default.

Memory is what torch allocated: `torch.cuda.max_memory_allocated` on a GPU, else as reported by its profiler in a step
that is not timed. It includes weights, gradients and optimizer state.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from mobilerl.algorithms.losses.aggregation import Aggregation
from mobilerl.algorithms.objectives import clipped
from mobilerl.config.algorithms import ClippedLossSection
from mobilerl.engines.local import LocalEngine, LocalSettings
from mobilerl.models.codec import Codec
from mobilerl.models.loading import load_model
from mobilerl.records import TrainingSample
from mobilerl.records.engine import ADAM_BETAS

AGG: Aggregation = "token-mean"
CLIP = 0.2
GRAD_CLIP = 1.0
RATE = 1e-5


@dataclass(frozen=True, slots=True)
class Update:
    """Inputs of an optimizer step, in full micro-batches of `per_micro` samples."""

    model: Path
    rows: Sequence[TrainingSample]
    advantages: Sequence[float]
    micro_batch_tokens: int
    per_micro: int

    @classmethod
    def of(cls, model: Path, rows: Sequence[TrainingSample], micro_batch_tokens: int) -> Update:
        """Makes an update whose advantages have both signs and are equal within a trajectory."""
        width = max(len(r.prompt_ids) for r in rows) + max(len(r.response_ids) for r in rows)
        per_micro = min(len(rows), max(1, micro_batch_tokens // width))
        rows = rows[: len(rows) // per_micro * per_micro]
        signs = {name: 1.0 if i % 3 else -1.5 for i, name in enumerate(dict.fromkeys(r.trajectory_id for r in rows))}
        return cls(model, rows, [signs[r.trajectory_id] for r in rows], micro_batch_tokens, per_micro)


class Side(Protocol):
    model: torch.nn.Module
    optimizer: Any

    def prepare(self) -> None:
        """Drops the pixels of earlier steps; it is not timed."""

    def update(self) -> float:
        """Takes one optimizer step and returns the gradient norm before clipping."""


class Mobilerl:
    def __init__(self, step: Update, recompute: bool = False) -> None:
        self.step = step
        settings = LocalSettings(
            learning_rate=RATE, micro_batch_tokens=step.micro_batch_tokens, gradient_checkpointing=recompute
        )
        self.engine = LocalEngine(step.model, settings)
        self.model, self.optimizer = self.engine.model, self.engine.optimizer
        self.objective = clipped(ClippedLossSection(clip_low=CLIP, clip_high=CLIP, kl_coef=0.0))

    def prepare(self) -> None:
        self.engine.codec = Codec.load(self.step.model)

    def update(self) -> float:
        rows = self.step.rows
        batch = [replace(r, advantage=a) for r, a in zip(rows, self.step.advantages, strict=True)]
        return self.engine.update(batch, self.objective, AGG)["grad_norm"]


class Trl:
    """TRL's trainer, with gradient checkpointing if `recompute`."""

    def __init__(self, step: Update, recompute: bool = False) -> None:
        from datasets import Dataset
        from trl import GRPOConfig, GRPOTrainer

        side = self

        class Recorded(GRPOTrainer):
            def _generate_and_score_completions(self, inputs: Any) -> dict[str, Any]:
                return side.inputs(self.accelerator.device)

        self.step = step
        micros = len(step.rows) // step.per_micro
        model = load_model(step.model, learns=True)
        model.set_attn_implementation("sdpa")
        optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, betas=ADAM_BETAS, weight_decay=0.0)
        gpu = torch.cuda.is_available()
        self._folder = tempfile.TemporaryDirectory()
        settings = GRPOConfig(
            output_dir=self._folder.name,
            per_device_train_batch_size=step.per_micro,
            num_generations=step.per_micro,
            gradient_accumulation_steps=micros,
            steps_per_generation=micros,
            max_completion_length=64,
            beta=0.0,
            epsilon=CLIP,
            loss_type="dapo",
            gradient_checkpointing=recompute,
            bf16=gpu,
            use_cpu=not gpu,
            report_to="none",
            disable_tqdm=True,
            max_grad_norm=GRAD_CLIP,
        )
        tokenizer = Codec.load(step.model).tokenizer
        self.trainer = Recorded(
            model,
            reward_funcs=_no_reward,
            args=settings,
            train_dataset=Dataset.from_dict({"prompt": ["-"]}),
            processing_class=tokenizer,
            optimizers=(optimizer, None),
        )
        self.trainer.current_gradient_accumulation_steps = micros
        if recompute:  # as `train()` does before its first step
            model.gradient_checkpointing_enable(settings.gradient_checkpointing_kwargs)
        self.model = self.trainer.accelerator.prepare(model).train()
        self.optimizer = optimizer
        self.micros = micros

    def prepare(self) -> None:
        self.codec = Codec.load(self.step.model)

    def update(self) -> float:
        trainer = self.trainer
        self.optimizer.zero_grad()
        for _ in range(self.micros):
            trainer.training_step(self.model, {}, None)
        norm = trainer.accelerator.clip_grad_norm_(self.model.parameters(), GRAD_CLIP)
        self.optimizer.step()
        return float(norm)

    def inputs(self, device: torch.device) -> dict[str, Any]:
        """Inputs as returned by the trainer's own generation: prompts padded on the left, responses on the right."""
        rows = self.step.rows
        prompts = self.codec.collate([r.prompt_ids for r in rows], [r.images for r in rows], pad_left=True)
        responses = self.codec.collate([r.response_ids for r in rows], [()] * len(rows), pad_left=False)
        mask = responses["attention_mask"]
        old = torch.zeros(mask.shape)
        for i, row in enumerate(rows):
            old[i, : len(row.rollout_logprobs)] = torch.tensor(row.rollout_logprobs)
        kinds = torch.cat([prompts["mm_token_type_ids"], responses["mm_token_type_ids"]], dim=1)
        tensors = {
            "prompt_ids": prompts["input_ids"],
            "prompt_mask": prompts["attention_mask"],
            "completion_ids": responses["input_ids"],
            "completion_mask": mask,
            "old_per_token_logps": old,
            "advantages": torch.tensor(self.step.advantages),
            "num_items_in_batch": mask.sum(),
            "mm_token_type_ids": kinds,
            "pixel_values": prompts["pixel_values"],
            "image_grid_thw": prompts["image_grid_thw"],
        }
        return {name: t.to(device) for name, t in tensors.items()} | {"num_images": [len(r.images) for r in rows]}


def _no_reward(prompts: list[str], completions: list[str], **kwargs: object) -> list[float]:
    """Reward function, required by the trainer although the advantages are given."""
    return [0.0] * len(completions)


def make(name: str, step: Update) -> Side:
    kind, _, variant = name.partition("-")
    return (Mobilerl if kind == "mobilerl" else Trl)(step, recompute=bool(variant))


def peak_memory(side: Side) -> float:
    """Megabytes in one more step, including weights and optimizer state."""
    side.optimizer.zero_grad()
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
        side.update()
        return torch.cuda.max_memory_allocated() / 1e6
    state = [v for entry in side.optimizer.state.values() for v in entry.values() if torch.is_tensor(v)]
    return (_bytes(side.model.parameters()) + _bytes(state) + _peak_on_cpu(side)) / 1e6


def _bytes(tensors: Iterable[Tensor]) -> int:
    return sum(t.numel() * t.element_size() for t in tensors)


def _peak_on_cpu(side: Side) -> int:
    """Maximum number of bytes that torch had allocated at any time during an update."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        side.update()
    events = recorded.profiler.kineto_results.events()
    now = peak = 0
    for _, change in sorted((e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]"):
        now += change
        peak = max(peak, now)
    return peak
