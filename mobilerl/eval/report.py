"""results.json with the results of an evaluation (fields: docs/files.md), and comparison of two evaluations."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.console import Console
from rich.markup import escape

from mobilerl.envs.base import Task
from mobilerl.eval.statistics import (
    PairedDifference,
    cluster_bootstrap_interval,
    paired_difference,
    pass_at_k,
    wilson_interval,
)
from mobilerl.policy.unreadable import MANY, NO_PARSER, Why, count_unreadable
from mobilerl.records import Status, Trajectory
from mobilerl.system.atomic_files import write_atomic
from mobilerl.system.terminal import make_console, make_table

SCHEMA = 1
LONGEST_LINE = 160
RESULTS = "results.json"
UNSEEN = "unseen_templates"
"""Field of the embedded phone's results for templates that were never trained on."""


@dataclass(frozen=True, slots=True)
class EpisodeResult:
    """One attempt (`trial`) at one instance (`task_id`) of a task `template`."""

    task_id: str
    template: str
    app: str
    feasible: bool
    split: str
    trial: int
    reward: float
    success: bool
    steps: int
    status: str
    error: str = ""
    invalid: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """`count` and `first` response of the responses that could not be read, by reason
    (`mobilerl.policy.unreadable`)."""

    @classmethod
    def of(cls, task: Task, split: str, trial: int, trajectory: Trajectory | None, error: str = "") -> EpisodeResult:
        """Makes the result of a trajectory, or of an episode lost to the infrastructure `error` if that is None."""
        t = trajectory
        return cls(
            *(task.id, task.template, task.app, task.feasible, split, trial),
            reward=t.reward if t else 0.0,
            success=t is not None and t.success,
            steps=len(t.steps) if t else 0,
            status=str(t.status if t else Status.INFRA_ERROR),
            error="" if t else error,
            invalid=count_unreadable(t.steps) if t else {},
        )

    @property
    def is_error(self) -> bool:
        """Whether the device failed, so that the episode does not count."""
        return self.status == Status.INFRA_ERROR


def build_results(suite: str, protocol: Mapping[str, Any], episodes: Sequence[EpisodeResult]) -> dict[str, Any]:
    """Builds the content of results.json. Raises ValueError without episodes or if one occurs twice."""
    if not episodes:
        raise ValueError(f"suite {suite}: there are no episodes to report")
    (task_id, trial), count = Counter((e.task_id, e.trial) for e in episodes).most_common(1)[0]
    if count > 1:
        raise ValueError(f"suite {suite}: trial {trial} of {task_id} is there twice")
    valid = [e for e in episodes if not e.is_error]
    successes = sum(e.success for e in valid)
    ci = wilson_interval(successes, len(valid))
    by_task = {name: [float(e.success) for e in group] for name, group in _group_by(valid, "template").items()}
    spread = cluster_bootstrap_interval(by_task) if len(by_task) > 1 else None
    return {
        "schema": SCHEMA,
        "suite": suite,
        "protocol": dict(protocol),
        "success_rate": successes / len(valid) if valid else None,
        "ci95": [ci.low, ci.high],
        "ci95_by_task": [spread.low, spread.high] if spread else None,
        "success_rate_errors_as_zero": successes / len(episodes),
        "trials": len(valid),
        "successes": successes,
        "errors": len(episodes) - len(valid),
        "per_task": _per_task(episodes),
        "invalid_replies": invalid_responses([e.invalid for e in episodes], sum(e.steps for e in episodes)),
        "pass_at_k": _pass_at_k(valid),
        "instances": [{**asdict(e), "status": str(e.status), "invalid": _counts(e)} for e in episodes],
    }


def _counts(episode: EpisodeResult) -> dict[str, int]:
    return {why: entry["count"] for why, entry in episode.invalid.items()}


def invalid_responses(counted: Iterable[Mapping[str, Mapping[str, Any]]], responses: int) -> dict[str, Any]:
    """Responses that could not be read: their number, share of all `responses`, and by reason count and first
    response."""
    reasons: dict[str, dict[str, Any]] = {}
    for found in counted:
        for why, entry in found.items():
            total = reasons.setdefault(why, {"count": 0, "first": entry["first"]})
            total["count"] += entry["count"]
    count = sum(entry["count"] for entry in reasons.values())
    by_count = dict(sorted(reasons.items(), key=lambda item: -item[1]["count"]))
    return {"count": count, "rate": count / responses if responses else None, "reasons": by_count}


def _group_by(episodes: Sequence[EpisodeResult], field: str) -> dict[str, list[EpisodeResult]]:
    groups: dict[str, list[EpisodeResult]] = defaultdict(list)
    for e in episodes:
        groups[getattr(e, field)].append(e)
    return dict(sorted(groups.items()))


