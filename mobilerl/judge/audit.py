"""How far the judge can be trusted: its verdicts beside those of the tasks' own checks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mobilerl.config import JudgeSection
from mobilerl.eval.statistics import Interval, wilson_interval
from mobilerl.records import Status, Trajectory

if TYPE_CHECKING:
    from mobilerl.judge.judge import Judge, Verdict

AT_ONCE = 64
"""Verdicts under way at a time: each holds a screenshot in its prompt."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """Episodes by what the verifier found (true/false) and what the judge said (positive/negative).

    Rates are None where there is nothing to divide by. Episodes without a verdict are in none of the rates.
    """

    true_positive: int
    false_positive: int
    """The judge said success where the verifier found none: what a policy that learns from it can exploit."""
    false_negative: int
    true_negative: int
    no_verdict: int

    @property
    def judged(self) -> int:
        return self.true_positive + self.false_positive + self.false_negative + self.true_negative

    @property
    def accuracy(self) -> float | None:
        return _ratio(self.true_positive + self.true_negative, self.judged)

    @property
    def accuracy_ci95(self) -> Interval:
        return wilson_interval(self.true_positive + self.true_negative, self.judged)

    @property
    def precision(self) -> float | None:
        return _ratio(self.true_positive, self.true_positive + self.false_positive)

    @property
    def recall(self) -> float | None:
        return _ratio(self.true_positive, self.true_positive + self.false_negative)

    @property
    def kappa(self) -> float | None:
        """Cohen's kappa, (p_o - p_e) / (1 - p_e): agreement beyond what the two success rates give by chance.

        None when both sides always say the same one thing, for then p_e = 1.
        """
        n = self.judged
        yes = (self.true_positive + self.false_positive) * (self.true_positive + self.false_negative)
        no = (self.true_negative + self.false_positive) * (self.true_negative + self.false_negative)
        # In whole numbers, so that p_e = 1 is seen exactly: all terms are multiplied by n^2.
        return _ratio(n * (self.true_positive + self.true_negative) - yes - no, n * n - yes - no)

    def report(self) -> dict[str, Any]:
        """Plain JSON values, for results.json."""
        low, high = self.accuracy_ci95.low, self.accuracy_ci95.high
        counts = {name: getattr(self, name) for name in self.__dataclass_fields__}
        rates = {name: getattr(self, name) for name in ("accuracy", "precision", "recall", "kappa")}
        return {"judged": self.judged, **counts, **rates, "accuracy_ci95": [low, high]}


def agreement(pairs: Iterable[tuple[bool, bool | None]]) -> Agreement:
    """Counts (verifier's success, judge's verdict) pairs; a verdict of None is no verdict."""
    pairs = list(pairs)
    return Agreement(
        true_positive=pairs.count((True, True)),
        false_positive=pairs.count((False, True)),
        false_negative=pairs.count((True, False)),
        true_negative=pairs.count((False, False)),
        no_verdict=sum(verdict is None for _, verdict in pairs),
    )


def audit_pairs(trajectories: Sequence[Trajectory], verdicts: Sequence[Verdict]) -> list[tuple[bool, bool | None]]:
    """Pairs for `agreement`, from episodes whose reward is the verifier's.

    Left out are infrastructure errors, which the verifier did not see, and verdicts that a rule gave without asking the
    model, which would flatter it.
    """
    return [
        (t.success, v.success)
        for t, v in zip(trajectories, verdicts, strict=True)
        if t.status is not Status.INFRA_ERROR and (v.votes or v.success is None)
    ]


async def judge_all(judge: Judge, trajectories: Sequence[Trajectory]) -> list[Verdict]:
    """A verdict for each, in their order."""
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(trajectory: Trajectory) -> Verdict:
        async with slots:
            return await judge.verdict(trajectory)

    return await asyncio.gather(*(one(t) for t in trajectories))


def audit(settings: JudgeSection, trajectories: Sequence[Trajectory]) -> dict[str, Any]:
    """Has a suite's episodes judged beside its own check: the agreement's report and what it cost, for results.json."""
    from mobilerl.judge.judge import Judge

    async def work() -> dict[str, Any]:
        async with Judge(settings) as judge:
            pairs = audit_pairs(trajectories, await judge_all(judge, trajectories))
            return agreement(pairs).report() | {k.removeprefix("judge/"): v for k, v in judge.metrics().items()}

    return asyncio.run(work())


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None
