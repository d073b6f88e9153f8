"""Tasks whose groups never come back: what the collector says of them, and when a run sets them aside."""

from __future__ import annotations

import json
import random
from collections import Counter

import pytest
from collecting import TASKS, collect, fleet
from made_groups import make_group, make_task
from scripted_env import ScriptedActor, ScriptedEnv, run

from envs.base import InfraError
from envs.pool import FixedDevices
from mobilerl.config import CurriculumSection
from mobilerl.records import Cause, LostGroup
from mobilerl.rollout.collector import Collector, CollectorSettings
from mobilerl.train.source import Ahead, InTurns
from mobilerl.train.tasks import TaskSampler


class Choosy(ScriptedEnv):
    """Suffers `kinds[task id]` at every reset."""

    kinds: dict[str, str] = {}

    async def reset(self, task):
        self.fault = lambda where, episode: self.kinds.get(task.id, "ok") if where == "reset" else "ok"
        return await super().reset(task)


def choosy(n: int, **kinds: str) -> list[Choosy]:
    envs = [Choosy(f"d{i}") for i in range(n)]
    for env in envs:
        env.kinds = {f"s/{name}": kind for name, kind in kinds.items()}
    return envs


def sampler(names: str = "abcd", limit: int = 3, **settings: object) -> TaskSampler:
    return TaskSampler([make_task(n, f"T{n}") for n in names], CurriculumSection(**settings), limit)


def lost(name: str, cause: Cause = Cause.TASK) -> LostGroup:
    return LostGroup(make_task(name, f"T{name}"), cause, f"{name} raised")


def back(name: str):
    return make_group(name, (1.0, 0.0), (1, 1), make_task(name, f"T{name}"))


# --- what the collector says ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "cause"), [("infra", Cause.DEVICE), ("task", Cause.TASK)])
def test_a_lost_group_says_what_is_to_blame_after_all_retries(kind, cause):
    envs = choosy(2, b=kind)
    pool = FixedDevices(envs)
    groups, collector = collect(pool, TASKS[:3], max_retries=1)
    [gone] = collector.lost
    assert (gone.task.id, gone.cause) == ("s/b", cause) and gone.reason.endswith(("failed", "raised"))
    assert len(groups) == 2 and collector.counts["infra_errors"] == 8
    assert sum(device.faults for device in pool.report()) == (8 if cause is Cause.DEVICE else 0)


def test_a_task_that_raises_on_a_device_that_is_not_well_is_not_to_blame():
    envs = choosy(1, b="task")
    envs[0].ok = False
    _, collector = collect(envs, TASKS[:3], max_retries=0)
    [gone] = collector.lost
    assert (gone.cause, gone.reason) == (Cause.DEVICE, "d0: offline (after: s/b: reset raised)")


def test_a_group_with_a_free_reward_is_given_up_at_once():
    envs = choosy(1, b="free")
    groups, collector = collect(envs, TASKS[:3], max_retries=3)
    assert [g.task.id for g in groups] == ["s/a", "s/c"] and [g.cause for g in collector.lost] == [Cause.FREE_REWARD]
    assert Counter(envs[0].tasks)["s/b"] == 1, "neither again, nor for the group's other episodes"
    assert collector.counts["failed"] == 4 and collector.unfinished == 0


# --- when a task is set aside --------------------------------------------------------------------------------------


def test_lost_groups_of_a_task_count_in_a_row():
    s = sampler(limit=2)
    s.ended([], [lost("a")])
    s.ended([back("a")], [])
    s.ended([], [lost("a")])
    assert not s.losses.set_aside
    s.ended([], [lost("a"), lost("a")])
    assert list(s.losses.set_aside) == ["s/a"]


def test_an_outage_sets_nothing_aside_however_long_it_lasts():
    s = sampler()
    for _ in range(50):
        s.ended([], [lost(name, Cause.DEVICE) for name in "abcd"])
    s.ended([back("d")], [])  # it is over; what was lost in it counts as one
    s.ended([back("d")], [])
    assert not s.losses.set_aside
    for _ in range(2):
        s.ended([back("b"), back("c")], [lost("a", Cause.DEVICE)])
    assert list(s.losses.set_aside) == ["s/a"], "others come back and this one never does"


