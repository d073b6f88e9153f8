"""results.json of an AndroidLab evaluation, whose fields are described in docs/benchmarks.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from mobilerl.envs.androidlab.tasks import SUITE, LabTask, Skipped
from mobilerl.eval.report import EpisodeResult, build_results
from mobilerl.records import Status
from mobilerl.suites.androidlab.metrics import Score, metrics

LOST = "every try failed on a device"


@dataclass(frozen=True, slots=True)
class Record:
    """Episode of one task. If there is no outcome, `fault` says why, and the fields after it are meaningless."""

    task_id: str
    status: str
    steps: int
    wall_s: float
    device: str
    replies: list[str]
    """The model's output in each step."""
    fault: str = ""
    complete: bool = False
    sub_goals: Mapping[str, bool] = field(default_factory=dict)
    judged_steps: int = 0
    unchanged: int = 0
    """Number of judged steps whose screen equals the previous one (`metrics.count_unchanged`)."""
    judge_errors: list[str] = field(default_factory=list)
    """Errors of the judge in steps that AndroidLab therefore leaves out."""
    trial: int = 0
    invalid: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """As in `EpisodeResult`."""


def androidlab_results(
    protocol: Mapping[str, Any],
    tasks: Sequence[LabTask],
    records: Mapping[str, Record],
    human: Mapping[str, float],
    lost: Mapping[str, str],
    skipped: Sequence[Skipped] = (),
) -> dict[str, Any]:
    """Content of results.json. `records` holds episodes by task id; `lost` says why other tasks have no record."""
    episodes = [_episode(task, records.get(task.id), lost.get(task.id, "")) for task in tasks]
    results = build_results(SUITE, protocol, episodes)
    scores = {
        task.id: Score(r.complete, r.sub_goals, r.judged_steps, r.unchanged, human.get(task.id))
        for task in tasks
        if (r := records.get(task.id)) and not r.fault
    }
    for instance in results["instances"]:
        record, score = records.get(instance["task_id"]), scores.get(instance["task_id"])
        if record:
            instance |= {"wall_s": record.wall_s, "device": record.device, "judge_errors": list(record.judge_errors)}
        if score:
            instance |= {
                "sub_goals": dict(score.sub_goals),
                "judged_steps": score.steps,
                "unchanged": score.unchanged,
                "human_steps": score.human_steps,
            }
    return results | {
        "metrics": metrics(list(scores.values()), len(scores)),
        "metrics_errors_as_zero": metrics(list(scores.values()), len(tasks)),
        "errors_by_kind": {"device": len(tasks) - len(records), "judge": len(records) - len(scores)},
        "per_app": _per_app(episodes),
        "without_human_length": [i for i, s in scores.items() if s.complete and s.human_steps is None],
        "skipped": [asdict(task) for task in skipped],
        "steps_not_judged": sum(len(records[i].judge_errors) for i in scores),
    }


def _episode(task: LabTask, record: Record | None, lost: str) -> EpisodeResult:
    error = f"device: {lost or LOST}" if record is None else f"judge: {record.fault}" if record.fault else ""
    complete = record is not None and record.complete
    return EpisodeResult(
        *(task.id, task.id, task.app, True, "test", 0),
        reward=float(complete),
        success=complete,
        steps=record.steps if record else 0,
        status=Status.INFRA_ERROR if record is None or error else record.status,
        error=error,
        invalid=record.invalid if record else {},
    )


def _per_app(episodes: Sequence[EpisodeResult]) -> dict[str, dict[str, int]]:
    table: dict[str, dict[str, int]] = {}
    for e in episodes:
        row = table.setdefault(e.app, {"successes": 0, "trials": 0, "errors": 0})
        row["errors" if e.is_error else "trials"] += 1
        row["successes"] += e.success and not e.is_error
    return dict(sorted(table.items()))


def summary(results: Mapping[str, Any]) -> list[str]:
    """Lines of the summary that are specific to AndroidLab."""

    def show(values: Mapping[str, float | None]) -> str:
        return "  ".join(f"{name} {'--' if value is None else f'{value:.2f}'}" for name, value in values.items())

    lines = [show(results["metrics"]), f"{show(results['metrics_errors_as_zero'])}  with errors as zero"]
    if results["errors"]:
        kinds = ", ".join(f"{n} by the {kind}" for kind, n in results["errors_by_kind"].items() if n)
        lines.append(f"errors: {kinds}; the same command tries these tasks again")
    if results["without_human_length"]:
        lines.append(f"RRR leaves out {', '.join(results['without_human_length'])}: no human demonstration is known")
    if results["skipped"]:
        lines.append(f"skipped, and counted nowhere above: {', '.join(task['id'] for task in results['skipped'])}")
    if results["steps_not_judged"]:
        lines.append(f"{results['steps_not_judged']} steps were left out because their judge failed on them")
    return lines
