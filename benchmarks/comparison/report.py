"""The comparison as Markdown, JSON and a picture, and as a section of docs/results.md."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.comparison.curves import Curve, draw, learning_curve
from benchmarks.comparison.figures import (
    Estimate,
    Summary,
    difference,
    markdown_table,
    percent,
    points,
    success_of,
    summarise,
)
from benchmarks.comparison.pages import PAGE_METHOD, PageRun, page_table, pages_json, read_page_run
from benchmarks.comparison.plan import Group, Plan
from benchmarks.comparison.runs import PROTOCOL, RESULTS, SFT, check_comparable, mean_length, read_run, run_folder
from mobilerl.atomic_files import write_atomic
from mobilerl.eval.report import read_results

SCHEMA = 2
BEGIN, END = "<!-- comparison:begin -->", "<!-- comparison:end -->"
PICTURE = "learning-curves.png"
METHOD = """\
Success is greedy, on the same held-out instances for all, with 95 % intervals over seeds and task templates (crossed
random effects, Student's quantile). Differences are in points, paired by template. *In training*: success rate of the
sampled episodes in the last quarter of the budget. *Steps per success*: environment steps by successful episodes of
training. *Episode*: mean length on the held-out instances. *Minutes* of training compare only between runs with as many
cores."""


@dataclass(frozen=True, slots=True)
class Comparison:
    plan: Plan
    command: str
    budget: int
    jobs: int
    groups: Mapping[str, Group]
    summaries: Mapping[str, Summary]
    sft: Mapping[str, Any]
    """The evaluation of the checkpoint that all runs start from."""
    curves: Mapping[str, Curve]
    pages: Mapping[str, Sequence[PageRun]]
    """Results of the variants with page tasks."""

    def title(self, name: str) -> str:
        return self.plan.variants[name].title

    @property
    def faults(self) -> list[str]:
        runs = [(name, run) for name, summary in self.summaries.items() for run in summary.runs]
        return [f"{self.title(name)}, seed {run.seed}: {run.fault}" for name, run in runs if run.fault]

    def vs_reference(self, group: Group, name: str) -> Estimate | None:
        reference = group.members[0]
        if name == reference:
            return None
        return difference(self.summaries[reference].evaluations, self.summaries[name].evaluations)


def gather(
    plan: Plan, run_dir: Path, chosen: Sequence[str], seeds: Sequence[int], budget: int, jobs: int, command: str
) -> Comparison:
    """Reads all runs. Raises ValueError if evaluations have different tasks or the SFT checkpoint has none."""
    sft = read_results(run_dir / SFT / RESULTS)
    weights = sft["protocol"]["weights_sha256"]
    budgets = {name: None if plan.variants[name].offline else budget for name in chosen}
    runs = {name: [read_run(run_dir, name, seed, budgets[name], weights) for seed in seeds] for name in chosen}
    evaluations = {f"{name}, seed {r.seed}": r.results for name, rs in runs.items() for r in rs if not r.fault}
    check_comparable({SFT: sft, **evaluations})
    curves = {name: learning_curve(runs[name], budget) for name in chosen}
    pages = {}
    for name, rs in runs.items():
        found = [read_page_run(run_folder(run_dir, name, r.seed), r.seed) for r in rs if not r.fault]
        pages[name] = [run for run in found if run]
    return Comparison(
        plan,
        command,
        budget,
        jobs,
        plan.tables(chosen),
        {name: summarise(runs[name], sft, budget) for name in chosen},
        sft,
        {name: curve for name, curve in curves.items() if curve},
        {name: found for name, found in pages.items() if found},
    )


def write(comparison: Comparison, run_dir: Path, docs: Path | None) -> str:
    """Writes Markdown, JSON and picture into the run directory and, as a section of results.md, into `docs`.

    Returns the Markdown.
    """
    content = (json.dumps(as_json(comparison), indent=1, allow_nan=False) + "\n").encode()
    titles = {name: comparison.title(name) for name in comparison.summaries}
    for folder, picture in ((docs, f"images/{PICTURE}"), (run_dir, PICTURE)):
        if folder is not None:
            drawn = draw(folder / picture, list(comparison.groups.values()), titles, comparison.curves)
            text = markdown(comparison, picture if drawn else None)
            write_atomic(folder / "comparison.json", content)
            if folder == run_dir:
                write_atomic(run_dir / "comparison.md", f"{text}\n".encode())
            else:
                page = folder / "results.md"
                write_atomic(page, with_section(page.read_text() if page.is_file() else "# Results\n", text).encode())
    return text


def with_section(page: str, text: str) -> str:
    """The page with `text` between the marks, or at its end if it has none. ValueError for a single mark."""
    section = f"{BEGIN}\n{text}\n{END}"
    if BEGIN not in page and END not in page:
        return f"{page.rstrip()}\n\n{section}\n"
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"results.md has only one of {BEGIN} and {END}, or in the wrong order: restore or remove both")
    return before + section + after


# --- Markdown ------------------------------------------------------------------------------------------------------


def markdown(comparison: Comparison, picture: str | None) -> str:
    protocol = comparison.sft["protocol"]
    blocks = [
        "## Comparison of algorithms and ablations",
        f"All start from the same SFT checkpoint and train for {comparison.budget:,} environment steps "
        f"({comparison.jobs} at a time); {len(comparison.sft['instances'])} held-out episodes for each policy "
        f"({protocol['split']} split, {100 * protocol['popup_rate']:g} % with a pop-up).",
        f"    {comparison.command}",
    ]
    for group in comparison.groups.values():
        blocks += [f"### {group.title}", _group_table(comparison, group)]
        titles = {name: comparison.title(name) for name in group.members}
        if table := page_table(titles, comparison.pages):
            blocks += ["On page tasks:", table]
    if picture:
        blocks += [f"![Success in training against environment steps, for each group]({picture})"]
    blocks += [METHOD, *([PAGE_METHOD] if comparison.pages else [])]
    if offline := [comparison.title(n) for n in comparison.summaries if comparison.plan.variants[n].offline]:
        blocks += [f"Offline, so without a budget of environment steps: {', '.join(offline)}."]
    if comparison.faults:
        blocks += ["**Left out:**\n\n" + "\n".join(f"- {fault}" for fault in comparison.faults)]
    return "\n\n".join(blocks)


def _group_table(comparison: Comparison, group: Group) -> str:
    header = ["policy", "seeds", "success", "by seed", "vs SFT", f"vs {comparison.title(group.members[0])}"]
    header += ["in training", "steps per success", "episode", "minutes"]
    sft = comparison.sft
    rows = [["SFT", "", _rate(success_of([sft])), *[""] * 5, f"{mean_length(sft):.1f}", ""]]
    for name in group.members:
        summary = comparison.summaries[name]
        count, total = len(summary.evaluations), len(summary.runs)
        rows.append(
            [
                comparison.title(name),
                str(total) if count == total else f"{count} of {total}",
                _rate(summary.success),
                ", ".join(f"{100 * success_of([results]).mean:.1f}" for results in summary.evaluations),
                points(summary.vs_sft),
                points(comparison.vs_reference(group, name)),
                "" if summary.in_training is None else percent(summary.in_training),
                _number(summary.steps_per_success),
                _number(summary.episode_length),
                _number(summary.wall_s, 60),
            ]
        )
    return markdown_table(header, rows)


def _rate(estimate: Estimate | None) -> str:
    if estimate is None:
        return "--"
    return f"{percent(estimate.mean)} ({100 * estimate.interval.low:.1f} to {100 * estimate.interval.high:.1f})"


def _number(value: float | None, unit: float = 1.0) -> str:
    return "" if value is None else f"{value / unit:.1f}"


# --- JSON ----------------------------------------------------------------------------------------------------------


def as_json(comparison: Comparison) -> dict[str, Any]:
    """The figures of the tables and curves. Rates and intervals are shares, times are seconds."""
    protocol = comparison.sft["protocol"]
    groups = []
    for name, group in comparison.groups.items():
        changes = {member: _json(comparison.vs_reference(group, member)) for member in group.members}
        groups.append({"name": name, **group.model_dump(), "vs_reference": changes})
    return {
        "schema": SCHEMA,
        "command": comparison.command,
        "budget_env_steps": comparison.budget,
        "jobs": comparison.jobs,
        "protocol": {key: protocol.get(key) for key in PROTOCOL},
        "sft": {"success_rate": comparison.sft["success_rate"]},
        "variants": {name: _variant_json(comparison, name) for name in comparison.summaries},
        "groups": groups,
        "page_tasks": {name: pages_json(runs) for name, runs in comparison.pages.items()},
        "left_out": comparison.faults,
    }


def _variant_json(comparison: Comparison, name: str) -> dict[str, Any]:
    summary = comparison.summaries[name]
    return {
        **comparison.plan.variants[name].model_dump(),
        "success": _json(summary.success),
        "vs_sft": _json(summary.vs_sft),
        "in_training": summary.in_training,
        "env_steps_per_success": summary.steps_per_success,
        "episode_length": summary.episode_length,
        "wall_s": summary.wall_s,
        "runs": [
            {
                "seed": run.seed,
                "env_steps": run.points[-1].steps if run.points else None,
                "success_rate": run.results["success_rate"] if run.results else None,
                "wall_s": run.wall_s,
                "fault": run.fault or None,
            }
            for run in summary.runs
        ],
        "curve": _json(comparison.curves.get(name)),
    }


def _json(value: Estimate | Curve | None) -> dict[str, Any] | None:
    return asdict(value) if value else None
