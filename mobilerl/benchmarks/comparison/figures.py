"""Figures of a comparison in the form in which they are saved as JSON: fractions, seconds and environment steps.

An estimate is {"mean", "interval": {"low", "high"} or None, "seeds"} with a 95 % interval; a difference also has "p",
and to the reference of its group "p_holm".
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple, cast

import numpy as np

from mobilerl.benchmarks.comparison.plan import Plan
from mobilerl.eval.intervals import Crossed, crossed, rates_of, rates_table, valid_episodes
from mobilerl.eval.report import read_results
from mobilerl.eval.statistics import Interval, holm, wilson_interval
from mobilerl.reachagent.metrics import MEASURES
from mobilerl.training.tracking import read_metrics

SFT = "sft"
RESULTS = Path("eval", "sim", "results.json")
PAGES_BEFORE, PAGES_AFTER = "pages-before", ("pages-after", "pages-stage1")
"""Evaluations of ReachAgent on page tasks: of the SFT policy, and of the trained policy (stage1 without DPO)."""
PROTOCOL = tuple("split instances_per_template trials templates temperature popup_rate screen step_budget seed".split())
LAST = 0.25
"""Final fraction of the budget over which success in training is reported."""
BINS = 20
"""Maximum number of points of a learning curve."""
Results = Mapping[str, Any]
"""Content of a results.json."""
Estimate = dict[str, Any]


class Point(NamedTuple):
    """Environment steps, episodes and successes of a run up to the end of an iteration."""

    steps: int
    episodes: float
    successes: float


@dataclass(frozen=True, slots=True)
class Run:
    seed: int
    points: Sequence[Point]
    results: Results
    cpu_s: float
    pages: tuple[Results, Results] | None
    """Results on the page tasks of the seed, before and after training."""


# --- reading -------------------------------------------------------------------------------------------------------


def run_folder(run_dir: Path, variant: str, seed: int) -> Path:
    return run_dir / variant / f"seed-{seed}"


def read_points(folder: Path) -> list[Point]:
    """Reads one point per iteration of a run that collected episodes."""
    points: list[Point] = []
    episodes = successes = 0.0
    for row in read_metrics(folder / "metrics.jsonl"):
        collected = row.get("rollout/trajectories") or 0
        episodes += collected
        successes += collected * (row.get("rollout/success_rate") or 0.0)
        steps = row.get("rollout/env_steps") or 0
        if collected and steps > (points[-1].steps if points else 0):
            points.append(Point(steps, episodes, successes))
    return points


def _read_run(folder: Path, seed: int) -> Run:
    points = read_points(folder)
    cpu_s = json.loads((folder / "job.json").read_bytes())["cpu_s"]
    before = folder / "eval" / PAGES_BEFORE / "results.json"
    after = [path for name in PAGES_AFTER if (path := folder / "eval" / name / "results.json").is_file()]
    pages = (read_results(before), read_results(after[0])) if after and before.is_file() else None
    return Run(seed, points, read_results(folder / RESULTS), cpu_s, pages)


def gather(
    plan: Plan,
    run_dir: Path,
    chosen: Sequence[str],
    seeds: Sequence[int],
    budget: int,
    faults: Mapping[tuple[str, int], str],
) -> dict[str, Any]:
    """Figures of all runs except those with a fault. Raises ValueError if the page tasks of a seed differ."""
    sft = read_results(run_dir / SFT / RESULTS)
    runs: dict[str, list[Run]] = {}
    for name in chosen:
        good = [seed for seed in seeds if (name, seed) not in faults]
        runs[name] = [_read_run(run_folder(run_dir, name, seed), seed) for seed in good]
    _check_page_tasks([run for found in runs.values() for run in found])
    evaluations = {name: [run.results for run in found] for name, found in runs.items()}
    groups = [
        {
            "title": group.title,
            "members": members,
            "vs_reference": compare(evaluations[members[0]], {m: evaluations[m] for m in members[1:]}),
        }
        for group, members in plan.tables(chosen)
    ]
    return {
        "schema": 4,
        "budget_env_steps": budget,
        "protocol": {key: sft["protocol"].get(key) for key in PROTOCOL},
        "sft": {"episodes": len(sft["instances"]), "success": success_of([sft]), "episode_length": _mean_length(sft)},
        "variants": {
            name: {
                **plan.variants[name].model_dump(mode="json"),
                **summarize(runs[name], sft, budget),
                "failed_seeds": [seed for seed in seeds if (name, seed) in faults],
            }
            for name in chosen
        },
        "groups": groups,
        "page_tasks": {name: found for name in chosen if (found := _page_figures(runs[name]))},
        "left_out": [f"{plan.variants[name].title}, seed {seed}: {fault}" for (name, seed), fault in faults.items()],
    }


# --- a variant -----------------------------------------------------------------------------------------------------


def summarize(runs: Sequence[Run], sft: Results, budget: int) -> dict[str, Any]:
    """Figures of a variant over its seeds; None for figures that none of its runs has."""
    online = [run for run in runs if run.points]
    successes = sum(run.points[-1].successes for run in online)
    return {
        "success": success_of([run.results for run in runs]),
        "vs_sft": difference([sft], [run.results for run in runs]),
        "in_training": fmean(_late_success(run, budget) for run in online) if online else None,
        "env_steps_per_success": sum(run.points[-1].steps for run in online) / successes if successes else None,
        "episode_length": fmean(_mean_length(run.results) for run in runs) if runs else None,
        "cpu_s": fmean(run.cpu_s for run in runs) if runs else None,
        "runs": [
            {
                "seed": run.seed,
                "env_steps": run.points[-1].steps if run.points else None,
                "success_rate": cast("Estimate", success_of([run.results]))["mean"],
                "templates": rates_of(run.results),
                "cpu_s": run.cpu_s,
            }
            for run in runs
        ],
        "curve": learning_curve([run.points for run in online], budget) if online else None,
    }


def success_of(evaluations: Sequence[Results]) -> Estimate | None:
    """Mean over seeds of the mean success rate over templates.

    If all rates are equal, there is no spread, and the interval is Wilson's for the episodes of a single seed.
    """
    if not evaluations:
        return None
    table = rates_table(evaluations)
    found = crossed(table)
    interval = found.interval if found else None
    if interval is None or interval.low == interval.high:
        interval = wilson_interval(evaluations[0]["successes"], evaluations[0]["trials"])
    interval = Interval(max(0.0, interval.low), min(1.0, interval.high))
    return _estimate(table.mean(), len(evaluations), interval)


def difference(before: Sequence[Results], after: Sequence[Results]) -> Estimate | None:
    """Difference `after - before` between evaluations over seeds, paired by template. None if either is empty."""
    if not before or not after:
        return None
    table = rates_table([*after, *before])
    rows, minus = table[: len(after)], table[len(after) :]
    return _change(rows.mean() - minus.mean(), len(after), crossed(rows, minus))


def _estimate(mean: float, seeds: int, interval: Interval | None) -> Estimate:
    return {"mean": float(mean), "interval": asdict(interval) if interval else None, "seeds": seeds}


def _change(mean: float, seeds: int, found: Crossed | None) -> Estimate:
    """A difference, which also has a p-value."""
    return _estimate(mean, seeds, found.interval if found else None) | {"p": found.p if found else None}


def compare(reference: Sequence[Results], others: Mapping[str, Sequence[Results]]) -> dict[str, Estimate | None]:
    """Differences to a reference, with p-values adjusted for the number of them by Holm's method (`p_holm`)."""
    found = {name: difference(reference, evaluations) for name, evaluations in others.items()}
    tested = [estimate for estimate in found.values() if estimate and estimate["p"] is not None]
    for estimate, adjusted in zip(tested, holm([estimate["p"] for estimate in tested]), strict=True):
        estimate["p_holm"] = adjusted
    return found


