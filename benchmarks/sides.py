"""What `benchmarks.learner` compares: one optimiser step on recorded rows, by this project and by others.

Every side takes the same checkpoint and rows, the same bound on the padded tokens of a micro-batch, AdamW with the same
settings, and clips the same token-mean loss and the same gradient norm. It makes the pixels from PNGs in each step,
since rows are recorded as PNGs. Sides:

- `mobilerl`: `LocalEngine.update`; `mobilerl-recompute`: with its layers recomputed in the backward pass.
- `trl`: `GRPOTrainer.training_step` until the optimiser steps, with generation replaced by the recorded rows.
  Everything else is the trainer's: padding to the longest prompt and reply, shuffling, splitting, its loss and metrics.
- `trl-recompute`: the same with gradient checkpointing, which is TRL's default.
- `hf`: a plain loop: rows as they come, padded to the longest of their micro-batch, logits for every position.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from mobilerl.algorithms.losses import aggregation_weights, clipped_policy_loss
from mobilerl.config import LossSection
from mobilerl.engines.codec import Codec
from mobilerl.engines.defaults import ADAM_BETAS
from mobilerl.engines.loading import compute_dtype, load_model
from mobilerl.engines.local import LocalEngine, LocalSettings
from mobilerl.records import Batch, Row
from mobilerl.train.objectives import clipped

AGG = "token-mean"
CLIP = 0.2
NORM = 1.0
RATE = 1e-5


@dataclass(frozen=True, slots=True)
class Step:
    """An optimiser step to be done. `per_micro` rows of the longest row's length are `micro_tokens` tokens at most."""

    model: Path
    rows: Sequence[Row]
    advantages: Sequence[float]
    micro_tokens: int
    per_micro: int


class Side(Protocol):
    model: torch.nn.Module
    optimizer: Any

    def prepare(self) -> None:
        """Forgets the pixels of earlier steps; not timed."""

    def update(self) -> float:
        """One optimiser step; returns the gradient norm before clipping."""


class Mobilerl:
    def __init__(self, step: Step, recompute: bool = False) -> None:
        self.step = step
        settings = LocalSettings(learning_rate=RATE, grad_clip=NORM, micro_tokens=step.micro_tokens,
                                 recompute=recompute)  # fmt: skip
        self.engine = LocalEngine(step.model, settings)
        self.model, self.optimizer = self.engine.model, self.engine.optimizer
        self.objective = clipped(LossSection(clip_low=CLIP, clip_high=CLIP, kl_coef=0.0))

    def prepare(self) -> None:
        self.engine.codec = Codec.load(self.step.model)

    def update(self) -> float:
        rows = self.step.rows
        batch = Batch(rows, self.step.advantages, [False] * len(rows))
        return self.engine.update(batch, self.objective, AGG)["grad_norm"]


class HuggingFace:
    def __init__(self, step: Step) -> None:
        self.step = step
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.model = load_model(step.model, learns=True).to(self.device).train()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=RATE, betas=ADAM_BETAS, weight_decay=0.0)

    def prepare(self) -> None:
        self.codec = Codec.load(self.step.model)

    def update(self) -> float:
        self.optimizer.zero_grad()
        total = sum(len(r.response_ids) for r in self.step.rows)
        for start in range(0, len(self.step.rows), self.step.per_micro):
            part = slice(start, start + self.step.per_micro)
            loss, tokens = self._loss(self.step.rows[part], self.step.advantages[part])
            (loss * tokens / total).backward()
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), NORM)
        self.optimizer.step()
        return float(norm)

    def _loss(self, rows: Sequence[Row], advantages: Sequence[float]) -> tuple[Tensor, int]:
        """Token-mean loss of these rows and how many tokens it is of."""
        ids = [r.prompt_ids + r.response_ids for r in rows]
        inputs = self.codec.collate(ids, [r.images for r in rows], pad_left=False, device=self.device)
        with torch.autocast(self.device.type, compute_dtype(), enabled=self.device.type == "cuda"):
            logits = self.model(**inputs).logits
        logp = logits[:, :-1].float().log_softmax(-1)
        logp = logp.gather(-1, inputs["input_ids"][:, 1:].unsqueeze(-1)).squeeze(-1)
        mask, old = torch.zeros_like(logp), torch.zeros_like(logp)
        for i, row in enumerate(rows):
            where = slice(len(row.prompt_ids) - 1, len(ids[i]) - 1)
            mask[i, where] = 1.0
            old[i, where] = torch.tensor(row.rollout_logprobs, device=self.device)
        weights = aggregation_weights(mask, AGG)
        loss, _ = clipped_policy_loss(logp, old, torch.tensor(advantages, device=self.device), mask,
                                      clip_low=CLIP, clip_high=CLIP, weights=weights)  # fmt: skip
        return loss, int(mask.sum())


