"""Evaluates a policy on held-out page tasks: accuracy of steps and of flows, and success on the graph.

`results.json` has the same form as for other suites (its episodes are the walks on the graph), and additionally:

    accuracy    as `metrics.accuracy` returns it
    flows       {task id: {"iou": [whether each step is correct], "text": [...]}}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any, get_args

from mobilerl.eval.report import EpisodeResult, build_results, invalid_responses
from mobilerl.eval.statistics import Interval, cluster_bootstrap_interval, paired_difference, wilson_interval
from mobilerl.policy.unreadable import count_unreadable
from mobilerl.reachagent.actions import COMPLETE, PageAction
from mobilerl.reachagent.agent import SUITE, PageAgent, Query, episode_task
from mobilerl.reachagent.graph import PageGraph
from mobilerl.reachagent.metrics import MAX_STEPS, MEASURES, accuracy, iou_correct, text_correct
from mobilerl.reachagent.responses import ResponseWriter, parts, query_flows
from mobilerl.reachagent.rewards import advance, finished, first_state
from mobilerl.reachagent.tasks import PageTask, TaskKind
from mobilerl.records import Status


def evaluate(
    graph: PageGraph, tasks: Sequence[PageTask], agent: PageAgent, writer: ResponseWriter, protocol: Mapping[str, Any]
) -> dict[str, Any]:
    """Evaluates the policy behind `agent` and returns the content of results.json."""
    flows, unreadable, asked = {}, [], 0
    for task, answers in query_flows(agent, writer, tasks):
        steps = [(decision.action, golden) for (_, decision), golden in zip(answers, task.actions, strict=True)]
        flows[task.id] = {"iou": [iou_correct(*s) for s in steps], "text": [text_correct(*s) for s in steps]}
        responses = [response for _, decision in answers for response in decision.responses]
        unreadable.append(count_unreadable(responses))
        asked += len(responses)
    walks = {name: end for some in parts(tasks) for name, end in walk(graph, some, agent).items()}
    results = build_results(SUITE, protocol, [_episode(task, *walks[task.id]) for task in tasks])
    unread = {"invalid_replies": invalid_responses(unreadable, asked)}
    return results | unread | {"accuracy": accuracy(list(flows.values())), "flows": flows}


def walk(graph: PageGraph, tasks: Sequence[PageTask], agent: PageAgent) -> dict[str, tuple[list[PageAction], bool]]:
    """Lets the agent act from each task's first page; returns its actions and whether it succeeded.

    Success is `complete` after all subtasks. A walk also ends after an action with an unknown outcome and MAX_STEPS.
    """
    succeeded: set[str] = set()
    done: dict[str, list[PageAction]] = {task.id: [] for task in tasks}
    active = [(task, first_state(graph, task.goal), Query(episode_task(task), task.goal.start)) for task in tasks]
    for _ in range(MAX_STEPS):
        if not active:
            break
        still_active = []
        decisions = agent.decide([query for *_, query in active])
        for (task, state, query), decision in zip(active, decisions, strict=True):
            if decision.action is None:
                continue
            done[task.id].append(decision.action)
            if decision.action == COMPLETE and finished(task.goal, state):
                succeeded.add(task.id)
            after = advance(graph, task.goal, state, decision.action) if decision.action != COMPLETE else None
            if after is not None:
                still_active.append((task, after, replace(query, page=after.page, turns=decision.turns)))
        active = still_active
    return {name: (actions, name in succeeded) for name, actions in done.items()}


def _episode(task: PageTask, actions: Sequence[PageAction], success: bool) -> EpisodeResult:
    completed = bool(actions) and actions[-1] == COMPLETE
    status = Status.FINISHED if completed else Status.TRUNCATED if len(actions) == MAX_STEPS else Status.INVALID
    return EpisodeResult(
        f"{SUITE}/{task.id}", task.kind, task.app, True, "test", 0, float(success), success, len(actions), status
    )


def table(entries: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    """Markdown tables: of rates with 95 % intervals and differences to earlier policies, and of rates by kind of task.

    Step-level intervals resample tasks, whose steps are correlated; differences are paired by task.
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
    return "\n".join([*lines, "", *_by_kind(entries)])


def _by_kind(entries: Sequence[tuple[str, Mapping[str, Any]]]) -> list[str]:
    """Lines of a table of the measures for each kind of task."""
    columns = ("tasks", "policy", *MEASURES, "n")
    lines = [f"| {' | '.join(columns)} |", f"|{' --- |' * len(columns)}"]
    for kind in get_args(TaskKind):
        for name, results in entries:
            of_kind = [
                {task: v for task, v in outcomes(results, key).items() if task.split("/")[-2] == kind}
                for key in MEASURES.values()
            ]
            if of_kind[0]:
                rates = [f"{100 * fmean(v for values in found.values() for v in values):.1f}%" for found in of_kind]
                lines.append(f"| {' | '.join((kind, name, *rates, str(len(of_kind[0]))))} |")
    return lines


def _rate(results: Mapping[str, Any], key: str) -> tuple[float, Interval, str]:
    by_task = outcomes(results, key)
    values = [v for values in by_task.values() for v in values]
    if key.startswith("step") and len(by_task) > 1:
        return fmean(values), cluster_bootstrap_interval(by_task), f"{len(values)} steps of {len(by_task)} tasks"
    what = "steps" if key.startswith("step") else "tasks"
    return fmean(values), wilson_interval(int(sum(values)), len(values)), f"{len(values)} {what}"


def outcomes(results: Mapping[str, Any], key: str) -> dict[str, list[float]]:
    """Outcomes by task id: one value per step, or a single value for the task."""
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