def test_without_a_limit_only_free_rewards_are_set_aside():
    s = sampler(limit=0)
    for _ in range(9):
        s.ended([back("d")], [lost("a"), lost("b", Cause.DEVICE), lost("c", Cause.FREE_REWARD)])
    assert list(s.losses.set_aside) == ["s/c"]
    assert s.losses.metrics() == {"rollout/tasks_set_aside": 1, "rollout/free_reward_tasks": 1}


def test_a_task_is_named_once_and_its_template_goes_with_its_last_instance():
    tasks, heard = [make_task("a0", "A"), make_task("a1", "A"), make_task("b0", "B")], []
    s = TaskSampler(tasks, CurriculumSection(epoch_groups=1), 1)
    s.say = heard.append
    gone = [LostGroup(task, Cause.TASK, "it raised") for task in tasks]
    s.ended([], gone[:1])
    assert {t.id for t in s.sample(20, random.Random(0))} == {"s/a1", "s/b0"}
    s.ended([], gone[:2])
    assert {t.id for t in s.sample(20, random.Random(0))} == {"s/b0"} and s.curriculum.active == {"B"}
    s.record([make_group("late", (1.0,), (1,), tasks[0])])  # it was under way
    assert heard == [f"task s/a{i} is set aside for the rest of the run: it raised" for i in range(2)]


@pytest.mark.parametrize("kind", ["fcf", "instruction_value"])
def test_a_resumed_run_keeps_tasks_aside_and_counts_on(kind):
    straight = sampler(type=kind, epoch_groups=2)
    straight.ended([back("b")], [lost("a", Cause.FREE_REWARD), lost("c"), lost("c"), lost("d", Cause.DEVICE)])
    straight.record([back("b")])
    resumed = sampler(type=kind, epoch_groups=2)
    resumed.load_state_dict(json.loads(json.dumps(straight.state_dict())))
    assert resumed.losses.set_aside == straight.losses.set_aside
    for s in (straight, resumed):
        s.ended([], [lost("c")])
    assert list(resumed.losses.set_aside) == ["s/a", "s/c"]
    assert resumed.sample(9, random.Random(1)) == straight.sample(9, random.Random(1))
    assert json.dumps(resumed.state_dict()) == json.dumps(straight.state_dict())


def test_a_checkpoint_from_before_tasks_were_set_aside_still_loads():
    old = {name: value for name, value in sampler().state_dict().items() if name != "losses"}
    s = sampler()
    s.load_state_dict(old)
    assert len(s.sample(4, random.Random(0))) == 4


# --- a run ---------------------------------------------------------------------------------------------------------


def play(envs, s: TaskSampler, source, iterations: int = 12, n: int = 2) -> list[str]:
    """Ids of the tasks that were played for `iterations`."""
    settings = CollectorSettings(group_size=2, max_retries=0)

    async def main():
        async with Collector(envs, ScriptedActor(), settings) as collector:
            groups = source(collector, s)
            return [g.task.id for i in range(iterations) for g in await groups.take(n, f"{i}")]

    return run(main())


def in_turns(collector, s):
    return InTurns(collector, s, random.Random(0))


def ahead(collector, s):
    return Ahead(collector, s, random.Random(0), 1, lambda: 0)


@pytest.mark.parametrize("source", [in_turns, ahead])
def test_a_run_goes_on_with_the_others(source):
    s, envs = sampler(), choosy(3, a="task", b="infra", c="free")
    played = play(envs, s, source)
    assert set(played) == {"s/d"} and set(s.losses.set_aside) == {"s/a", "s/b", "s/c"}
    tried = Counter(task for env in envs for task in env.tasks)
    assert tried["s/c"] <= 4 and tried["s/a"] <= 2 * 5, "three groups, and those that were under way"


@pytest.mark.parametrize("source", [in_turns, ahead])
def test_a_run_without_a_task_left_ends_with_the_reasons(source):
    envs = choosy(2, a="task", b="free")
    with pytest.raises(InfraError, match=r"every task .* was set aside .*s/b: reset raised; s/a: .*s/a: reset raised"):
        play(envs, sampler("ab"), source)


def test_a_server_that_is_away_for_a_while_sets_nothing_aside():
    s, envs = sampler("ab"), fleet(1)
    envs[0].fault = lambda where, episode: "infra" if 4 <= episode < 40 else "ok"
    played = play(envs, s, in_turns, iterations=20)
    assert not s.losses.set_aside and {"s/a", "s/b"} == set(played[-4:])