class Trl:
    """TRL's trainer. `recompute`: activations are recomputed in the backward pass."""

    def __init__(self, step: Step, recompute: bool = False) -> None:
        from datasets import Dataset
        from trl import GRPOConfig, GRPOTrainer

        side = self

        class Recorded(GRPOTrainer):
            def _generate_and_score_completions(self, inputs: Any) -> dict[str, Any]:
                return side.inputs(self.accelerator.device)

        self.step = step
        micros = len(step.rows) // step.per_micro
        model = load_model(step.model, learns=True)
        optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, betas=ADAM_BETAS, weight_decay=0.0)
        gpu = torch.cuda.is_available()
        self._folder = tempfile.TemporaryDirectory()
        settings = GRPOConfig(
            output_dir=self._folder.name, per_device_train_batch_size=step.per_micro, num_generations=step.per_micro,
            gradient_accumulation_steps=micros, steps_per_generation=micros, max_completion_length=64, beta=0.0,
            epsilon=CLIP, loss_type="dapo", gradient_checkpointing=recompute, bf16=gpu, use_cpu=not gpu,
            report_to="none", disable_tqdm=True, max_grad_norm=NORM,
        )  # fmt: skip
        tokenizer = Codec.load(step.model).tokenizer
        self.trainer = Recorded(
            model, reward_funcs=_no_reward, args=settings, train_dataset=Dataset.from_dict({"prompt": ["-"]}),
            processing_class=tokenizer, optimizers=(optimizer, None),
        )  # fmt: skip
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
        norm = trainer.accelerator.clip_grad_norm_(self.model.parameters(), NORM)
        self.optimizer.step()
        return float(norm)

    def inputs(self, device: torch.device) -> dict[str, Any]:
        """What the trainer's own generation returns: prompts padded on the left, replies on the right."""
        rows = self.step.rows
        prompts = self.codec.collate([r.prompt_ids for r in rows], [r.images for r in rows], pad_left=True)
        replies = self.codec.collate([r.response_ids for r in rows], [()] * len(rows), pad_left=False)
        mask = replies["attention_mask"]
        old = torch.zeros(mask.shape)
        for i, row in enumerate(rows):
            old[i, : len(row.rollout_logprobs)] = torch.tensor(row.rollout_logprobs)
        kinds = torch.cat([prompts["mm_token_type_ids"], replies["mm_token_type_ids"]], dim=1)
        tensors = {
            "prompt_ids": prompts["input_ids"], "prompt_mask": prompts["attention_mask"],
            "completion_ids": replies["input_ids"], "completion_mask": mask, "old_per_token_logps": old,
            "advantages": torch.tensor(self.step.advantages), "num_items_in_batch": mask.sum(),
            "mm_token_type_ids": kinds, "pixel_values": prompts["pixel_values"],
            "image_grid_thw": prompts["image_grid_thw"],
        }  # fmt: skip
        return {name: t.to(device) for name, t in tensors.items()} | {"num_images": [len(r.images) for r in rows]}


def _no_reward(prompts: list[str], completions: list[str], **kwargs: object) -> list[float]:
    """The trainer wants a reward; the advantages are recorded."""
    return [0.0] * len(completions)


def make(name: str, step: Step) -> Side:
    kind, _, recompute = name.partition("-")
    if kind == "hf":
        return HuggingFace(step)
    return (Mobilerl if kind == "mobilerl" else Trl)(step, recompute=bool(recompute))
