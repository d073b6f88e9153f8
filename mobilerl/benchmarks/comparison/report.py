"""Writes a comparison as Markdown and as an image of learning curves, from the result of `figures.gather`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import matplotlib
import numpy as np

from mobilerl.benchmarks.comparison.figures import Estimate, estimate_paired
from mobilerl.reachagent.metrics import MEASURES
from mobilerl.system.atomic_files import write_atomic

IMAGE = "learning-curves.png"
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's palette, which is safe for color blindness."""
DASHES = ("-", "--", "-.", ":")
METHOD = """\
Success is greedy, on the same held-out instances for all, with 95 % intervals over seeds and task templates (crossed
random effects, Student's quantile). Differences are in points, paired by template; p is adjusted by Holm's method for
all differences to the first policy of a table. *In training*: success rate of the sampled episodes in the last quarter
of the budget. *Steps per success*: environment steps by successful episodes of training. *Episode*: mean length on the
held-out instances. *Core minutes*: CPU time of training."""
PAGE_METHOD = """\
*Page tasks* differ with every seed, which explores and holds out its own, and are the same for all variants of a seed.
Steps and tasks are right by the place tapped (IoU) or by its text along the shortest path; a task succeeds if the
policy reaches its goal on the graph. Differences of task success, in points, are paired by seed."""


def write(found: Mapping[str, Any], run_dir: Path) -> str:
    """Writes comparison.json, comparison.md and the image, and returns the Markdown."""
    write_atomic(run_dir / "comparison.json", (json.dumps(found, indent=1, allow_nan=False) + "\n").encode())
    draw(run_dir / IMAGE, found)
    text = markdown(found)
    write_atomic(run_dir / "comparison.md", f"{text}\n".encode())
    return text


# --- Markdown ------------------------------------------------------------------------------------------------------


def markdown(found: Mapping[str, Any]) -> str:
    protocol, variants = found["protocol"], found["variants"]
    blocks = [
        "## Comparison of algorithms and ablations",
        f"All start from the same SFT checkpoint and train for {found['budget_env_steps']:,} environment steps "
        f"({found['jobs']} at a time); {found['sft']['episodes']} held-out episodes for each policy "
        f"({protocol['split']} split, {100 * protocol['popup_rate']:g} % with a pop-up).",
        f"    {found['command']}",
    ]
    for group in found["groups"]:
        blocks += [f"### {group['title']}", _group_table(found, group)]
        if group["members"][0] in found["page_tasks"]:
            blocks += ["On page tasks:", _page_table(found, group)]
    blocks += [f"![Success in training against environment steps, for each group]({IMAGE})", METHOD]
    if found["page_tasks"]:
        blocks += [PAGE_METHOD]
    if offline := [variant["title"] for variant in variants.values() if variant["offline"]]:
        blocks += [f"Offline, so without a budget of environment steps: {', '.join(offline)}."]
    if found["left_out"]:
        blocks += ["**Left out:**\n\n" + "\n".join(f"- {fault}" for fault in found["left_out"])]
    return "\n\n".join(blocks)


def _group_table(found: Mapping[str, Any], group: Mapping[str, Any]) -> str:
    variants, sft = found["variants"], found["sft"]
    header = ["policy", "seeds", "success", "by seed", "vs SFT", f"vs {variants[group['members'][0]]['title']}"]
    header += ["in training", "steps per success", "episode", "core minutes"]
    rows = [["SFT", "", _rate(sft["success"]), *[""] * 5, f"{sft['episode_length']:.1f}", ""]]
    for name in group["members"]:
        variant = variants[name]
        rows.append(
            [
                variant["title"],
                str(len(variant["runs"])),
                _rate(variant["success"]) if variant["runs"] else "failed",
                ", ".join(_by_seed(variant)),
                _points(variant["vs_sft"]),
                _points(group["vs_reference"].get(name)),
                "" if variant["in_training"] is None else _percent(variant["in_training"]),
                _number(variant["env_steps_per_success"]),
                _number(variant["episode_length"]),
                _number(variant["cpu_s"] if "cpu_s" in variant else variant["wall_s"], 60),  # before schema 4
            ]
        )
    return _table(header, rows)


