"""Which tasks an iteration collects: epochs of the curriculum, restarts, and tasks that are set aside after losses."""

from __future__ import annotations

import json
import math
import random
from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from made_groups import make_group, make_task
from scripted_env import ScriptedActor, ScriptedEnv, run

from mobilerl.config import ConfigError, CurriculumSection, TasksSection, load_recipe
from mobilerl.config.algorithms.adagrpo import FailureCurriculumSection
from mobilerl.envs.base import InfraError
from mobilerl.envs.phone.tasks import suite
from mobilerl.records import Cause, LostGroup
from mobilerl.rollout.collector import Collector, CollectorSettings
from mobilerl.suites.phone import training
from mobilerl.suites.phone.training import training_tasks
from mobilerl.training.source import AsyncSource, SynchronousSource
from mobilerl.training.tasks import TaskSampler

TASKS = [make_task(f"{t}{i}", t) for t in "ABC" for i in range(2)]


def sampler(tasks=TASKS, limit: int = 0, **settings_) -> TaskSampler:
    return TaskSampler(tasks, FailureCurriculumSection(**settings_), limit)


def group(task, *rewards: float):
    return make_group(task.id, rewards, [1] * len(rewards), task)


A, B, C = TASKS[0], TASKS[2], TASKS[4]


def test_the_curriculum_moves_at_the_end_of_an_epoch():
    s = sampler(epoch_groups=3, patience=1, cooldown=1)
    s.record([group(A, 0.0), group(B, 1.0)])
    assert s.curriculum.active == {"A", "B", "C"}
    s.record([group(B, 1.0), group(A, 1.0)])  # epoch 1 ends with the first of them: A has failed, which is its patience
    assert s.curriculum.cooling == {"A"} and s.state_dict()["rewards"] == {"A": [1.0]}
    s.record([group(B, 1.0), group(C, 1.0)])
    assert s.curriculum.active == {"A", "B", "C"}


def test_single_tasks_can_be_filtered():
    s = sampler(epoch_groups=1, patience=1, cooldown=1, key="task")
    s.record([group(A, 0.0)])
    assert s.curriculum.weights() == {t.id: math.exp(-1) if t is A else 1.0 for t in TASKS}
    s.record([group(B, 1.0)])
    assert s.curriculum.removed == {A.id} and A not in s.sample(50, random.Random(0))
    assert TASKS[1] in s.sample(50, random.Random(0)), "another instance of its template"


def test_a_sampler_starts_from_the_failures_of_an_earlier_run():
    """f = 1 in cooldown there, so the weight is exp(-1) from the first epoch on, and a second failure removes it."""
    settings_ = {"epoch_groups": 1, "patience": 1, "cooldown": 1}
    earlier, s = sampler(TASKS[:4], **settings_), sampler(**settings_)
    earlier.record([group(A, 0.0)])
    assert s.start_from(json.loads(json.dumps(earlier.state_dict()))["curriculum"]) == 2
    assert s.curriculum.weights() == {"A": math.exp(-1), "B": 1.0, "C": 1.0}
    s.record([group(A, 0.0)])
    assert s.curriculum.removed == {"A"}
    with pytest.raises(ValueError, match="knows none of this run's tasks"):
        sampler(key="task").start_from(earlier.curriculum.state_dict())


def test_values_of_instructions_choose_the_tasks_once_the_critic_has_them():
    s = sampler(TASKS[:4], type="instruction_value", epoch_groups=1)
    s.record([group(A, 0.0)])
    assert s.curriculum.active == {"B"}, "without values it is the mean reward that counts"
    value = {"do A0": 0.4, "do A1": 0.6}
    s.use_values(lambda instructions: [value.get(i, 0.99) for i in instructions])
    s.record([group(A, 0.0)])
    assert s.curriculum.active == {"A"} and s.curriculum.weights() == {"A": 1.0, "B": 0.2}


def test_a_template_is_sampled_as_often_as_it_has_tasks():
    many = [make_task(f"D{i}", "D") for i in range(6)]
    for kind in ("fcf", "learnable", "instruction_value"):
        sampled = Counter(task.template for task in sampler([*TASKS, *many], type=kind).sample(120, random.Random(0)))
        assert sampled == {"A": 20, "B": 20, "C": 20, "D": 60}, kind


