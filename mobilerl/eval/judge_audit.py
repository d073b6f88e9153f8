"""Agreement of the judge's verdicts with the tasks' own checks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from mobilerl.config import JudgeSection
from mobilerl.eval.statistics import wilson_interval
from mobilerl.records import Status, Trajectory

if TYPE_CHECKING:
    from mobilerl.judge.judge import Judge, Verdict

CONCURRENCY = 64
"""Maximum number of verdicts in progress, since each holds a screenshot in its prompt."""


def agreement(pairs: Iterable[tuple[bool, bool | None]]) -> dict[str, Any]:
    """Counts and rates of (success by the check, verdict of the judge) pairs, as JSON values for results.json.

    A verdict of None is no verdict and counts in no rate. A rate is None if its denominator is 0. False positives are
    what a policy trained on the judge can exploit. `kappa` is Cohen's (p_o - p_e) / (1 - p_e), None if p_e = 1.
    """
    pairs = list(pairs)
    tp, fp = pairs.count((True, True)), pairs.count((False, True))
    fn, tn = pairs.count((True, False)), pairs.count((False, False))
    judged = tp + fp + fn + tn
    interval = wilson_interval(tp + tn, judged)
    # Kappa in integers (all terms multiplied by n^2), so that p_e = 1 is detected exactly.
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
    """Pairs for `agreement`, from episodes with the reward of the check.

    Infrastructure errors are left out, as are verdicts by a rule without asking the model.
    """
    return [
        (t.success, v.success)
        for t, v in zip(trajectories, verdicts, strict=True)
        if t.status is not Status.INFRA_ERROR and (v.vote or v.success is None)
    ]


async def judge_all(judge: Judge, trajectories: Sequence[Trajectory]) -> list[Verdict]:
    """Judges all trajectories and returns the verdicts in the same order."""
    slots = asyncio.Semaphore(CONCURRENCY)

    async def one(trajectory: Trajectory) -> Verdict:
        async with slots:
            return await judge.verdict(trajectory)

    return await asyncio.gather(*(one(t) for t in trajectories))


def audit(settings: JudgeSection, trajectories: Sequence[Trajectory]) -> dict[str, Any]:
    """Judges the episodes of a suite; returns the agreement with their checks and the cost, for results.json."""
    from mobilerl.judge.judge import Judge

    async def work() -> dict[str, Any]:
        async with Judge(settings) as judge:
            pairs = audit_pairs(trajectories, await judge_all(judge, trajectories))
            return agreement(pairs) | {k.removeprefix("judge/"): v for k, v in judge.metrics().items()}

    return asyncio.run(work())


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None
