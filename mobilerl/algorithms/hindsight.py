"""Scores the steps of groups in hindsight of their solved episodes."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

import torch

from mobilerl.algorithms.advantages import hindsight_advantage
from mobilerl.algorithms.base import Resources
from mobilerl.records import Group, TrainingSample


class Hindsight:
    """Gates the advantages of steps by their likelihood in hindsight (`advantages.hindsight_advantage`).

    The episodes of a group are told its shortest success, which itself keeps its advantages. One more forward pass
    scores them under prompts that are longer by the solution; the likelihood without it is that of the rollout. The
    longer prompt alone changes the likelihood of everything, most in a policy that has not seen such prompts: a step's
    gap is what it gained more than the mean of all steps that were scored.
    """

    def __init__(self, resources: Resources, beta: float) -> None:
        if resources.hindsight is None:
            raise ValueError("algorithm.hindsight needs Resources.hindsight, which writes the prompts: set it to 0")
        self._scorer, self._prompts, self._beta = resources.scorer, resources.hindsight, beta
        self.metrics: dict[str, float] = {}

    def __call__(self, groups: Sequence[Group], advantages: Sequence[list[list[float]]]) -> list[list[list[float]]]:
        """The advantages of the steps of each trajectory of each group, gated."""
        rows = [row for group in groups for row in self._rows(group)]
        asked = [row for row in rows if row is not None]
        scores = self._scorer.logprobs(asked) if asked else []
        gained = [fmean(logp) - fmean(row.rollout_logprobs) for logp, row in zip(scores, asked, strict=True)]
        mean = fmean(gained) if gained else 0.0
        self.metrics = {"hindsight/gain": mean, "hindsight/steps": len(gained)}
        differences = (gain - mean for gain in gained)
        gap = torch.tensor([0.0 if row is None else next(differences) for row in rows], dtype=torch.float64)
        flat = torch.tensor([a for of in advantages for steps in of for a in steps], dtype=torch.float64)
        gated = iter(hindsight_advantage(flat, gap, self._beta).tolist())
        return [[[next(gated) for _ in steps] for steps in of] for of in advantages]

    def _rows(self, group: Group) -> list[TrainingSample | None]:
        """A row to score for each step of the group, in order; None for steps without hindsight."""
        successes = [t for t in group.trajectories if t.success]
        shown = min(successes, key=lambda t: len(t.steps), default=None)
        rows: list[TrainingSample | None] = []
        for trajectory in group.trajectories:
            if shown is None or trajectory is shown:
                rows += [None] * len(trajectory.steps)
            else:
                rows += self._prompts(trajectory, shown)
        return rows
