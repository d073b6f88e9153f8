"""Evaluation on AndroidWorld: runs its tasks on servers and writes results.json. It can be stopped and resumed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from pydantic import field_validator

from mobilerl import __version__
from mobilerl.config.types import Count, Positive, Section, Weight
from mobilerl.envs.androidworld.env import BOOT_WAIT_S, AndroidWorldEnv, Episode
from mobilerl.envs.androidworld.startup import Suite
from mobilerl.envs.androidworld.tasks import COMMIT, EVAL_SEED, FACTS, SUITE, budgets_hash, check_names, make_task
from mobilerl.envs.base import InfraError, MobileEnv, Observation, Task
from mobilerl.eval.journal import Journal, Key, Past, key_of, read_journal
from mobilerl.eval.policies import EvalPolicy
from mobilerl.eval.report import RESULTS, write_results
from mobilerl.eval.run import Say, WatchedEnv, run_tasks
from mobilerl.records import Group
from mobilerl.records.files import append_trajectory
from mobilerl.rollout.episode import EpisodeSettings
from mobilerl.suites.androidworld.results import androidworld_results, record_of
from mobilerl.suites.androidworld.servers import DEADLINE_S, Servers

T = TypeVar("T")
ASSUMED = f"{COMMIT} (assumed: its server does not tell, and its task list fits)"
HTTP_COST = (
    "without ADB serials the screens come over HTTP: 15 to 17 s and about 30 MB for each from upstream's server, no UI "
    "tree for the model, swipes only as whole-screen scrolls, Enter after every typed text; --server URL,ADB_SERIAL "
    "avoids all of it"
)


class Plan(Section):
    """The episodes to run. The whole suite is repeated `runs` times; empty `templates` select all 116 tasks."""

    seed: Count = EVAL_SEED
    instances: Positive = 1
    runs: Positive = 1
    templates: tuple[str, ...] = ()
    step_cap: Positive | None = None
    max_invalid: Count = 3
    most_equal: Positive | None = None
    """As in `EpisodeSettings`."""
    protocol_of: str = ""
    """Whose evaluation this is, whose agent's state counts after an invalid response, too; "" for AndroidWorld's."""
    retries: Count = 3
    boot_wait_s: Weight = BOOT_WAIT_S
    commit: str | None = None
    """Commit of the AndroidWorld on the servers, which they do not report."""
    keep: bool = False
    """Whether to save episodes to `out/trajectories` and their screens to `out/screens`."""

    @field_validator("templates")
    @classmethod
    def _templates_exist(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        check_names(names)
        return names

    @property
    def names(self) -> list[str]:
        return sorted(set(self.templates)) or sorted(FACTS)

    def tasks(self, goal: Callable[[str, int], str] = lambda name, index: "") -> list[Task]:
        """Tasks of all episodes, run by run."""
        return [
            make_task(name, index, goal(name, index), self.seed, self.instances, self.step_cap, run)
            for run in range(self.runs)
            for name in self.names
            for index in range(self.instances)
        ]

    def protocol(self, over_adb: bool) -> dict[str, Any]:
        """Settings that affect the score, as far as they are known without a server."""
        return {
            "mobilerl": __version__,
            "tasks": "all 116" if self.names == sorted(FACTS) else self.names,
            "seed": self.seed,
            "instances_per_task": self.instances,
            "runs": self.runs,
            "step_budget": "int(10 x complexity)",
            "budgets_sha256": budgets_hash(self.names),
            "step_cap": self.step_cap,
            "success": "the full score, after the agent said that it was done",
            "max_invalid": self.max_invalid,
            "deadline_s": DEADLINE_S,
            "retries": self.retries,
            "screens_and_actions": "adb" if over_adb else "http",
            "start": "home screen",
            **({"equal_actions": f"{self.most_equal} in a row finish an episode"} if self.most_equal else {}),
            **({"protocol": self.protocol_of, "invalid_response": "finishes an episode"} if self.protocol_of else {}),
        }

    @property
    def episode(self) -> EpisodeSettings:
        return EpisodeSettings(
            self.max_invalid, DEADLINE_S, most_equal=self.most_equal, finishes_invalid=bool(self.protocol_of)
        )


def evaluate(servers: Servers, plan: Plan, policy: EvalPolicy, out: Path, say: Say = print) -> dict[str, Any]:
    """Runs the episodes that `out` lacks, writes `out/results.json` and returns its content.

    Raises ConfigError or ValueError if servers cannot be used or `out` belongs to other settings.
    """
    past = read_journal(out)
    protocol = plan.protocol(servers.over_adb) | policy.protocol
    past.check(protocol)
    run = _Run(servers, plan, policy, say)
    total = len(plan.tasks())
    missing = sum(key_of(task) not in past.episodes for task in plan.tasks())
    if missing:
        out.mkdir(parents=True, exist_ok=True)  # first, so that an unwritable folder fails before anything runs
        if past.episodes:
            say(f"{total - missing} episodes are done; {missing} are left")
        if not servers.over_adb:
            say(HTTP_COST)
        asyncio.run(run.missing(past, protocol))
        past = read_journal(out)
    else:
        say(f"{past.path} has all {total} episodes, with the same settings and model; these are its results")
    assert past.protocol is not None
    protocol = past.protocol | {"servers": servers.count}
    records = [past.episodes.get(key_of(task)) or run.make_lost_record(task) for task in plan.tasks()]
    results = androidworld_results(protocol, records) | policy.extras()
    results["dead_servers"] = list(past.dead.values())
    write_results(out / RESULTS, results)
    return results


class _Run:
    """One start of an evaluation, which records its progress in the journal."""

    journal: Journal

    def __init__(self, servers: Servers, plan: Plan, policy: EvalPolicy, say: Say) -> None:
        self.servers, self.plan, self.policy, self.say = servers, plan, policy, say
        self.episodes: dict[Key, Episode] = {}
        """Data of AndroidWorld on each episode."""
        self.faults: dict[Key, InfraError] = {}
        """Last fault of each episode."""
        self._alive = set(servers.names)
        self._left = 0

    async def missing(self, past: Past, protocol: dict[str, Any]) -> None:
        """Runs the episodes that are not in the journal."""
        plan, servers = self.plan, self.servers
        suite = Suite(plan.seed, plan.instances, plan.names)
        with Journal(past) as self.journal:
            server, devices = await servers.open(suite, plan.boot_wait_s, self.say, past.leftovers, self.watch_env)
            try:
                protocol = protocol | {
                    "androidworld_commit": plan.commit or ASSUMED,
                    "screen": server.screen,
                    "settle": server.access.settle,
                    "servers": servers.count,
                }
                tasks = plan.tasks(lambda name, index: server.goals[name, index])
                self.journal.begin(SUITE, protocol, len(tasks))
                done = set(past.episodes)
                total = self._left = sum(key_of(task) not in done for task in tasks)
                self.say(f"{total} episodes on {servers.count} server{'s' if servers.count > 1 else ''}")

                def record_group(group: Group) -> None:
                    [trajectory] = group.trajectories
                    if plan.keep:  # before the journal, as a crash in between may repeat it but not lose it
                        append_trajectory(past.path.parent, trajectory)
                    self.journal.end(record_of(group.task, trajectory, self.episodes.get(key_of(group.task))))
                    self._alive |= {trajectory.device_id} & set(servers.names)
                    self._left -= 1
                    ended_of, steps = f"{total - self._left}/{total}", len(trajectory.steps)
                    self.say(f"{ended_of} {group.task.template}: {trajectory.reward:g} in {steps} steps")

                play = partial(
                    run_tasks, devices, self.policy, tasks, SUITE, plan.episode, record_group, retries=plan.retries
                )
                await play(done=lambda task: key_of(task) in done)
            finally:
                await servers.close()

    def watch_env(self, env: AndroidWorldEnv) -> MobileEnv:
        return _WatchedEnv(env, self)

    def given_up(self, server: str, fault: InfraError) -> None:
        if server not in self._alive:
            return
        self.journal.dead(server, str(fault))
        self._alive.discard(server)
        others = f"for the servers {', '.join(sorted(self._alive))}" if self._alive else "and no server"
        self.say(f"server {server} is given up ({fault}); {self._left} episodes are left, {others}")

    def make_lost_record(self, task: Task) -> dict[str, Any]:
        """Record of an episode that never ended."""
        key = key_of(task)
        return record_of(task, None, self.episodes.get(key), self.faults.get(key))


class _WatchedEnv(WatchedEnv):
    """Tells the run when a task is being set up, AndroidWorld's data on it, and when its server is given up."""

    def __init__(self, env: AndroidWorldEnv, run: _Run) -> None:
        super().__init__(env, run.faults)
        self._world, self._run = env, run

    async def reset(self, task: Task) -> Observation:
        self._run.journal.start(self.device_id, task.template, task.params["index"])
        return await super().reset(task)

    async def _record_fault(self, call: Awaitable[T]) -> T:
        try:
            result = await super()._record_fault(call)
        except InfraError as fault:
            if self._world.given_up:
                self._run.given_up(self.device_id, fault)
            raise
        if self._world.episode is not None:
            self._run.episodes[self._key] = self._world.episode
        return result
