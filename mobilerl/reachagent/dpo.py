"""Direct preference optimization on pairs of responses, on any engine; checkpointed and resumable.

The loss compares the two responses of a pair, which an engine may put into different micro-batches or processes. So a
step has two parts. First all responses are scored without a gradient; `algorithms.losses.dpo_loss` gives the loss and,
by autograd, its derivative with respect to each response's log-probability. Then the engine's update takes these
derivatives as constants:

    loss(theta) = sum_i c_i log pi_theta(response_i | prompt_i),   c_i = d dpo_loss / d log pi(response_i | prompt_i)

which has exactly DPO's gradient.

The reference is the initial policy. Its log-probabilities are computed by the engine itself before the first step (and
before a checkpoint is loaded), so no second copy of the weights is needed, and an adapter is its own reference.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mobilerl.algorithms.losses import action_logp, dpo_loss
from mobilerl.config import Recipe
from mobilerl.reachagent.pair_files import PreferencePair
from mobilerl.records import MicroBatch
from mobilerl.records.engine import Engine
from mobilerl.training import checkpoint
from mobilerl.training.skipping import StepCounter
from mobilerl.training.tracking import Tracker

STAGE = "dpo"
KEEP = 2
"""Number of checkpoints to keep."""

SCORED = 256
"""Number of pairs that are scored at the same time before the first step, whose screens are in memory."""


def score(engine: Engine, pairs: Sequence[PreferencePair]) -> Tensor:
    """Computes (P, 2) float64: log pi(response | prompt) of the chosen and rejected responses under the current
    weights."""
    samples = [sample for pair in pairs for sample in pair.samples()]
    sums = [math.fsum(logp) for logp in engine.logprobs(samples)]
    return torch.tensor(sums, dtype=torch.float64).view(-1, 2)


def weighted_likelihood(micro: MicroBatch) -> tuple[Tensor, Mapping[str, Tensor]]:
    """Objective of an engine: sum of the responses' log-probabilities weighted by their advantages."""
    return (micro.advantage * action_logp(micro.logp, micro.mask)).sum(), {}


def dpo_step(engine: Engine, pairs: Sequence[PreferencePair], reference: Tensor, beta: float) -> dict[str, float]:
    """Takes one optimizer step; `reference` are (P, 2) scores. Returns the metrics before the update.

    Raises SkippedStep like `Engine.update`.
    """
    now = score(engine, pairs).requires_grad_()
    (chosen, rejected), (ref_chosen, ref_rejected) = now.T, reference.T
    loss, metrics = dpo_loss(chosen, rejected, ref_chosen, ref_rejected, beta)
    loss.backward()
    assert now.grad is not None
    samples = [sample for pair in pairs for sample in pair.samples()]
    weights = now.grad.flatten().tolist()
    weighted = [replace(sample, advantage=weight) for sample, weight in zip(samples, weights, strict=True)]
    updated = engine.update(weighted, weighted_likelihood, "token-mean")
    return {
        "train/loss": loss.item(),
        **{f"dpo/{name}": float(value) for name, value in metrics.items()},
        "train/grad_norm": updated["grad_norm"],
        "train/samples": float(len(samples)),
    }


def step_count(pairs: int, recipe: Recipe) -> int:
    """Number of optimizer steps of a complete training."""
    return recipe.dpo.epochs * -(-pairs // _batch_size(recipe))


def _batch_size(recipe: Recipe) -> int:
    return recipe.dpo.batch_size or recipe.sft.batch_size


class DpoTrainer:
    """Trains `engine`, which has the reference's weights, on `pairs`; resumes from the newest checkpoint of `run_dir`.

    `first` is the number of the last iteration of earlier stages.
    """

    def __init__(
        self,
        engine: Engine,
        pairs: Sequence[PreferencePair],
        recipe: Recipe,
        run_dir: Path,
        tracker: Tracker,
        first: int = 0,
    ) -> None:
        self.engine, self.pairs, self.recipe = engine, pairs, recipe
        self.run_dir, self.tracker, self.first = run_dir, tracker, first
        self.steps, self.done, self.elapsed_s = step_count(len(pairs), recipe), 0, 0.0
        self.counter = StepCounter("the DPO loss")
        parts = (range(i, min(i + SCORED, len(pairs))) for i in range(0, len(pairs), SCORED))
        self.reference = torch.cat([score(engine, [pairs[k] for k in part]) for part in parts])
        checkpoint.clean(run_dir)
        self._restore()

    def run(self) -> dict[str, Any]:
        """Trains to the end and returns the metrics of the last step that was taken ({} if none was left to do).

        Raises NotFinite.
        """
        began = time.monotonic() - self.elapsed_s
        metrics: dict[str, Any] = {}
        while self.done < self.steps:
            started = time.monotonic()
            batch = self._batch(self.done)
            pairs, reference = [self.pairs[i] for i in batch], self.reference[batch]
            step = partial(dpo_step, self.engine, pairs, reference, self.recipe.dpo.beta)
            learned = self.counter.attempt(step)
            self.done += 1
            now = time.monotonic()
            row: dict[str, Any] = {"iteration": self.first + self.done, "stage": STAGE, "time_s": now - began}
            row |= {**(learned or {}), "time/update_s": now - started, "train/skipped_steps": float(learned is None)}
            self.tracker.log(row)
            metrics = metrics if learned is None else row
            self.counter.check(checkpoint.left_of(self.run_dir), ended=self.done == self.steps)
            if self.done % self.recipe.train.checkpoint_every == 0 or self.done == self.steps:
                self.engine.publish()
                self._save(now - began)
        return metrics

    def _batch(self, step: int) -> list[int]:
        """Indices of the pairs of a step. The order within an epoch depends only on the seed and the epoch."""
        size = _batch_size(self.recipe)
        epoch, position = divmod(step, -(-len(self.pairs) // size))
        order = list(range(len(self.pairs)))
        random.Random(f"{self.recipe.train.seed}/{epoch}").shuffle(order)
        return order[position * size : (position + 1) * size]

    def _save(self, elapsed_s: float) -> None:
        progress = {"steps": self.done, "pairs": len(self.pairs)}
        state = {"elapsed_s": elapsed_s, "env_steps": 0, "sampler": progress, "rng": []}
        checkpoint.save(self.run_dir, self.first + self.done, self.engine, self.recipe.agent, None, state, KEEP)

    def _restore(self) -> None:
        folder = checkpoint.latest(self.run_dir)
        if folder is None:
            self.tracker.truncate_after(self.first)
            return
        state = checkpoint.read_state(folder)
        progress = state["sampler"]
        if progress != {"steps": state["iteration"] - self.first, "pairs": len(self.pairs)}:
            raise checkpoint.CheckpointError(
                f"{folder} belongs to another training (other pairs, or another stage 1); delete {folder.parent}"
            )
        checkpoint.load_engine(folder, self.engine)
        self.done, self.elapsed_s = progress["steps"], state["elapsed_s"]
        self.tracker.truncate_after(state["iteration"])
