"""results.json of an AndroidLab evaluation: what docs/files.md says of every suite's, and beside it

metrics                  SR, Sub-SR, RRR and ROR in percent over the tasks that gave an outcome
metrics_errors_as_zero   the same over all tasks that were chosen
errors_by_kind           device: every try failed on a device; judge: the episode was played and not judged
per_app                  {app: {successes, trials, errors}}
without_human_length     completed tasks that RRR leaves out, for the checkout has no human demonstration of them
skipped                  tasks that were asked for and cannot be used: {id, app, reason}; no other field counts them
steps_not_judged         steps at which a judge failed, and AndroidLab leaves out
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from envs.androidlab.tasks import SUITE, LabTask, Skipped
from mobilerl.eval.androidlab.metrics import Score, metrics
from mobilerl.eval.androidlab.store import Record
from mobilerl.eval.policies import REFUSED
from mobilerl.eval.report import EpisodeResult, build_results
from mobilerl.records import Status

LOST = "every try failed on a device"


def androidlab_results(
    protocol: Mapping[str, Any], tasks: Sequence[LabTask], records: Mapping[str, Record],
    human: Mapping[str, float], lost: Mapping[str, str], skipped: Sequence[Skipped] = (),
) -> dict[str, Any]:  # fmt: skip
    """`records` holds what was played, by task id; `lost` why other tasks have no record."""
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
            instance |= {"sub_goals": dict(score.sub_goals), "judged_steps": score.steps,
                         "unchanged": score.unchanged, "human_steps": score.human_steps}  # fmt: skip
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
    common = {"task_id": task.id, "template": task.id, "app": task.app, "feasible": True, "split": "test", "trial": 0}
    if record is None or record.fault:
        error = f"judge: {record.fault}" if record else f"device: {lost or LOST}"
        return EpisodeResult(**common, reward=0.0, success=False, steps=record.steps if record else 0,
                             status=Status.INFRA_ERROR, error=error)  # fmt: skip
    return EpisodeResult(**common, reward=float(record.complete), success=record.complete, steps=record.steps,
                         status=record.status)  # fmt: skip


def _per_app(episodes: Sequence[EpisodeResult]) -> dict[str, dict[str, int]]:
    table: dict[str, dict[str, int]] = {}
    for e in episodes:
        row = table.setdefault(e.app, {"successes": 0, "trials": 0, "errors": 0})
        row["errors" if e.is_error else "trials"] += 1
        row["successes"] += e.success and not e.is_error
    return dict(sorted(table.items()))


def summary(results: Mapping[str, Any]) -> list[str]:
    """What an AndroidLab evaluation says beyond every other suite's."""

    def told(values: Mapping[str, float | None]) -> str:
        return "  ".join(f"{name} {'--' if value is None else f'{value:.2f}'}" for name, value in values.items())

    lines = [told(results["metrics"]), f"{told(results['metrics_errors_as_zero'])}  with errors as zero"]
    if results["errors"]:
        kinds = ", ".join(f"{n} by the {kind}" for kind, n in results["errors_by_kind"].items() if n)
        lines.append(f"errors: {kinds}; the same command tries these tasks again")
    if results["without_human_length"]:
        lines.append(f"RRR leaves out {', '.join(results['without_human_length'])}: no human demonstration is known")
    if refused := results.get(REFUSED):
        lines.append(f"the model server refused {refused['count']} prompts, the first with: {refused['first']}")
    if results["skipped"]:
        lines.append(f"skipped, and counted nowhere above: {', '.join(task['id'] for task in results['skipped'])}")
    if results["steps_not_judged"]:
        lines.append(f"{results['steps_not_judged']} steps were left out because their judge failed on them")
    return lines