def test_partial_credit_is_no_success_to_the_curriculum():
    failing = sampler(epoch_groups=1, patience=1, cooldown=1)
    failing.record([group(A, 0.25, 0.5)])
    assert failing.curriculum.cooling == {"A"}
    learnable = sampler(type="learnable")
    learnable.record([group(A, 0.5, 1.0)])  # counted at once: (1 + 1/2) / (2 + 1)
    learnable.record([group(B, 0.5, 0.0)])
    assert learnable.curriculum.rates() == pytest.approx({"A": 0.5, "B": 1 / 6, "C": 0.5})


def test_training_tasks_are_those_named_and_never_held_out():
    tasks = training_tasks(TasksSection(per_template=3, templates=("MusicPause", "TodoDue")))
    assert Counter(t.template for t in tasks) == {"MusicPause": 3, "TodoDue": 3}
    assert not any(map(suite.is_held_out, tasks))
    for name in ("MusicPaus", "MusicAddToPlaylist"):  # a typo; one that is reserved for testing
        with pytest.raises(ConfigError, match=f"tasks.templates.*'{name}'"):
            training_tasks(TasksSection(templates=(name,)))


class SamplerMachine(RuleBasedStateMachine):
    """Compares with a sampler that never restarts."""

    @initialize(
        kind=st.sampled_from(["fcf", "uniform", "instruction_value", "learnable"]),
        epoch=st.integers(1, 4),
        patience=st.integers(1, 2),
        cooldown=st.integers(0, 2),
        revisit=st.none() | st.integers(1, 3),
    )
    def start(self, kind, epoch, patience, cooldown, revisit):
        self.section = CurriculumSection(
            type=kind, epoch_groups=epoch, patience=patience, cooldown=cooldown, revisit_every=revisit
        )
        self.sampler, self.twin = (TaskSampler(TASKS, self.section, 2) for _ in range(2))
        self.recorded = 0

    @rule(n=st.integers(1, 8), seed=st.integers(0, 99))
    def draw(self, n, seed):
        if not self.sampler.has_tasks:
            return
        drawn, again = (s.sample(n, random.Random(seed)) for s in (self.sampler, self.twin))
        assert drawn == again and len(drawn) == n
        weights = self.sampler.curriculum.weights()
        assert all(weights[self.sampler.key(task)] > 0 for task in drawn)
        assert not {task.id for task in drawn} & self.sampler.excluded.set_aside.keys()

    @rule(results=st.lists(st.tuples(st.sampled_from(TASKS), st.sampled_from([0.0, 0.0, 1.0, 0.5])), max_size=4))
    def record(self, results):
        for s in (self.sampler, self.twin):
            s.record([group(task, reward) for task, reward in results])
        self.recorded += len(results)

    @rule(task=st.sampled_from(TASKS), cause=st.sampled_from(Cause), completed=st.sampled_from(TASKS))
    def lose(self, task, cause, completed):
        for s in (self.sampler, self.twin):
            s.record_outcomes([group(completed, 1.0)], [LostGroup(task, cause, "it raised")])

    @rule()
    def restart(self):
        state = json.loads(json.dumps(self.sampler.state_dict()))
        self.sampler = TaskSampler(TASKS, self.section, 2)
        self.sampler.load_state_dict(state)

    @invariant()
    def a_restart_changes_nothing(self):
        states = [json.dumps(s.state_dict(), sort_keys=True) for s in (self.sampler, self.twin)]
        assert states[0] == states[1] and self.sampler.curriculum.weights() == self.twin.curriculum.weights()
        epoch = 1 if self.section.type == "learnable" else self.section.epoch_groups
        assert self.sampler.state_dict()["seen"] == self.recorded % epoch

    @invariant()
    def something_can_be_sampled_unless_the_curriculum_removed_it_all(self):
        weights = self.sampler.curriculum.weights()
        assert self.sampler.has_tasks == bool(weights)
        if self.section.type == "uniform":
            assert set(weights.values()) <= {1.0} and not self.sampler.curriculum.removed


TestSampler = SamplerMachine.TestCase
TestSampler.settings = settings(max_examples=40, stateful_step_count=20)