def _mean_length(results: Results) -> float:
    return fmean(episode["steps"] for episode in valid_episodes(results))


def _late_success(run: Run, budget: int) -> float:
    """Success rate of the training episodes in the last quarter of the budget, in whole iterations."""
    earlier = [point for point in run.points[:-1] if point.steps <= (1 - LAST) * budget]
    episodes, successes = (earlier[-1].episodes, earlier[-1].successes) if earlier else (0.0, 0.0)
    last = run.points[-1]
    return (last.successes - successes) / (last.episodes - episodes)


def learning_curve(runs: Sequence[Sequence[Point]], budget: int) -> dict[str, Any]:
    """Success rates in equal parts of the budget: mean, minimum and maximum over seeds; `steps` are the midpoints.

    Episodes and successes are interpolated within iterations, so that algorithms with short and long iterations are
    averaged over the same parts. There are at most `BINS` parts, and no more than the shortest run has iterations.
    """
    edges = np.linspace(0, budget, 1 + min(BINS, *map(len, runs)))
    rates = []
    for points in runs:
        counts = np.array([(0, 0, 0), *points], float)
        episodes, successes = (np.diff(np.interp(edges, counts[:, 0], counts[:, i])) for i in (1, 2))
        rates.append(successes / episodes)
    shown = {"steps": (edges[1:] + edges[:-1]) / 2}
    shown |= {"mean": np.mean(rates, axis=0), "low": np.min(rates, axis=0), "high": np.max(rates, axis=0)}
    return {name: values.tolist() for name, values in shown.items()} | {"seeds": len(runs)}


# --- page tasks of ReachAgent --------------------------------------------------------------------------------------


def _check_page_tasks(runs: Sequence[Run]) -> None:
    tasks: dict[int, set[str]] = {}
    for run in runs:
        tasks.setdefault(run.seed, set()).update(r["protocol"]["tasks_sha256"] for r in run.pages or ())
    if differ := [seed for seed, found in tasks.items() if len(found) > 1]:
        raise ValueError(f"evaluations with seed {differ[0]} have different page tasks: repeat its runs")


def _page_figures(runs: Sequence[Run]) -> dict[str, Any] | None:
    found = [(run.seed, *run.pages) for run in runs if run.pages]
    if not found:
        return None
    return {
        "vs_sft": estimate_paired(
            [_page_rate(after, "success") - _page_rate(before, "success") for _, before, after in found]
        ),
        "runs": [
            {
                "seed": seed,
                "tasks": len(after["instances"]),
                "sft": {m: _page_rate(before, m) for m in MEASURES.values()},
                "policy": {m: _page_rate(after, m) for m in MEASURES.values()},
            }
            for seed, before, after in found
        ],
    }


def _page_rate(results: Results, measure: str) -> float:
    return results["success_rate"] if measure == "success" else results["accuracy"][measure]


def estimate_paired(changes: Sequence[float]) -> Estimate | None:
    """Estimate of the mean of differences, one per seed."""
    if not changes:
        return None
    return _change(fmean(changes), len(changes), crossed(np.array([[c] for c in changes])))
