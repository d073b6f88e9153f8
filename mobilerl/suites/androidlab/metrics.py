"""AndroidLab's four metrics as pure functions. Rates are in percent, as published.

A rate is over `total` tasks: either those with an outcome, or all selected ones, so that errors count as zero.

    SR      100 * completed / total
    Sub-SR  100 * sum(sub-goals met / sub-goals; 1 if completed) / total
    RRR     100 * mean over completed tasks with a human demonstration of human steps / agent steps
    ROR     100 * sum(1 - unchanged / (steps - 1)) / total
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from PIL import Image

SAME = 0.999
"""Two screens are equal if more than this fraction of their non-white values is."""
WHITE = 255


@dataclass(frozen=True, slots=True)
class Score:
    """Outcome of one task. `steps` is the number of judged steps, `unchanged` that of `count_unchanged`."""

    complete: bool
    sub_goals: Mapping[str, bool]
    steps: int
    unchanged: int
    human_steps: float | None = None


def metrics(scores: Sequence[Score], total: int) -> dict[str, float | None]:
    """All four metrics over `total` tasks; None where the denominator is 0."""
    if not total:
        return {"SR": None, "Sub-SR": None, "RRR": None, "ROR": None}
    lengths = [s.human_steps / s.steps for s in scores if s.complete and s.human_steps is not None]
    return {
        "SR": 100 * sum(s.complete for s in scores) / total,
        "Sub-SR": 100 * math.fsum(map(sub_goal_share, scores)) / total,
        "RRR": 100 * fmean(lengths) if lengths else None,
        "ROR": 100 * math.fsum(map(reasonable_share, scores)) / total,
    }


def sub_goal_share(score: Score) -> float:
    """Fraction of sub-goals that were met: 1 for a completed task, 0 for one whose page was never judged."""
    if score.complete:
        return 1.0
    return fmean(score.sub_goals.values()) if score.sub_goals else 0.0


def reasonable_share(score: Score) -> float:
    """1 - unchanged / (steps - 1); 1 for an episode of one step."""
    return 1 - score.unchanged / (score.steps - 1) if score.steps > 1 else 1.0


def count_unchanged(screens: Iterable[bytes]) -> int:
    """Number of screens (PNGs, in order) that equal the previous one. As in AndroidLab, the last screen is left out,
    since the agent finishes on it.
    """
    before: np.ndarray | None = None
    unchanged = 0
    for png in list(screens)[:-1]:
        now = np.asarray(Image.open(io.BytesIO(png)).convert("RGB"))
        unchanged += before is not None and similarity(before, now) > SAME
        before = now
    return unchanged


def similarity(a: np.ndarray, b: np.ndarray) -> float:
    """Fraction of equal values among those that are not white in both images (height, width, channel); 0 for images of
    different sizes and for two white ones.
    """
    if a.shape != b.shape:
        return 0.0
    shown = (a != WHITE) | (b != WHITE)
    count = int(shown.sum())
    return float(((a == b) & shown).sum() / count) if count else 0.0