def by_name(names: str = "abcd", limit: int = 3) -> TaskSampler:
    return sampler([make_task(n, f"T{n}") for n in names], limit)


def lost(name: str, cause: Cause = Cause.TASK) -> LostGroup:
    return LostGroup(make_task(name, f"T{name}"), cause, f"{name} raised")


def completed(name: str):
    return group(make_task(name, f"T{name}"), 1.0, 0.0)


def test_lost_groups_of_a_task_count_in_a_row():
    s = by_name(limit=2)
    s.record_outcomes([], [lost("a")])
    s.record_outcomes([completed("a")], [])
    s.record_outcomes([], [lost("a")])
    assert not s.excluded.set_aside
    s.record_outcomes([], [lost("a"), lost("a")])
    assert list(s.excluded.set_aside) == ["s/a"]


def test_a_fault_of_a_task_is_named_with_its_first_lost_group_and_at_its_exclusion():
    s, said = by_name(), []
    s.report_to(said.append)
    for _ in range(3):
        s.record_outcomes([completed("d")], [lost("a"), lost("b", Cause.DEVICE)])
    assert said[0] == "task s/a cannot run: a raised; after 3 such groups it is excluded"
    assert said[1:] == [f"task s/{name} is excluded for the rest of the run: {name} raised" for name in "ab"]


def test_an_outage_of_devices_sets_nothing_aside():
    s = by_name()
    for _ in range(50):
        s.record_outcomes([], [lost(name, Cause.DEVICE) for name in "abcd"])
    s.record_outcomes([completed("d")], [])  # it is over; everything lost in it counts as one
    s.record_outcomes([completed("d")], [])
    assert not s.excluded.set_aside
    for _ in range(2):
        s.record_outcomes([completed("b"), completed("c")], [lost("a", Cause.DEVICE)])
    assert list(s.excluded.set_aside) == ["s/a"], "others are completed and this one never is"


class Choosy(ScriptedEnv):
    """Suffers `kinds[task id]` at every reset."""

    def __init__(self, name: str, **kinds: str) -> None:
        super().__init__(name)
        self.kinds = {f"s/{task}": kind for task, kind in kinds.items()}

    async def reset(self, task):
        self.fault = lambda where, episode: self.kinds.get(task.id, "ok") if where == "reset" else "ok"
        return await super().reset(task)


def play(envs, s: TaskSampler, ahead: bool, iterations: int = 12) -> list[str]:
    """Ids of the tasks of the groups of `iterations` with two tasks each."""

    async def main():
        async with Collector(envs, ScriptedActor(), CollectorSettings(group_size=2, max_retries=0)) as collector:
            rng = random.Random(0)
            groups = AsyncSource(collector, s, rng, 1, lambda: 0) if ahead else SynchronousSource(collector, s, rng)
            return [g.task.id for i in range(iterations) for g in await groups.take(2, f"{i}")]

    return run(main())


@pytest.mark.parametrize("ahead", [False, True])
def test_a_run_continues_with_the_other_tasks_and_ends_without_any(ahead):
    s, envs = by_name(), [Choosy(f"d{i}", a="task", b="infra", c="free") for i in range(3)]
    assert set(play(envs, s, ahead)) == {"s/d"} and set(s.excluded.set_aside) == {"s/a", "s/b", "s/c"}
    tried = Counter(task for env in envs for task in env.tasks)
    assert tried["s/c"] <= 4 and tried["s/a"] <= 2 * 5, "three groups, and those that were in flight"
    with pytest.raises(InfraError, match="s/b: reset raised; s/a: .*s/a: reset raised"):
        play([Choosy("d0", a="task", b="free")], by_name("ab"), ahead)


def test_few_generated_tasks_are_repeated_for_their_share_of_the_mixture(monkeypatch):
    monkeypatch.setattr(training, "GENERATED", 2)
    flags = ["--tasks.generated_share", "0.25", "--tasks.per_template", "40"]
    tasks, _ = training.make(load_recipe(None, flags)).open()
    different = {task.id: task.template for task in tasks if task.suite == "generated"}
    assert set(Counter(different.values()).values()) == {2}
    drawn = sampler(tasks).sample(2000, random.Random(0))
    assert sum(task.suite == "generated" for task in drawn) / 2000 == pytest.approx(0.25, abs=0.01)
