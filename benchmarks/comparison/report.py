"""What the comparison found, as Markdown, JSON and a picture, and as a section of docs/results.md."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.comparison.curves import Curve, draw, learning_curve
from benchmarks.comparison.pages import PAGE_METHOD, PageRun, page_table, pages_json, read_page_run
from benchmarks.comparison.runs import RESULTS, SAME, check_alike, read_run, run_folder
from benchmarks.comparison.table import Estimate, Summary, against, group_table, summarise
from benchmarks.comparison.variants import Group, Plan, Variant
from mobilerl.atomic_files import write_atomic
from mobilerl.eval.report import read_results

SCHEMA = 1
BEGIN, END = "<!-- comparison:begin -->", "<!-- comparison:end -->"
WARM_UP = "warm-up"
PICTURE = "learning-curves.png"
METHOD = """\
Success is greedy play of the held-out instances, the same for all, with 95 % intervals in brackets. Both the seeds and
the task templates count as samples: the variance of a mean is what seeds add plus what templates add less what both
have counted (crossed random effects), with Student's quantile for as few degrees of freedom as the seeds leave.
Differences, in points, are paired by template, with the seeds of the two sides independent. How the warm-up would come
out with another seed is in none of these intervals, and a policy with one seed adds nothing for its seed. *In training*
is the success rate of the sampled episodes in the last quarter of the budget, on the tasks the curriculum chose; *steps
per success* are all environment steps by all successful episodes of training; *episode* is the mean length on the
held-out instances; *minutes* are those of training, and compare only where runs had as many cores."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Everything the outputs are made of."""

    command: str
    budget: int
    jobs: int
    groups: tuple[Group, ...]
    summaries: Mapping[str, Summary]
    warm_up: Mapping[str, Any]
    curves: Mapping[str, Curve]
    pages: Mapping[str, Sequence[PageRun]]
    """Of the variants that have page tasks."""

    @property
    def faults(self) -> list[str]:
        return [
            f"{s.variant.title}, seed {r.seed}: {r.fault}" for s in self.summaries.values() for r in s.runs if r.fault
        ]


def gather(run_dir: Path, plan: Plan, chosen: Sequence[Variant], seeds: Sequence[int], budget: int, jobs: int,
           command: str) -> Comparison:  # fmt: skip
    """Reads all runs. Raises ValueError when evaluations are of different tasks or the warm-up has none."""
    warm_up = read_results(run_dir / WARM_UP / RESULTS)
    weights = warm_up["protocol"]["weights_sha256"]
    runs = {v.name: [read_run(run_dir, v.name, s, None if v.offline else budget, weights) for s in seeds]
            for v in chosen}  # fmt: skip
    evaluations = {f"{name}, seed {r.seed}": r.results for name, rs in runs.items() for r in rs if not r.fault}
    check_alike({WARM_UP: warm_up, **evaluations})
    curves = {v.name: learning_curve(runs[v.name], budget) for v in chosen}
    read = {name: [read_page_run(run_folder(run_dir, name, r.seed), r.seed) for r in rs if not r.fault]
            for name, rs in runs.items()}  # fmt: skip
    on_pages = {name: [run for run in of_one if run] for name, of_one in read.items()}
    return Comparison(
        command, budget, jobs, tuple(plan.shown(runs)),
        {v.name: summarise(v, runs[v.name], warm_up, budget) for v in chosen},
        warm_up, {name: curve for name, curve in curves.items() if curve},
        {name: of_one for name, of_one in on_pages.items() if of_one},
    )  # fmt: skip


def write(comparison: Comparison, run_dir: Path, docs: Path | None) -> str:
    """Writes comparison.md, comparison.json and the picture into the run directory, and all three into `docs`.

    There the Markdown becomes the section of results.md between two marks. Returns the Markdown.
    """
    for folder, picture in ((run_dir, Path(PICTURE)), (docs, Path("images", PICTURE))):
        if folder is None:
            continue
        variants = {name: summary.variant for name, summary in comparison.summaries.items()}
        drawn = draw(folder / picture, comparison.groups, variants, comparison.curves)
        text = markdown(comparison, str(picture) if drawn else None)
        if folder == run_dir:
            write_atomic(run_dir / "comparison.md", f"{text}\n".encode())
        else:
            page = folder / "results.md"
            write_atomic(page, with_section(page.read_text() if page.is_file() else "# Results\n", text).encode())
        content = json.dumps(as_json(comparison), indent=1, allow_nan=False) + "\n"
        write_atomic(folder / "comparison.json", content.encode())
    return markdown(comparison, PICTURE if comparison.curves else None)


