"""Evaluation on AndroidLab: runs and judges the tasks of a checkout on devices and writes results.json.

It can be stopped and resumed: tasks that had errors run again, and tasks whose judge failed are judged again without
running again. Episodes are written to `<out>/episodes.jsonl`, their traces to `<out>/tasks/<task id>`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from mobilerl import __version__
from mobilerl.config import ConfigError
from mobilerl.envs.androidlab.checkout import TASKS, Checkout
from mobilerl.envs.androidlab.env import REPEATS, REPEATS_AFTER, AndroidLabEnv, LabSettings
from mobilerl.envs.androidlab.judge import Ask, JudgeFault, Judges
from mobilerl.envs.androidlab.phone import DATE, LOCATION
from mobilerl.envs.androidlab.tasks import OPERATION, QUERY, SUITE, LabTask, Skipped
from mobilerl.envs.androidlab.trace import read_trace
from mobilerl.envs.base import InfraError, Task
from mobilerl.envs.claims import Claim, run_name
from mobilerl.eval.journal import Journal, Key, Past, read_journal
from mobilerl.eval.policies import EvalPolicy
from mobilerl.eval.report import RESULTS, write_results
from mobilerl.eval.run import Say, WatchedEnv, run_tasks
from mobilerl.policy.unreadable import count_unreadable
from mobilerl.records import Group
from mobilerl.rollout.episode import EpisodeSettings
from mobilerl.suites.androidlab.answers import AnswerJudge, no_answer_judge
from mobilerl.suites.androidlab.devices import Address, OpenedPhone, open_phones
from mobilerl.suites.androidlab.metrics import count_unchanged
from mobilerl.suites.androidlab.results import Record, androidlab_results

STEP_S, SETUP_S, JUDGING_S = 60.0, 240.0, 600.0
"""Parts of an episode's deadline in seconds: a step (without its pause), the set-up, and the judge."""
NO_JUDGE = "a model judges its answer; give --judge-url and --judge-model"
RETRIES = 3
"""Maximum retries of an episode whose device failed, on another device if there is one."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The tasks to run, and how to run them."""

    tasks: tuple[LabTask, ...]
    mode: str
    """`xml` if the model reads only the screen text, `screenshot` if it also sees screenshots."""
    rounds: int = 25
    settings: LabSettings = LabSettings()
    snapshot: str = ""
    max_invalid: int = 3
    protocol_of: str = ""
    """Whose evaluation this is; "" for AndroidLab's."""
    skipped: tuple[Skipped, ...] = ()
    """Selected tasks that cannot be judged."""

    @property
    def episode(self) -> EpisodeSettings:
        deadline_s = SETUP_S + self.settings.launch_wait_s + JUDGING_S
        return EpisodeSettings(self.max_invalid, deadline_s + self.rounds * (self.settings.interval_s + STEP_S))


def protocol_of(
    checkout: Checkout, plan: Plan, policy: EvalPolicy, phones: Sequence[OpenedPhone], answers: AnswerJudge | None
) -> dict[str, Any]:
    """Settings that affect the score, as JSON values."""
    located = all(opened.located for opened in phones)
    return {
        "mobilerl": __version__,
        "androidlab_commit": checkout.commit,
        "tasks": [task.id for task in plan.tasks],
        "tasks_of_benchmark": f"{len(plan.tasks)} of {TASKS}",
        "mode": plan.mode,
        "rounds": plan.rounds,
        "equal_actions": f"{REPEATS} in a row end an episode of more than {REPEATS_AFTER} steps",
        "interval_s": plan.settings.interval_s,
        "start": "in_app" if plan.settings.launch else "home",
        "launch_wait_s": plan.settings.launch_wait_s if plan.settings.launch else 0.0,
        "clean_state": f"snapshot {plan.snapshot}" if plan.snapshot else "none: tasks see what earlier ones left",
        "date": f"{DATE} 12:00; the device's own for map.me",
        "location": LOCATION if located else "the device's own",
        "screen": sorted({opened.screen for opened in phones}),
        "type_action": "replaces the text, no Enter",
        "judge_trees": "of the checkout",
        "deadline_s": plan.episode.deadline_s,
        "max_invalid": plan.max_invalid,
        "retries": RETRIES,
        **({"protocol": plan.protocol_of} if plan.protocol_of else {}),
        **(answers.protocol() if answers else {"judge.model": None}),
        **policy.protocol,
    }


