"""Agreement of the judge's verdicts with the tasks' own checks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from mobilerl.config import JudgeSection
from mobilerl.records import Status, Trajectory
from mobilerl.statistics import wilson_interval

if TYPE_CHECKING:
    from mobilerl.judge.judge import Judge, Verdict

CONCURRENCY = 64
"""Verdicts in progress: each holds a screenshot in its prompt."""


def agreement(pairs: Iterable[tuple[bool, bool | None]]) -> dict[str, Any]:
    """Counts and rates of (check's success, judge's verdict) pairs, in plain JSON values for results.json.

    A verdict of None is no verdict and counts in no rate. A rate is None where its denominator is 0. A false positive
    is what a policy trained on the judge can exploit. `kappa` is Cohen's (p_o - p_e) / (1 - p_e), None where p_e = 1.
    """
    pairs = list(pairs)
    tp, fp = pairs.count((True, True)), pairs.count((False, True))
    fn, tn = pairs.count((True, False)), pairs.count((False, False))
    judged = tp + fp + fn + tn
    interval = wilson_interval(tp + tn, judged)
    # Kappa in integers, so that p_e = 1 is seen exactly: all terms are multiplied by n^2.
    by_chance = (tp + fp) * (tp + fn) + (tn + fn) * (tn + fp)
    return {
        "judged": judged,
        "true_positive": tp,
        "false_positive": fp,
        "false_negative": fn,
        "true_negative": tn,
        "no_verdict": sum(verdict is None for _, verdict in pairs),
        "accuracy": _ratio(tp + tn, judged),
        "precision": _ratio(tp, tp + fp),
        "recall": _ratio(tp, tp + fn),
        "kappa": _ratio(judged * (tp + tn) - by_chance, judged * judged - by_chance),
        "accuracy_ci95": [interval.low, interval.high],
    }


def audit_pairs(trajectories: Sequence[Trajectory], verdicts: Sequence[Verdict]) -> list[tuple[bool, bool | None]]:
    """Pairs for `agreement`, from episodes whose reward is the check's.

    Infrastructure errors are left out, as are verdicts given by a rule without asking the model.
    """
    return [
        (t.success, v.success)
        for t, v in zip(trajectories, verdicts, strict=True)
        if t.status is not Status.INFRA_ERROR and (v.votes or v.success is None)
    ]


async def judge_all(judge: Judge, trajectories: Sequence[Trajectory]) -> list[Verdict]:
    """A verdict for each, in their order."""
    slots = asyncio.Semaphore(CONCURRENCY)

    async def one(trajectory: Trajectory) -> Verdict:
        async with slots:
            return await judge.verdict(trajectory)

    return await asyncio.gather(*(one(t) for t in trajectories))


def audit(settings: JudgeSection, trajectories: Sequence[Trajectory]) -> dict[str, Any]:
    """Judges a suite's episodes: the agreement with their checks, and the cost, for results.json."""
    from mobilerl.judge.judge import Judge

    async def work() -> dict[str, Any]:
        async with Judge(settings) as judge:
            pairs = audit_pairs(trajectories, await judge_all(judge, trajectories))
            return agreement(pairs) | {k.removeprefix("judge/"): v for k, v in judge.metrics().items()}

    return asyncio.run(work())


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None
