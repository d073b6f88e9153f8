"""results.json of an AndroidWorld evaluation, whose fields are described in docs/benchmarks.md.

Only the full score is a success; partial scores of composite tasks count only in `mean_score`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from statistics import fmean, stdev
from typing import Any

from mobilerl.envs.androidworld.env import Episode
from mobilerl.envs.androidworld.faults import ServerFault
from mobilerl.envs.androidworld.tasks import SUITE
from mobilerl.envs.base import InfraError, Task
from mobilerl.eval.report import EpisodeResult, build_results, percent
from mobilerl.eval.statistics import student_quantile
from mobilerl.records import Trajectory

_FIELDS = tuple(f.name for f in fields(EpisodeResult))

Record = Mapping[str, Any]
"""Fields of `EpisodeResult` and those that `record_of` adds."""


def record_of(
    task: Task, trajectory: Trajectory | None, said: Episode | None, fault: InfraError | None = None
) -> dict[str, Any]:
    """Record of an episode for the journal and the results. `trajectory` is None if it was lost to `fault`."""
    kind = fault.kind if isinstance(fault, ServerFault) else ServerFault.kind
    error = str(fault or "the episode missed its deadline")
    result = EpisodeResult.of(task, "test", task.params["run"], trajectory, error)
    result = replace(result, success=result.reward >= 1.0)
    return {
        **asdict(result),
        "error_kind": kind if trajectory is None else "",
        "goal": said.goal if said else task.instruction,
        "probe": said.probe if said else None,
        "raw_score": said.raw_score if said and trajectory is not None else None,
        "said_done": bool(said and trajectory is not None and said.said_done),
        "server": "" if trajectory is None else trajectory.device_id,
        "wall_s": 0.0 if trajectory is None else round(trajectory.wall_s, 3),
        "steps_without_tree": 0 if trajectory is None else sum(not s.observation.xml for s in trajectory.steps),
    }


def androidworld_results(protocol: Mapping[str, Any], records: Sequence[Record]) -> dict[str, Any]:
    episodes = [EpisodeResult(**{name: r[name] for name in _FIELDS if name in r}) for r in records]
    results = build_results(SUITE, protocol, episodes)
    results["instances"] = [{**r, **instance} for instance, r in zip(results["instances"], records, strict=True)]
    valid = [r for r, e in zip(records, episodes, strict=True) if not e.is_error]
    free = sorted({r["task_id"] for r in records if (r["probe"] or 0) > 0})
    earned = [r for r in records if r["task_id"] not in free]
    kinds = Counter(r["error_kind"] for r in records if r["error_kind"])
    return results | {
        "mean_score": _mean([r["reward"] for r in valid]),
        "mean_score_errors_as_zero": _mean([r["reward"] for r in records]),
        "runs": _runs(records),
        "errors_by_kind": {kind: kinds[kind] for kind in ("infrastructure", "environment", "nan")},
        "free_reward": {
            "task_ids": free,
            "success_rate_without": _rate(earned),
            "success_rate_without_errors_as_zero": _rate(earned, errors_as_zero=True),
        },
        "reached_unsaid": sum(r["raw_score"] == 1.0 and not r["said_done"] for r in valid),
    }


def _runs(records: Sequence[Record]) -> dict[str, Any]:
    numbers = sorted({r["trial"] for r in records})
    by_run = [[r for r in records if r["trial"] == number] for number in numbers]
    rates = [_rate(run) for run in by_run]
    known = [rate for rate in rates if rate is not None]
    return {
        "success_rate": rates,
        "success_rate_errors_as_zero": [_rate(run, errors_as_zero=True) for run in by_run],
        "mean": _mean(known),
        "ci95": t_interval(known),
    }


def t_interval(values: Sequence[float]) -> list[float] | None:
    """95 % confidence interval of the mean of a few values by Student's t; None for fewer than two."""
    n = len(values)
    if n < 2:
        return None
    half = student_quantile(n - 1) * stdev(values) / math.sqrt(n)
    return [fmean(values) - half, fmean(values) + half]


def _rate(records: Sequence[Record], errors_as_zero: bool = False) -> float | None:
    return _mean([float(r["success"]) for r in records if errors_as_zero or not r["error_kind"]])


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None


def summary(results: Mapping[str, Any]) -> list[str]:
    """Lines of the summary that are specific to AndroidWorld."""
    lines = [f"AndroidWorld's own number (mean score): {_both(results, 'mean_score')}"]
    runs, free, count = results["runs"], results["free_reward"], results["errors_by_kind"]
    if runs["ci95"]:
        low, high = map(percent, runs["ci95"])
        lines.append(
            f"mean over {len(runs['success_rate'])} runs: {percent(runs['mean'])}  95% interval {low} to {high}"
        )
    if free["task_ids"]:
        without = _both(free, "success_rate_without")
        lines.append(f"{len(free['task_ids'])} instances give their reward for nothing; without them {without}")
    if count["infrastructure"]:
        what = f"{count['infrastructure']} infrastructure errors (server or phone)"
        lines.append(f"{what}: the same command runs these episodes again")
    if raised := sorted({i["template"] for i in results["instances"] if i["error_kind"] in ("environment", "nan")}):
        lines.append(f"AndroidWorld's own code raised in {', '.join(raised)}: its server's log has the traceback")
    if results["reached_unsaid"]:
        lines.append(f"{results['reached_unsaid']} failed episodes had reached the goal, but the agent never said so")
    return lines


def _both(results: Mapping[str, Any], name: str) -> str:
    return f"{percent(results[name])}, {percent(results[f'{name}_errors_as_zero'])} with errors as zero"
