"""A policy on held-out page tasks: accuracy of single steps and of whole flows, and success on the graph.

`results.json` has the form of every other suite's (its episodes are the walks on the graph, so that the viewer and
`mobilerl.eval.table` show them) and, beside it:

    accuracy    the fields of `metrics.Accuracy`
    flows       {task id: {"iou": [right or not, for every step], "text": [...]}}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from statistics import fmean
from typing import Any

from mobilerl.eval.report import EpisodeResult, build_results
from mobilerl.eval.statistics import Interval, cluster_bootstrap_interval, paired_difference, wilson_interval
from mobilerl.records import Status
from sft.pages.actions import COMPLETE, PageAction
from sft.pages.agent import SUITE, PageAgent, Place, episode_task
from sft.pages.graph import PageGraph
from sft.pages.metrics import LONGEST, MEASURES, Step, accuracy, iou_correct, succeeds, text_correct
from sft.pages.preferences import ask
from sft.pages.rewards import advance, first_state
from sft.pages.tasks import PageTask
from sft.pages.writing import Writer


def evaluate(
    graph: PageGraph, tasks: Sequence[PageTask], agent: PageAgent, writer: Writer, protocol: Mapping[str, Any]
) -> dict[str, Any]:
    """The content of results.json for the policy behind `agent`."""
    asked = ask(agent, writer, tasks)
    flows: dict[str, list[Step]] = {
        task.id: [(asked[task.id, i][1].action, golden) for i, golden in enumerate(task.actions)] for task in tasks
    }
    walks = walk(graph, tasks, agent)
    results = build_results(SUITE, protocol, [_episode(graph, task, walks[task.id]) for task in tasks])
    right = {
        name: {"iou": [iou_correct(*s) for s in flow], "text": [text_correct(*s) for s in flow]}
        for name, flow in flows.items()
    }
    return results | {"accuracy": asdict(accuracy(list(flows.values()))), "flows": right}


def walk(graph: PageGraph, tasks: Sequence[PageTask], agent: PageAgent) -> dict[str, list[PageAction]]:
    """What the agent does by itself, from each task's first page on: until `complete`, or where the graph ends."""
    done: dict[str, list[PageAction]] = {task.id: [] for task in tasks}
    live = [(task, first_state(graph, task.goal), Place(episode_task(task), task.goal.start)) for task in tasks]
    for _ in range(LONGEST):
        if not live:
            break
        going = []
        for (task, state, place), decided in zip(live, agent.decide([place for *_, place in live]), strict=True):
            if decided.action is None:
                continue
            done[task.id].append(decided.action)
            after = advance(graph, task.goal, state, decided.action) if decided.action != COMPLETE else None
            if after is not None:
                going.append((task, after, replace(place, page=after.page, turns=decided.turns)))
        live = going
    return done


def _episode(graph: PageGraph, task: PageTask, actions: Sequence[PageAction]) -> EpisodeResult:
    success = succeeds(graph, task.goal, actions)
    finished = bool(actions) and actions[-1] == COMPLETE
    status = Status.FINISHED if finished else Status.TRUNCATED if len(actions) == LONGEST else Status.INVALID
    return EpisodeResult(f"{SUITE}/{task.id}", task.kind, task.app, True, "test", 0, float(success), success,
                         len(actions), status)  # fmt: skip


# --- side by side ------------------------------------------------------------------------------------------------


def table(entries: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    """Markdown: a row per measure and policy, with n and 95 % intervals, and the difference to the policies before.

    Step-level intervals resample tasks, as a task's steps stand and fall together; differences are paired by task.
    """
    lines = [
        "| measure | policy | rate | 95% interval | n | difference, paired by task |",
        "| ------- | ------ | ---- | ------------ | - | -------------------------- |",
    ]
    for measure, key in MEASURES.items():
        for i, (name, results) in enumerate(entries):
            rate, interval, n = _rate(results, key)
            against = [_against(before, earlier, results, key) for before, earlier in entries[:i]]
            cells = (measure, name, f"{100 * rate:.1f}%", _range(interval), n, "; ".join(against))
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _rate(results: Mapping[str, Any], key: str) -> tuple[float, Interval, str]:
    by_task = outcomes(results, key)
    values = [v for values in by_task.values() for v in values]
    if key.startswith("step") and len(by_task) > 1:
        return fmean(values), cluster_bootstrap_interval(by_task), f"{len(values)} steps of {len(by_task)} tasks"
    what = "steps" if key.startswith("step") else "tasks"
    return fmean(values), wilson_interval(int(sum(values)), len(values)), f"{len(values)} {what}"


def outcomes(results: Mapping[str, Any], key: str) -> dict[str, list[float]]:
    """Of every task: a value per step, or one for the task."""
    if key == "success":
        return {e["task_id"]: [float(e["success"])] for e in results["instances"]}
    level, kind = key.split("_")
    flows = {f"{SUITE}/{name}": list(map(float, flow[kind])) for name, flow in results["flows"].items()}
    return flows if level == "step" else {name: [float(all(flow))] for name, flow in flows.items()}


def _against(before: str, earlier: Mapping[str, Any], results: Mapping[str, Any], key: str) -> str:
    first, second = ({t: fmean(v) for t, v in outcomes(r, key).items()} for r in (earlier, results))
    if len(first) < 2:
        return ""
    found = paired_difference(first, second)
    return f"{100 * found.difference:+.1f} ({_range(found.bootstrap)}) to {before}"


def _range(interval: Interval) -> str:
    return f"{100 * interval.low:.1f} to {100 * interval.high:.1f}"