def with_section(page: str, text: str) -> str:
    """The page with `text` between the marks; at its end when it has none. Raises ValueError for one mark alone."""
    section = f"{BEGIN}\n{text}\n{END}"
    if BEGIN not in page and END not in page:
        return f"{page.rstrip()}\n\n{section}\n"
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"results.md has not both {BEGIN} and {END} after it; put the other one back, or remove both")
    return before + section + after


def markdown(comparison: Comparison, picture: str | None) -> str:
    protocol = comparison.warm_up["protocol"]
    variants = {name: summary.variant for name, summary in comparison.summaries.items()}
    side = f"{comparison.jobs} runs side by side" if comparison.jobs > 1 else "one run at a time"
    blocks = [
        "## Every algorithm and ablation on one budget",
        f"All start from the same warm-up and train for {comparison.budget:,} environment steps, {side}; "
        f"{len(comparison.warm_up['instances'])} held-out episodes for each policy ({protocol['split']} split, "
        f"{100 * protocol['popup_rate']:g} % with a pop-up).",
        f"    {comparison.command}",
    ]
    for group in comparison.groups:
        blocks += [f"### {group.title}", group_table(group, comparison.summaries, comparison.warm_up)]
        if table := page_table(group, variants, comparison.pages):
            blocks += ["On page tasks:", table]
    if picture:
        blocks += [f"![Success in training against environment steps, for each group]({picture})"]
    blocks += [METHOD, *([PAGE_METHOD] if comparison.pages else [])]
    if offline := [s.variant.title for s in comparison.summaries.values() if s.variant.offline]:
        blocks += [f"Without a budget of environment steps, because they learn offline: {', '.join(offline)}."]
    if comparison.faults:
        blocks += ["**Left out:**\n\n" + "\n".join(f"- {fault}" for fault in comparison.faults)]
    return "\n\n".join(blocks)


def as_json(comparison: Comparison) -> dict[str, Any]:
    """The figures behind the tables and the curves. Rates and intervals are shares, times seconds."""
    summaries, protocol = comparison.summaries, comparison.warm_up["protocol"]
    return {
        "schema": SCHEMA,
        "command": comparison.command,
        "budget_env_steps": comparison.budget,
        "jobs": comparison.jobs,
        "protocol": {key: protocol.get(key) for key in SAME},
        "warm_up": {"success_rate": comparison.warm_up["success_rate"]},
        "variants": {name: _variant_json(s, comparison.curves.get(name)) for name, s in summaries.items()},
        "groups": [_group_json(group, summaries) for group in comparison.groups],
        "page_tasks": {name: pages_json(runs) for name, runs in comparison.pages.items()},
        "left_out": comparison.faults,
    }


def _group_json(group: Group, summaries: Mapping[str, Summary]) -> dict[str, Any]:
    changes = {name: against(summaries[group.reference], summaries[name]) for name in group.members}
    return {
        "name": group.name,
        "title": group.title,
        "reference": group.reference,
        "to_reference": {name: _estimate_json(change) for name, change in changes.items()},
    }


def _variant_json(summary: Summary, curve: Curve | None) -> dict[str, Any]:
    return {
        "title": summary.variant.title,
        "script": summary.variant.script,
        "flags": list(summary.variant.flags),
        "success": _estimate_json(summary.success),
        "to_warm_up": _estimate_json(summary.to_warm_up),
        "in_training": summary.in_training,
        "env_steps_per_success": summary.steps_per_success,
        "episode_length": summary.episode_length,
        "wall_s": summary.wall_s,
        "runs": [
            {
                "seed": run.seed,
                "env_steps": run.steps,
                "success_rate": run.results["success_rate"] if run.results else None,
                "wall_s": run.wall_s,
                "fault": run.fault or None,
            }
            for run in summary.runs
        ],
        "curve": asdict(curve) if curve else None,
    }


def _estimate_json(estimate: Estimate | None) -> dict[str, Any] | None:
    return asdict(estimate) if estimate else None