def _by_seed(variant: Mapping[str, Any]) -> list[str]:
    rates = {run["seed"]: f"{100 * run['success_rate']:.1f}" for run in variant["runs"]}
    failed = dict.fromkeys(variant.get("failed_seeds", ()), "failed")  # missing in figures of earlier versions
    return [rate for _, rate in sorted((rates | failed).items())]


def _page_table(found: Mapping[str, Any], group: Mapping[str, Any]) -> str:
    """Table of the SFT policy and the group's members with page tasks; task success is paired with the first member."""
    pages, first = found["page_tasks"], group["members"][0]
    reference = {run["seed"]: run["policy"]["success"] for run in pages[first]["runs"]}
    header = ["policy", *MEASURES, "task success by seed", "vs SFT", f"vs {found['variants'][first]['title']}"]
    rows = [["SFT", *_page_rates([run["sft"] for run in pages[first]["runs"]]), "", ""]]
    for name in group["members"]:
        if name not in pages:
            continue
        runs = pages[name]["runs"]
        changes = [r["policy"]["success"] - reference[r["seed"]] for r in runs if r["seed"] in reference]
        beside = "" if name == first else _points(estimate_paired(changes))
        rates = _page_rates([run["policy"] for run in runs])
        rows.append([found["variants"][name]["title"], *rates, _points(pages[name]["vs_sft"]), beside])
    return _table(header, rows)


def _page_rates(rates: Sequence[Mapping[str, float]]) -> list[str]:
    means = [_percent(fmean(r[measure] for r in rates)) for measure in MEASURES.values()]
    return [*means, ", ".join(f"{100 * r['success']:.1f}" for r in rates)]


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _rate(estimate: Estimate | None) -> str:
    if estimate is None:
        return "--"
    low, high = estimate["interval"]["low"], estimate["interval"]["high"]
    return f"{_percent(estimate['mean'])} ({100 * low:.1f} to {100 * high:.1f})"


def _points(estimate: Estimate | None) -> str:
    """A difference in percentage points, with its interval."""
    if estimate is None:
        return ""
    interval = estimate["interval"]
    adjusted = f", p {estimate['p_holm']:.2g}" if "p_holm" in estimate else ""
    spread = f" ({100 * interval['low']:+.1f} to {100 * interval['high']:+.1f}{adjusted})" if interval else ""
    return f"{100 * estimate['mean']:+.1f}{spread}"


def _number(value: float | None, unit: float = 1.0) -> str:
    return "" if value is None else f"{value / unit:.1f}"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (header, ["---"] * len(header), *rows))


# --- learning curves -----------------------------------------------------------------------------------------------


def draw(path: Path, found: Mapping[str, Any]) -> None:
    """Draws a panel per group: success in training against environment steps."""
    matplotlib.use("Agg")
    from matplotlib import pyplot

    groups = [g for g in found["groups"] if any(found["variants"][name]["curve"] for name in g["members"])]
    columns = min(2, len(groups)) or 1
    rows = -(-len(groups) // columns) or 1
    figure, axes = pyplot.subplots(
        rows, columns, figsize=(10, 3.4 * rows + 0.4), squeeze=False, sharey=True, layout="constrained"
    )
    for axis in axes.flat[len(groups) :]:
        axis.remove()
    for axis, group in zip(axes.flat, groups, strict=False):
        for i, name in enumerate(group["members"]):
            if curve := found["variants"][name]["curve"]:
                style = {"color": COLORS[i % len(COLORS)], "linestyle": DASHES[i % len(DASHES)]}
                label = f"{found['variants'][name]['title']} ({curve['seeds']} seeds)"
                _plot(axis, curve, label, style)
        axis.set_title(group["title"])
        axis.set(xlabel="environment steps, thousands", ylabel="success, %")
        axis.grid(alpha=0.25)
        axis.legend(fontsize=8)
    figure.suptitle("Success in training, mean of the seeds (band: minimum to maximum)")
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _plot(axis: Any, curve: Mapping[str, Any], label: str, style: Mapping[str, str]) -> None:
    steps, *rates = (np.array(curve[name]) for name in ("steps", "mean", "low", "high"))
    mean, low, high = (100 * values for values in rates)
    axis.plot(steps / 1000, mean, label=label, **style)
    axis.fill_between(steps / 1000, low, high, color=style["color"], alpha=0.15, linewidth=0)
