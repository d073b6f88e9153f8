"""The suite `androidworld`: from servers and settings to results.json, in as many sittings as it takes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envs.androidworld.env import BOOT_WAIT_S
from envs.androidworld.startup import Suite
from envs.androidworld.tasks import COMMIT, EVAL_SEED, FACTS, SUITE, budgets_hash, check_names, make_task
from envs.base import Task
from mobilerl import __version__
from mobilerl.config import ConfigError
from mobilerl.eval.androidworld.journal import FILE, Journal, Key, Past, read_journal
from mobilerl.eval.androidworld.places import Places
from mobilerl.eval.androidworld.results import androidworld_results, record_of
from mobilerl.eval.androidworld.watch import Ledger, WatchedEnv, key_of
from mobilerl.eval.policies import Player
from mobilerl.eval.report import write_results
from mobilerl.eval.run import RESULTS
from mobilerl.rollout.collector import Collector, CollectorSettings
from mobilerl.rollout.episode import EpisodeSettings
from mobilerl.trajectory_files import append_trajectory

Say = Callable[[str], None]
ASSUMED = f"{COMMIT} (assumed: its server does not tell, and its task list fits)"
HTTP_COST = (
    "without ADB serials the screens come over HTTP: 15 to 17 s and about 30 MB for each from upstream's server, no UI "
    "tree for the model, swipes only as whole-screen scrolls, Enter after every typed text; --server URL,ADB_SERIAL "
    "avoids all of it"
)


@dataclass(frozen=True, slots=True)
class Plan:
    """What is played. `runs` is how often the whole suite is gone through; `templates` empty for all 116 tasks."""

    seed: int = EVAL_SEED
    instances: int = 1
    runs: int = 1
    templates: tuple[str, ...] = ()
    step_cap: int | None = None
    max_invalid: int = 3
    deadline_s: float = 3600.0
    max_retries: int = 3
    boot_wait_s: float = BOOT_WAIT_S
    commit: str | None = None
    """Of the servers' AndroidWorld, for those that do not tell."""
    keep: bool = False
    """Whether every episode goes to `out/trajectories`, and its screens to `out/screens`."""

    def __post_init__(self) -> None:
        least = {
            "instances": 1,
            "runs": 1,
            "step_cap": 1,
            "max_retries": 0,
            "boot_wait_s": 0,
            "deadline_s": 1,
            "seed": 0,
        }
        for name, smallest in least.items():
            value = getattr(self, name)
            if value is not None and value < smallest:
                flag = name.removeprefix("max_").removesuffix("_s").replace("_", "-")
                raise ConfigError(f"--{flag} is {value}; it must be at least {smallest}")
        check_names(self.templates)

    @property
    def names(self) -> list[str]:
        return sorted(set(self.templates)) or sorted(FACTS)

    @property
    def keys(self) -> list[Key]:
        """Every episode, run by run."""
        return [key_of(task) for task in self.tasks(lambda name, index: "")]

    def tasks(self, goal: Callable[[str, int], str]) -> list[Task]:
        return [
            make_task(name, index, goal(name, index), self.seed, self.instances, self.step_cap, run)
            for run in range(self.runs)
            for name in self.names
            for index in range(self.instances)
        ]

    def protocol(self, over_adb: bool) -> dict[str, Any]:
        """What affects the score, as far as it is known before any server was asked."""
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
            "deadline_s": self.deadline_s,
            "retries": self.max_retries,
            "screens_and_actions": "adb" if over_adb else "http",
            "start": "home screen",
        }