async def evaluate(
    checkout: Checkout,
    plan: Plan,
    policy: EvalPolicy,
    addresses: Sequence[Address],
    judges: Judges,
    answers: AnswerJudge | None,
    out: Path,
    say: Say = print,
) -> dict[str, Any]:
    """Runs and judges the tasks that `out` lacks, writes `out/results.json` and returns its content.

    Raises ConfigError or CheckoutError (both ValueError) before anything runs if something cannot be used.
    """
    faults: dict[Key, InfraError] = {}
    claim = Claim(run_name(out), ConfigError)
    try:
        plan = await _usable(plan, judges, answers)
        for task in plan.skipped:
            say(f"{task.id} is skipped: {task.reason}")
        packages = sorted({task.package for task in plan.tasks})
        launchable = checkout.packages | checkout.apps
        phones = await asyncio.to_thread(open_phones, addresses, launchable, packages, plan.snapshot, claim)
        protocol = protocol_of(checkout, plan, policy, phones, answers)
        past = read_journal(out)
        with Journal(past) as journal:
            journal.begin(SUITE, protocol, len(plan.tasks))
            run = _Run(plan, judges, answers.ask if answers else no_answer_judge, out / "tasks", journal, say)
            await run.resume(past)
            tasks, done = [task.task(plan.rounds) for task in plan.tasks], set(run.records)
            if any(task.id not in done for task in tasks):
                envs = [WatchedEnv(run.env(opened, checkout.apps), faults) for opened in phones]
                play = partial(run_tasks, envs, policy, tasks, SUITE, plan.episode, run.record_group, retries=RETRIES)
                await play(done=lambda task: task.id in done)
    finally:
        claim.release()
        if answers is not None:
            await answers.close()
        if policy.server is not None:
            await policy.server.close()
    lost = {task_id: str(fault) for (task_id, _), fault in faults.items()}
    results = androidlab_results(protocol, plan.tasks, run.records, checkout.human_lengths, lost, plan.skipped)
    results |= policy.extras()
    write_results(out / RESULTS, results)
    return results


async def _usable(plan: Plan, judges: Judges, answers: AnswerJudge | None) -> Plan:
    """The plan with tasks that can be judged: without an endpoint, operations whose judges ask a model are skipped."""
    asking = await judges.check(plan.tasks)
    if answers is not None:
        await answers.check()
        return plan
    if queries := sum(task.kind == QUERY and task.id in asking for task in plan.tasks):
        raise ConfigError(
            f"{queries} of the tasks are queries whose answers a model judges: give --judge-url and "
            f"--judge-model, or leave them out with --kind {OPERATION}"
        )
    skipped = tuple(Skipped(task.id, task.app, NO_JUDGE) for task in plan.tasks if task.id in asking)
    tasks = tuple(task for task in plan.tasks if task.id not in asking)
    if not tasks:
        raise ConfigError(f"no task is left: {skipped[0].id}: {NO_JUDGE}")
    return replace(plan, tasks=tasks, skipped=skipped)


class _Run:
    """One start of an evaluation. `records` holds finished tasks by id."""

    def __init__(self, plan: Plan, judges: Judges, ask: Ask, folder: Path, journal: Journal, say: Say) -> None:
        self.plan, self.judges, self.ask, self.folder, self.journal, self.say = plan, judges, ask, folder, journal, say
        self.records: dict[str, Record] = {}
        self._tasks = {task.id: task for task in plan.tasks}
        self._grades: dict[str, dict[str, Any]] = {}

    async def resume(self, past: Past) -> None:
        """Loads the records of earlier starts, and judges tasks again whose judge failed."""
        for task_id in self._tasks:
            if (found := past.episodes.get((task_id, 0))) is not None:
                try:
                    self.records[task_id] = Record(**found)
                except TypeError as error:
                    raise ConfigError(f"{past.path} is damaged ({error}); choose another --out") from None
        if self.records:
            self.say(f"resuming: {len(self.records)} of {len(self.plan.tasks)} tasks have been run")
        for task_id, record in self.records.items():
            if record.fault:
                self._note(replace(record, **await self.grade(task_id, self.folder / task_id)))

    def env(self, opened: OpenedPhone, apps: dict[str, str]) -> AndroidLabEnv:
        return AndroidLabEnv(opened.device_id, opened.phone, apps, self.folder, self.score, self.plan.settings)

    async def score(self, task: Task, folder: Path) -> float:
        """Judges an episode. Returns 0.0 if the judge fails, as the episode need not run again for that."""
        self._grades[task.id] = await self.grade(task.id, folder)
        return float(self._grades[task.id].get("complete", False))

    async def grade(self, task_id: str, folder: Path) -> dict[str, Any]:
        """Fields of a record that the judge determines."""
        try:
            lines = read_trace(folder)
            outcome = await self.judges.judge(self._tasks[task_id], folder, lines, self.ask)
            screens = [folder / line["image"] for line in lines if line["index"] in outcome.steps]
            return {
                "fault": "",
                "complete": outcome.complete,
                "sub_goals": dict(outcome.sub_goals),
                "judged_steps": len(outcome.steps),
                "unchanged": await asyncio.to_thread(count_unchanged, [path.read_bytes() for path in screens]),
                "judge_errors": list(outcome.errors),
            }
        except JudgeFault as fault:
            return {"fault": str(fault)}

    def record_group(self, group: Group) -> None:
        [trajectory] = group.trajectories
        record = Record(
            task_id=trajectory.task.id,
            status=str(trajectory.status),
            steps=len(trajectory.steps),
            wall_s=round(trajectory.wall_s, 3),
            device=trajectory.device_id,
            replies=[step.completion.text for step in trajectory.steps],
            invalid=count_unreadable(trajectory.steps),
            **self._grades[trajectory.task.id],
        )
        self._note(record)
        self.say(f"{len(self.records)}/{len(self.plan.tasks)} {record.task_id}: {_describe(record)}")

    def _note(self, record: Record) -> None:
        self.journal.end(asdict(record))
        self.records[record.task_id] = record


def _describe(record: Record) -> str:
    if record.fault:
        return f"not judged: {record.fault}"
    verdict = "completed" if record.complete else "not completed"
    met = sum(record.sub_goals.values())
    return f"{verdict}, {met} of {len(record.sub_goals)} sub-goals, {record.steps} steps ({record.status})"
