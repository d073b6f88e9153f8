"""Direct preference optimisation on pairs of replies, on any engine: checkpointed, resumable, repeatable.

The loss compares two rows of a pair, and an engine may put the two into different micro-batches or processes. So a step
has two parts. First all rows are scored without a gradient; `algorithms.losses.dpo_loss` gives the loss and, by
autograd, its derivative by every row's log-probability. Then the engine's update takes these as constants:

    loss(theta) = sum_i c_i log pi_theta(reply_i | prompt_i),   c_i = d dpo_loss / d log pi(reply_i | prompt_i)

which has DPO's gradient exactly, however the rows are spread.

The reference is the policy that training begins with. Its log-probabilities are taken from the engine itself before the
first step (and, when a run goes on, before the checkpoint is loaded): no second copy of the weights is kept, and one
that was trained as an adapter is its own reference, not the base below it.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from mobilerl.algorithms.losses import action_logp, dpo_loss
from mobilerl.config import AgentSection, ConfigError, DpoSection
from mobilerl.engines.base import Engine, MicroBatch
from mobilerl.records import Batch
from mobilerl.train import checkpoint
from mobilerl.train.pairs import PreferencePair
from mobilerl.train.tracking import Tracker

STAGE = "dpo"
KEEP = 2
"""Checkpoints that stay."""


@dataclass(frozen=True, slots=True)
class Scores:
    """log pi(reply | prompt), summed over the reply's tokens: (P,) chosen and (P,) rejected, float64."""

    chosen: Tensor
    rejected: Tensor

    def take(self, index: Sequence[int]) -> Scores:
        return Scores(self.chosen[list(index)], self.rejected[list(index)])


def score(engine: Engine, pairs: Sequence[PreferencePair]) -> Scores:
    """Under the engine's current weights."""
    rows = [row for pair in pairs for row in pair.rows()]
    sums = torch.tensor([math.fsum(logp) for logp in engine.logprobs(rows)], dtype=torch.float64)
    return Scores(sums[0::2].clone(), sums[1::2].clone())


def coefficients(now: Scores, reference: Scores, beta: float) -> tuple[list[float], dict[str, float]]:
    """(2 P,) derivatives of the loss by the rows' log-probabilities, chosen and rejected in turn; loss and metrics."""
    chosen, rejected = (t.clone().requires_grad_() for t in (now.chosen, now.rejected))
    loss, metrics = dpo_loss(chosen, rejected, reference.chosen, reference.rejected, beta)
    loss.backward()
    by_row = torch.stack([chosen.grad, rejected.grad], dim=1).flatten()
    return by_row.tolist(), {"loss": loss.item(), **{name: float(value) for name, value in metrics.items()}}


def weighted_likelihood(micro: MicroBatch) -> tuple[Tensor, Mapping[str, Tensor]]:
    """An engine's objective: the rows' log-probabilities, each with its advantage as its weight."""
    return (micro.advantage * action_logp(micro.logp, micro.mask)).sum(), {}


def dpo_step(engine: Engine, pairs: Sequence[PreferencePair], reference: Scores, beta: float) -> dict[str, float]:
    """One optimiser step. The metrics are those of the weights before it."""
    by_row, metrics = coefficients(score(engine, pairs), reference, beta)
    rows = [row for pair in pairs for row in pair.rows()]
    updated = engine.update(Batch(rows, by_row, [False] * len(rows)), weighted_likelihood, "token-mean")
    return {
        "train/loss": metrics.pop("loss"),
        **{f"dpo/{name}": value for name, value in metrics.items()},
        "train/grad_norm": updated["grad_norm"],
        "train/rows": float(len(rows)),
    }


def step_count(pairs: int, settings: DpoSection) -> int:
    """Optimiser steps of a whole training."""
    return settings.epochs * -(-pairs // settings.batch_size)


class DpoTrainer:
    """A training on `pairs`. `first` is the number of the iteration before it, where a run has had other stages.

    `engine` holds the reference's weights. Everything the training needs beside it is in the newest checkpoint of
    `run_dir`, from which it goes on when there is one.
    """

    def __init__(self, engine: Engine, pairs: Sequence[PreferencePair], settings: DpoSection, agent: AgentSection,
                 run_dir: Path, tracker: Tracker, first: int = 0) -> None:  # fmt: skip
        if not pairs:
            raise ConfigError("there are no preference pairs to learn from")
        self.engine, self.pairs, self.settings, self.agent = engine, pairs, settings, agent
        self.run_dir, self.tracker, self.first = run_dir, tracker, first
        self.steps, self.done, self.elapsed_s = step_count(len(pairs), settings), 0, 0.0
        self.reference = score(engine, pairs)
        checkpoint.clean(run_dir)
        self._restore()

    def run(self) -> dict[str, float]:
        """Trains to the end; returns the last step's metrics ({} when there was nothing left to do)."""
        began, metrics = time.monotonic() - self.elapsed_s, {}
        while self.done < self.steps:
            started = time.monotonic()
            batch = self._batch(self.done)
            learned = dpo_step(self.engine, [self.pairs[i] for i in batch], self.reference.take(batch),
                               self.settings.beta)  # fmt: skip
            self.done += 1
            now = time.monotonic()
            metrics = {"iteration": self.first + self.done, "stage": STAGE, "time_s": now - began, **learned,
                       "time/update_s": now - started}  # fmt: skip
            self.tracker.log(metrics)
            if self.done % self.settings.checkpoint_every == 0 or self.done == self.steps:
                self.engine.publish()
                self._save(now - began)
        return metrics

    def _batch(self, step: int) -> list[int]:
        """The pairs of a step. The order of an epoch depends on the seed and the epoch alone."""
        size = self.settings.batch_size
        epoch, place = divmod(step, -(-len(self.pairs) // size))
        order = list(range(len(self.pairs)))
        random.Random(f"{self.settings.seed}/{epoch}").shuffle(order)
        return order[place * size : (place + 1) * size]

    # --- persistence -----------------------------------------------------------------------------------------

    def _save(self, elapsed_s: float) -> None:
        place = {"steps": self.done, "pairs": len(self.pairs)}
        # Draws depend on the seed and the step, and no phone is played on.
        state = {"elapsed_s": elapsed_s, "env_steps": 0, "sampler": place, "rng": []}
        checkpoint.save(self.run_dir, self.first + self.done, self.engine, self.agent, None, None, state, KEEP)

    def _restore(self) -> None:
        folder = checkpoint.latest(self.run_dir)
        if folder is None:
            self.tracker.truncate_after(self.first)
            return
        state = checkpoint.read_state(folder)
        place = state["sampler"]
        if place != {"steps": state["iteration"] - self.first, "pairs": len(self.pairs)}:
            raise checkpoint.CheckpointError(
                f"{folder} is of another training (other pairs, or another stage 1); delete {folder.parent}"
            )
        checkpoint.load_engine(folder, self.engine)
        self.done, self.elapsed_s = place["steps"], state["elapsed_s"]
        self.tracker.truncate_after(state["iteration"])
