"""Variants of ReachAgent on page tasks, in addition to the phone's tasks that all algorithms are evaluated on.

RUN_DIR/VARIANT/seed-N/eval/pages-before/results.json     the SFT policy on the page tasks that this seed held out
                           /pages-after/results.json      the policy; pages-stage1 if no DPO followed
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from benchmarks.comparison.figures import Estimate, markdown_table, percent, points
from benchmarks.comparison.intervals import crossed_interval
from mobilerl.eval.report import read_results
from mobilerl.reachagent.metrics import MEASURES

BEFORE, LAST_FIRST = "pages-before", ("pages-after", "pages-stage1")
PAGE_METHOD = """\
*Page tasks* differ with every seed, which explores and holds out its own, and are the same for all variants of a seed.
Steps and tasks are right by the place tapped (IoU) or by its text along the shortest path; a task succeeds if the
policy reaches its goal on the graph. Differences of task success, in points, are paired by seed."""


@dataclass(frozen=True, slots=True)
class PageRun:
    """The results of the SFT policy and of the trained policy on one seed's held-out page tasks."""

    seed: int
    before: Mapping[str, Any]
    after: Mapping[str, Any]

    def change(self) -> float:
        return value(self.after, "success") - value(self.before, "success")


def read_page_run(folder: Path, seed: int) -> PageRun | None:
    """None if the run in `folder` has no page tasks. Raises ValueError if the two evaluations have different tasks."""
    found = {name: folder / "eval" / name / "results.json" for name in (BEFORE, *LAST_FIRST)}
    after = [found[name] for name in LAST_FIRST if found[name].is_file()]
    if not after or not found[BEFORE].is_file():
        return None
    run = PageRun(seed, read_results(found[BEFORE]), read_results(after[0]))
    if _tasks(run.before) != _tasks(run.after):
        raise ValueError(f"{after[0]} and {found[BEFORE]} have different tasks: repeat both evaluations")
    return run


def value(results: Mapping[str, Any], measure: str) -> float:
    return results["success_rate"] if measure == "success" else results["accuracy"][measure]


def page_table(titles: Mapping[str, str], runs: Mapping[str, Sequence[PageRun]]) -> str:
    """The SFT policy and the members of a group with page tasks, as Markdown; "" if the reference, the first, has none.

    `titles`: of the group's members, by name.
    """
    first, *_ = titles
    if not (reference := runs.get(first)):
        return ""
    header = ["policy", *MEASURES, "task success by seed", "vs SFT", f"vs {titles[first]}"]
    rows = [[*_rates("SFT", [run.before for run in reference]), "", ""]]
    for name, title in titles.items():
        if own := runs.get(name):
            change = points(_estimate([run.change() for run in own]))
            beside = "" if name == first else points(vs_reference(reference, own))
            rows.append([*_rates(title, [run.after for run in own]), change, beside])
    return markdown_table(header, rows)


def _rates(title: str, results: Sequence[Mapping[str, Any]]) -> list[str]:
    means = [percent(fmean(value(r, measure) for r in results)) for measure in MEASURES.values()]
    return [title, *means, ", ".join(f"{100 * value(r, 'success'):.1f}" for r in results)]


def vs_reference(reference: Sequence[PageRun], other: Sequence[PageRun]) -> Estimate | None:
    """Difference in task success, over the seeds that both have. Raises ValueError if a seed's tasks differ."""
    first = {run.seed: run for run in reference}
    both = [(first[run.seed], run) for run in other if run.seed in first]
    for a, b in both:
        if _tasks(a.after) != _tasks(b.after):
            raise ValueError(f"two variants with seed {a.seed} have different page tasks: repeat both runs")
    return _estimate([value(b.after, "success") - value(a.after, "success") for a, b in both])


def _estimate(changes: Sequence[float]) -> Estimate | None:
    if not changes:
        return None
    return Estimate(fmean(changes), crossed_interval(np.array([[c] for c in changes])), len(changes))


def _tasks(results: Mapping[str, Any]) -> str:
    """Identifies the tasks, whose ids are only numbers."""
    return results["protocol"]["tasks_sha256"]


def pages_json(runs: Sequence[PageRun]) -> dict[str, Any]:
    """Rates are shares."""
    vs_sft = _estimate([run.change() for run in runs])
    return {
        "vs_sft": asdict(vs_sft) if vs_sft else None,
        "runs": [
            {
                "seed": run.seed,
                "tasks": len(run.after["instances"]),
                "sft": {m: value(run.before, m) for m in MEASURES.values()},
                "policy": {m: value(run.after, m) for m in MEASURES.values()},
            }
            for run in runs
        ],
    }
