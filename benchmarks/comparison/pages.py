"""What variants of ReachAgent do on tasks of their own kind, beside the phone's tasks that all algorithms play.

RUN_DIR/VARIANT/seed-N/eval/pages-before/results.json     the warm-up on the page tasks that this seed held out
                           /pages-after/results.json      the policy; pages-stage1 where no DPO followed
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from benchmarks.comparison.crossed import crossed_interval
from benchmarks.comparison.table import Estimate, points
from benchmarks.comparison.variants import Group, Variant
from mobilerl.eval.report import read_results
from sft.pages.metrics import MEASURES

BEFORE, LAST_FIRST = "pages-before", ("pages-after", "pages-stage1")
PAGE_METHOD = """\
*Page tasks:* every seed explores, names its tasks and holds some out anew, so these are other tasks with every seed and
the same for all variants of one. Steps and tasks are right by the place tapped (IoU) or by its text along the shortest
way; a task is a success when the policy, left to itself, reaches its goal on the graph. Rates are means over seeds;
differences of task success, in points, are paired by seed, with Student's interval over the seeds."""


@dataclass(frozen=True, slots=True)
class PageRun:
    """The results of the warm-up and of the policy on one seed's held-out page tasks."""

    seed: int
    before: Mapping[str, Any]
    after: Mapping[str, Any]

    def change(self) -> float:
        return value(self.after, "success") - value(self.before, "success")


def read_page_run(folder: Path, seed: int) -> PageRun | None:
    """None where `folder`, a run's, has no page tasks. Raises ValueError when the two are of different tasks."""
    found = {name: folder / "eval" / name / "results.json" for name in (BEFORE, *LAST_FIRST)}
    after = [found[name] for name in LAST_FIRST if found[name].is_file()]
    if not after or not found[BEFORE].is_file():
        return None
    run = PageRun(seed, read_results(found[BEFORE]), read_results(after[0]))
    if _tasks(run.before) != _tasks(run.after):
        raise ValueError(f"{after[0]} and {found[BEFORE]} are of different tasks: evaluate both anew")
    return run


def value(results: Mapping[str, Any], measure: str) -> float:
    return results["success_rate"] if measure == "success" else results["accuracy"][measure]


def page_table(group: Group, variants: Mapping[str, Variant], runs: Mapping[str, Sequence[PageRun]]) -> str:
    """The warm-up and the group's members that have page tasks, as Markdown; "" where its reference has none."""
    reference = runs.get(group.reference)
    if not reference:
        return ""
    header = ["policy", *MEASURES, "task success by seed", "to the warm-up", f"to {variants[group.reference].title}"]
    rows = [[*_rates("warm-up", [run.before for run in reference]), "", ""]]
    for name in group.members:
        if of_one := runs.get(name):
            change = points(_estimate([run.change() for run in of_one]))
            beside = "" if name == group.reference else points(to_reference(reference, of_one))
            rows.append([*_rates(variants[name].title, [run.after for run in of_one]), change, beside])
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (header, ["---"] * len(header), *rows))


def _rates(title: str, results: Sequence[Mapping[str, Any]]) -> list[str]:
    means = [fmean(value(r, measure) for r in results) for measure in MEASURES.values()]
    by_seed = ", ".join(f"{100 * value(r, 'success'):.1f}" for r in results)
    return [title, *(f"{100 * mean:.1f} %" for mean in means), by_seed]


def to_reference(reference: Sequence[PageRun], other: Sequence[PageRun]) -> Estimate | None:
    """Of task success, over the seeds that both have. Raises ValueError when a seed's tasks are not the same."""
    first = {run.seed: run for run in reference}
    both = [(first[run.seed], run) for run in other if run.seed in first]
    for a, b in both:
        if _tasks(a.after) != _tasks(b.after):
            raise ValueError(f"two variants with seed {a.seed} were evaluated on different page tasks: run both anew")
    return _estimate([value(b.after, "success") - value(a.after, "success") for a, b in both])


def _estimate(changes: Sequence[float]) -> Estimate | None:
    if not changes:
        return None
    return Estimate(fmean(changes), crossed_interval(np.array([[c] for c in changes])), len(changes))


def _tasks(results: Mapping[str, Any]) -> str:
    """What the tasks are: their ids are numbers, which other tasks have too."""
    return results["protocol"]["tasks_sha256"]


def pages_json(runs: Sequence[PageRun]) -> dict[str, Any]:
    """Rates are shares."""
    to_warm_up = _estimate([run.change() for run in runs])
    return {
        "to_warm_up": asdict(to_warm_up) if to_warm_up else None,
        "runs": [
            {
                "seed": run.seed, "tasks": len(run.after["instances"]),
                "warm_up": {m: value(run.before, m) for m in MEASURES.values()},
                "policy": {m: value(run.after, m) for m in MEASURES.values()},
            }
            for run in runs
        ],
    }  # fmt: skip