def _per_task(episodes: Sequence[EpisodeResult]) -> dict[str, dict[str, Any]]:
    table = {}
    for name, group in _group_by(episodes, "template").items():
        valid = [e for e in group if not e.is_error]
        table[name] = {
            "app": group[0].app,
            "feasible": group[0].feasible,
            "successes": sum(e.success for e in valid),
            "trials": len(valid),
            "errors": len(group) - len(valid),
            "mean_steps": fmean(e.steps for e in valid) if valid else None,
        }
    return table


def _pass_at_k(valid: Sequence[EpisodeResult]) -> dict[str, float]:
    counts = [(len(group), sum(e.success for e in group)) for group in _group_by(valid, "task_id").values()]
    fewest = min((n for n, _ in counts), default=0)
    ks = [2**i for i in range(fewest.bit_length())]
    return {str(k): fmean(pass_at_k(n, c, k) for n, c in counts) for k in ks}


def write_results(path: Path | str, results: Mapping[str, Any]) -> None:
    write_atomic(Path(path), (json.dumps(results, indent=2, allow_nan=False) + "\n").encode())


def read_results(path: Path | str) -> dict[str, Any]:
    """Reads a results.json. Raises ValueError naming the file if it is not one."""
    if not Path(path).is_file():
        raise ValueError(f"{path}: there is no such results.json")
    try:
        results = json.loads(Path(path).read_bytes())
    except ValueError as error:
        raise ValueError(f"{path}: not JSON: {error}") from error
    if not isinstance(results, dict) or results.get("schema") != SCHEMA:
        raise ValueError(f"{path}: not a results.json of schema {SCHEMA}")
    return results


def percent(value: float | None) -> str:
    return "--" if value is None else f"{100 * value:.1f}%"


def print_results(results: Mapping[str, Any], console: Console | None = None) -> None:
    """Prints the protocol, a table of task templates, and the success rate with its intervals."""
    console = console or make_console()
    console.print(f"[bold]{escape(results['suite'])}[/bold]")
    for key, value in results["protocol"].items():
        console.print(f"  {key}: {value}", markup=False)
    table = make_table("task", "app", "success", "trials", "errors", "mean steps", whole="task")
    for name, task in results["per_task"].items():
        rate = task["successes"] / task["trials"] if task["trials"] else None
        steps = "--" if task["mean_steps"] is None else f"{task['mean_steps']:.1f}"
        label = escape(name if task["feasible"] else f"{name} (infeasible)")
        table.add_row(label, escape(task["app"]), percent(rate), str(task["trials"]), str(task["errors"]), steps)
    console.print(table)
    low, high = results["ci95"]
    console.print(
        f"success rate [bold]{percent(results['success_rate'])}[/bold]  95% interval {percent(low)} to {percent(high)}"
        f"  ({results['successes']}/{results['trials']} trials)"
    )
    if errors := results["errors"]:
        console.print(f"{errors} infra errors; {percent(results['success_rate_errors_as_zero'])} with them as failures")
    for line in invalid_lines(results):
        console.print(line, style="yellow", markup=False, highlight=False)
    if results["ci95_by_task"]:
        low, high = results["ci95_by_task"]
        console.print(f"95% interval over tasks {percent(low)} to {percent(high)}")
    if len(results["pass_at_k"]) > 1:
        console.print("  ".join(f"pass@{k} {percent(v)}" for k, v in results["pass_at_k"].items()))


def invalid_lines(results: Mapping[str, Any]) -> list[str]:
    """What to print about responses that could not be read, if they are many."""
    invalid = results.get("invalid_replies") or {}  # results of version 0.1 have none
    if (invalid.get("rate") or 0.0) <= MANY:
        return []
    lines = [f"{percent(invalid['rate'])} of the responses could not be read ({invalid['count']}):"]
    lines += [
        f"  {why} {entry['count']}, the first: {' '.join(entry['first'].split())[:LONGEST_LINE]!r}"
        for why, entry in invalid["reasons"].items()
    ]
    without_call = sum(invalid["reasons"].get(why, {"count": 0})["count"] for why in (Why.NO_TEXT, Why.NO_CALL))
    if "model_server" in results["protocol"] and 2 * without_call > invalid["count"]:
        lines.append(f"  if the model wrote calls and the server took them out of the text: {NO_PARSER}")
    return lines


def difference(a: Mapping[str, Any], b: Mapping[str, Any]) -> PairedDifference:
    """Paired difference `b - a` of two results. Raises ValueError if they do not have the same instances.

    An instance is left out if all its trials in one of the results were infra errors.
    """
    if a["suite"] != b["suite"]:
        raise ValueError(f"the evaluations are of different suites: {a['suite']!r} and {b['suite']!r}")
    return paired_difference(_instance_rates(a), _instance_rates(b))


def _instance_rates(results: Mapping[str, Any]) -> dict[str, float | None]:
    """Success rate of each instance over its valid trials; None without any."""
    outcomes: dict[str, list[float]] = {}
    for episode in results["instances"]:
        values = outcomes.setdefault(episode["task_id"], [])
        if episode["status"] != Status.INFRA_ERROR:
            values.append(float(episode["success"]))
    return {name: fmean(values) if values else None for name, values in outcomes.items()}