def evaluate(places: Places, plan: Plan, player: Player, out: Path, say: Say = print) -> dict[str, Any]:
    """Plays what `out` does not hold yet, and writes `out/results.json`; returns its content.

    Raises ConfigError or ValueError, in one line, for servers that cannot be used and for an `out` of other settings.
    """
    path = out / FILE
    past = read_journal(path)
    protocol = plan.protocol(places.over_adb) | player.protocol
    past.check(protocol, path)
    ledger = Ledger()
    missing = [key for key in plan.keys if key not in past.episodes]
    if missing:
        out.mkdir(parents=True, exist_ok=True)  # before playing: a folder that cannot be written to costs nothing then
        if past.episodes:
            say(f"{len(plan.keys) - len(missing)} episodes are done; {len(missing)} are left")
        if not places.over_adb:
            say(HTTP_COST)
        asyncio.run(_sitting(places, plan, player, path, past, protocol, ledger, say))
        past = read_journal(path)
    assert past.protocol is not None
    protocol = past.protocol | {"servers": places.count}
    results = androidworld_results(protocol, _records(plan, past, ledger)) | player.extras()
    results["dead_servers"] = list(past.dead.values())
    write_results(out / RESULTS, results)
    return results


async def _sitting(places: Places, plan: Plan, player: Player, path: Path, past: Past,
                   protocol: dict[str, Any], ledger: Ledger, say: Say) -> None:  # fmt: skip
    with Journal(path, past) as journal:
        server = await places.open(
            Suite(plan.seed, plan.instances, plan.names), plan.boot_wait_s, say, past.leftovers
        )
        protocol = protocol | {
            "androidworld_commit": server.commit or plan.commit or ASSUMED,
            "screen": server.screen,
            "settle": server.access.settle,
            "servers": places.count,
        }
        try:
            past.check(protocol, path)
            journal.begin(protocol)
            todo = [
                task for task in plan.tasks(lambda name, index: server.goals[name, index])
                if key_of(task) not in past.episodes
            ]  # fmt: skip
            say(f"{len(todo)} episodes on {places.count} server{'s' if places.count > 1 else ''}")
            await _play(places, plan, player, todo, journal, ledger, path.parent, say)
        finally:
            await places.close()


async def _play(places: Places, plan: Plan, player: Player, todo: list[Task], journal: Journal, ledger: Ledger,
                out: Path, say: Say) -> None:  # fmt: skip
    """One group for each episode, so that each is journalled as soon as it ends."""

    def started(server: str, task: Task) -> None:
        journal.start(server, task.template, task.params["index"])

    ended, alive = 0, set(places.names)

    def given_up(server: str, fault: str) -> None:
        if server not in places.names:
            return
        journal.dead(server, fault)
        alive.discard(server)
        others = f"for the servers {', '.join(sorted(alive))}" if alive else "and no server"
        say(f"server {server} is given up ({fault}); {len(todo) - ended} episodes are left, {others}")

    devices = places.devices(lambda env: WatchedEnv(env, ledger, started, given_up))
    episode = EpisodeSettings(plan.max_invalid, plan.deadline_s)
    settings = CollectorSettings(group_size=1, max_retries=plan.max_retries, min_group=0.0, episode=episode)
    async with Collector(devices, player.actor, settings, player.poke) as collector:
        player.connect(collector)
        for number, task in enumerate(todo):
            await collector.dispatch(task, f"{SUITE}-{number:05d}", 1)
        async for group in collector.ready(len(todo)):
            [trajectory] = group.trajectories
            key = key_of(group.task)
            record = record_of(group.task, trajectory, ledger.episodes.get(key), ("", ""))
            if plan.keep:  # before it counts as played: a crash in between has it twice, and never not at all
                append_trajectory(out, trajectory)
            journal.end(record)
            alive |= {trajectory.device_id} & set(places.names)
            ended += 1
            say(f"{ended}/{len(todo)} {group.task.template}: {trajectory.reward:g} in {len(trajectory.steps)} steps")


def _records(plan: Plan, past: Past, ledger: Ledger) -> list[dict[str, Any]]:
    """One for every episode of the plan; those that are not in the journal were lost."""
    return [
        past.episodes.get(key_of(task))
        or record_of(task, None, ledger.episodes.get(key_of(task)), ledger.fault_of(key_of(task)))
        for task in plan.tasks(lambda name, index: "")
    ]
