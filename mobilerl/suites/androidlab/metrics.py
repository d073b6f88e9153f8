"""AndroidLab's four metrics, as pure functions. Rates are in percent, as published.

A rate is taken over `total` tasks: those that gave an outcome, or all that were chosen, so that errors count as zero.

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
"""Two screens are the same when a larger share than this of what is not white in them is."""
WHITE = 255


@dataclass(frozen=True, slots=True)
class Score:
    """The outcome of one task. `steps` counts the judged steps; see `count_unchanged` for `unchanged`."""

    complete: bool
    sub_goals: Mapping[str, bool]
    steps: int
    unchanged: int
    human_steps: float | None = None


def metrics(scores: Sequence[Score], total: int) -> dict[str, float | None]:
    """All four over `total` tasks; None where there is nothing to divide by."""
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
    """Share of the sub-goals that were met: 1 for a completed task, 0 for one whose page was never judged."""
    if score.complete:
        return 1.0
    return fmean(score.sub_goals.values()) if score.sub_goals else 0.0


def reasonable_share(score: Score) -> float:
    """1 - unchanged / (steps - 1); 1 for an episode of one step."""
    return 1 - score.unchanged / (score.steps - 1) if score.steps > 1 else 1.0


def count_unchanged(screens: Iterable[bytes]) -> int:
    """How many screens (PNG, in order) are the same as the one before. The last screen is left out, as AndroidLab does:
    it is the one on which the agent finishes.
    """
    before: np.ndarray | None = None
    unchanged = 0
    for png in list(screens)[:-1]:
        now = np.asarray(Image.open(io.BytesIO(png)).convert("RGB"))
        unchanged += before is not None and similarity(before, now) > SAME
        before = now
    return unchanged


def similarity(a: np.ndarray, b: np.ndarray) -> float:
    """Share of equal values among those that are not white in both pictures (height, width, channel); 0 for pictures of
    different sizes and for two white ones.
    """
    if a.shape != b.shape:
        return 0.0
    shown = (a != WHITE) | (b != WHITE)
    count = int(shown.sum())
    return float(((a == b) & shown).sum() / count) if count else 0.0
