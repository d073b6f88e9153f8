"""One AndroidLab evaluation, from a checkout and devices to results.json.

An evaluation that was stopped goes on where it was; tasks that had errors are tried again. A task whose judge failed is
judged again without being played again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from envs.androidlab.checkout import Checkout
from envs.androidlab.env import AndroidLabEnv
from envs.androidlab.judge import Judges
from envs.androidlab.tasks import OPERATION, QUERY, LabTask, Skipped
from envs.base import InfraError, MobileEnv, Observation, Task
from mobilerl.config import ConfigError
from mobilerl.eval.androidlab.answers import AnswerJudge, NoAnswerJudge
from mobilerl.eval.androidlab.devices import Address, OpenedPhone, open_phones
from mobilerl.eval.androidlab.grader import Grader, graded, record_of
from mobilerl.eval.androidlab.plan import Plan, protocol_of
from mobilerl.eval.androidlab.results import androidlab_results
from mobilerl.eval.androidlab.store import Record, Store
from mobilerl.eval.policies import Player
from mobilerl.eval.report import write_results
from mobilerl.eval.run import RESULTS
from mobilerl.rollout.collector import Collector, CollectorSettings
from mobilerl.rollout.episode import EpisodeSettings

T = TypeVar("T")
Say = Callable[[str], None]


def evaluate(checkout: Checkout, plan: Plan, player: Player, addresses: Sequence[Address], judges: Judges,
             answers: AnswerJudge | None, out: Path, say: Say = print) -> dict[str, Any]:  # fmt: skip
    """Plays and judges what `out` does not hold yet, and writes `out/results.json`; returns its content.

    Raises ConfigError and CheckoutError (both ValueError) before anything is played for whatever cannot be used.
    """
    return asyncio.run(_evaluate(checkout, plan, player, addresses, judges, answers, Store(out), say))


async def _evaluate(checkout: Checkout, plan: Plan, player: Player, addresses: Sequence[Address], judges: Judges,
                    answers: AnswerJudge | None, store: Store, say: Say) -> dict[str, Any]:  # fmt: skip
    try:
        plan = await _usable(plan, judges, answers)
        for task in plan.skipped:
            say(f"{task.id} is skipped: {task.reason}")
        packages = sorted({task.package for task in plan.tasks})
        launchable = checkout.packages | checkout.apps
        phones = await asyncio.to_thread(open_phones, addresses, launchable, packages, plan.snapshot)
        protocol = protocol_of(checkout, plan, player, phones, judges, answers)
        with store.alone():
            store.begin(protocol)
            grader = Grader(judges, plan.tasks, (answers or NoAnswerJudge()).ask)
            records = await _gone_on_with(store, plan, grader, say)
            left = [task for task in plan.tasks if task.id not in records]
            run = _Run(plan, player, store, grader, say)
            if left:
                envs = [run.env(opened, checkout.apps) for opened in phones]
                records |= await run.play(envs, left, len(records))
    finally:
        if answers is not None:
            await answers.close()
        if player.server is not None:
            await player.server.close()
    results = (
        androidlab_results(protocol, plan.tasks, records, checkout.human_lengths, run.faults, plan.skipped)
        | player.extras()
    )
    write_results(store.out / RESULTS, results)
    return results


async def _usable(plan: Plan, judges: Judges, answers: AnswerJudge | None) -> Plan:
    """The plan without the tasks that cannot be judged."""
    checked = await judges.check(plan.tasks)
    problems = dict(checked.problems)
    if answers is not None:
        await answers.check()
    elif queries := sum(task.kind == QUERY and task.id in checked.asking for task in plan.tasks):
        raise ConfigError(f"{queries} of the tasks are queries whose answers a model judges: give --judge-url and "
                          f"--judge-model, or leave them out with --kind {OPERATION}")  # fmt: skip
    else:
        problems |= dict.fromkeys(checked.asking, "a model judges its answer; give --judge-url and --judge-model")
    skipped = [Skipped(t.id, t.app, problems[t.id]) for t in plan.tasks if t.id in problems]
    tasks = tuple(task for task in plan.tasks if task.id not in problems)
    if not tasks:
        raise ConfigError(f"no task is left: {skipped[0].id}: {skipped[0].reason}")
    return replace(plan, tasks=tasks, skipped=(*plan.skipped, *skipped))


async def _gone_on_with(store: Store, plan: Plan, grader: Grader, say: Say) -> dict[str, Record]:
    """What an earlier start has played. Where the judge failed then, it is asked again."""
    records = {task.id: record for task in plan.tasks if (record := store.read(task.id)) is not None}
    if records:
        say(f"going on: {len(records)} of {len(plan.tasks)} tasks have been played")
    for task_id, record in records.items():
        if record.fault:
            records[task_id] = graded(record, await grader.grade(task_id, store.folder(task_id)))
            store.write(records[task_id])
    return records


# --- playing -----------------------------------------------------------------------------------------------------


class _Run:
    """The episodes of one start. `faults` holds the last fault of each task that met one."""

    def __init__(self, plan: Plan, player: Player, store: Store, grader: Grader, say: Say) -> None:
        self.plan, self.player, self.store, self.grader, self.say = plan, player, store, grader, say
        self.faults: dict[str, str] = {}

    def env(self, opened: OpenedPhone, apps: Mapping[str, str]) -> MobileEnv:
        return _NotingEnv(
            self.faults, opened.device_id, opened.phone, apps, self.store.tasks, self.grader.score, self.plan.settings
        )

    async def play(self, envs: Sequence[MobileEnv], tasks: Sequence[LabTask], before: int) -> dict[str, Record]:
        """The records of the tasks that were played to their end, each on disk before the next is waited for."""
        plan, player, records = self.plan, self.player, {}
        settings = CollectorSettings(
            group_size=1, max_retries=plan.retries, min_group=0.0,
            episode=EpisodeSettings(plan.max_invalid, plan.deadline_s),
        )  # fmt: skip
        async with Collector(envs, player.actor, settings, player.poke) as collector:
            player.connect(collector)
            for task in tasks:
                await collector.dispatch(task.task(plan.rounds), task.id)
            async for group in collector.ready(len(tasks)):
                trajectory = group.trajectories[0]
                record = record_of(trajectory, self.grader.grades[trajectory.task.id])
                self.store.write(record)
                records[record.task_id] = record
                self.say(f"{before + len(records)}/{len(plan.tasks)} {record.task_id}: {_told(record)}")
        return records


class _NotingEnv(AndroidLabEnv):
    """Notes which task met which fault: the collector keeps only that it was lost."""

    def __init__(self, faults: dict[str, str], *arguments: Any) -> None:
        super().__init__(*arguments)
        self._faults, self._played = faults, ""

    async def reset(self, task: Task) -> Observation:
        self._played = task.id
        return await super().reset(task)

    async def _call(self, work: Callable[[], T]) -> T:
        try:
            return await super()._call(work)
        except InfraError as fault:
            self._faults[self._played] = str(fault)
            raise


def _told(record: Record) -> str:
    if record.fault:
        return f"not judged: {record.fault}"
    verdict = "completed" if record.complete else "not completed"
    met = sum(record.sub_goals.values())
    return f"{verdict}, {met} of {len(record.sub_goals)} sub-goals, {record.steps} steps ({record.status})"
