"""Rollout workers that die or hang: whatever takes over plays the same, with the same weights."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import random
import signal
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import worker_stand_in
from made_groups import make_task, make_trajectory

from envs.phone.tasks import suite
from mobilerl import tiny
from mobilerl.config import CurriculumSection, Recipe
from mobilerl.engines.local import LocalEngine, LocalSettings
from mobilerl.fleet import Part
from mobilerl.records import Cause, Group, LostGroup
from mobilerl.rollout import workers as module
from mobilerl.rollout.worker_process import Answer
from mobilerl.rollout.workers import MAX_DEATHS, RolloutWorkers, WorkerError, longest_s
from mobilerl.train.source import OneAhead
from mobilerl.train.tasks import TaskSampler

TASKS = [make_task(name) for name in "abc"]
MORE_THAN_A_PIPE_HOLDS = 4 * 2**20


def recipe_of(count: int, **sections: object) -> Recipe:
    """`count` workers with a phone each."""
    phone = {"count": count, "width": 180, "height": 360}
    return Recipe(phone=phone, collect={"workers": count, "group_size": 2}, **sections)


def pid_of(worker: int) -> int:
    return next(p.pid for p in multiprocessing.active_children() if p.name == f"rollout-{worker}")


def stop(worker: int) -> int:
    """Makes it hang, wherever it is. Returns its process id."""
    pid = pid_of(worker)
    os.kill(pid, signal.SIGSTOP)
    return pid


async def collect_without(pid: int, workers: RolloutWorkers, tasks, prefix: str) -> list[Group]:
    """A collection in which a stopped worker is killed once it has its order, before it has played it."""
    collecting = asyncio.create_task(workers.collect(tasks, prefix))
    await asyncio.sleep(0.3)
    os.kill(pid, signal.SIGKILL)
    return await collecting


# --- without a model ---------------------------------------------------------------------------------------------


@pytest.fixture
def learner() -> SimpleNamespace:
    """An engine, as far as workers need one. It has learned: its weights are not those of `recipe.model`."""
    engine = SimpleNamespace(version=3, held=b"3" * MORE_THAN_A_PIPE_HOLDS)
    engine.weights = lambda: engine.held
    return engine


@pytest.fixture
def stand_ins(monkeypatch, learner) -> RolloutWorkers:
    monkeypatch.setattr(module.worker_process, "main", worker_stand_in.main)
    return RolloutWorkers(recipe_of(2), learner)


async def test_all_workers_play_at_once_however_few_threads_the_event_loop_has(monkeypatch, learner):
    count = 40
    all_there = threading.Barrier(count, timeout=20)

    class Meeting:
        def __init__(self, *_): ...

        def play(self, order):
            all_there.wait()
            return Answer((), Counter(), 0.0, {}, {}, "", ())

        def close(self): ...

    monkeypatch.setattr(module, "_Worker", Meeting)
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2))
    async with RolloutWorkers(recipe_of(count), learner) as workers:
        assert await workers.collect([make_task(f"t{i}") for i in range(count)], "p") == []


async def test_what_was_played_ahead_and_never_used_is_counted_at_the_end(monkeypatch, learner):
    class Asking:
        """The second worker's second order is cut off by the end of the run."""

        def __init__(self, recipe, part, run_dir):
            self.second, self.orders = part.index == 1, 0

        def play(self, order):
            self.orders += 1
            if self.second:
                if self.orders == 2:
                    raise module.WorkerError("the run is over")
                return Answer((), Counter(), 0.0, {}, {}, "", ())
            return Answer((), Counter(finished=1), 2.0, {"requests": 3}, {}, "", ())

        def close(self): ...

    monkeypatch.setattr(module, "_Worker", Asking)
    async with RolloutWorkers(recipe_of(2), learner) as workers:
        workers.take(await workers.play([make_task("a"), make_task("b")], "1"))
        assert (workers.busy_s, workers.judged()) == (2.0, {"requests": 3})
        with pytest.raises(module.WorkerError):
            await workers.play([make_task("c"), make_task("d")], "2")
        async with asyncio.timeout(60):
            while not workers._untaken:
                await asyncio.sleep(0.01)
        assert workers.busy_s == 2.0, "it belongs to an iteration that is to come"
    assert (workers.busy_s, workers.judged()) == (4.0, {"requests": 6})


async def test_groups_that_workers_lost_set_their_task_aside(monkeypatch, learner):
    class Losing:
        """Loses every group of task a."""

        def __init__(self, *_): ...

        def play(self, order):
            back = [Group(task, (make_trajectory(f"{name}-00", 1.0, 1, task),)) for name, task in order.jobs]
            lost = [LostGroup(g.task, Cause.TASK, "it raised") for g in back if g.task.id == "s/a"]
            kept = [group for group in back if group.task.id != "s/a"]
            return Answer(tuple(kept), Counter(), 0.0, {}, {}, "", (), tuple(lost))

        def close(self): ...

    monkeypatch.setattr(module, "_Worker", Losing)
    sampler = TaskSampler(TASKS, CurriculumSection(by="task"), 2)
    async with RolloutWorkers(recipe_of(2), learner) as workers:
        source = OneAhead(workers, sampler, random.Random(0))
        for i in range(4):
            await source.take(3, str(i))
    assert list(sampler.losses.set_aside) == ["s/a"]
    assert {task.id for task in sampler.sample(9, random.Random(0))} == {"s/b", "s/c"}


async def test_a_worker_that_is_killed_in_a_refill_is_replaced_by_one_with_the_weights(stand_ins):
    async with stand_ins as workers:
        first = await workers.collect(TASKS, "1-0")
        again = await collect_without(stop(0), workers, TASKS, "1-0")
    assert first == again
    assert {s.completion.version for g in again for s in g.trajectories[0].steps} == {3}
    timers = [t for t in threading.enumerate() if isinstance(t, threading.Timer)]
    assert all(t.finished.is_set() for t in timers), "a process would be killed that has answered"


async def test_the_weights_are_those_of_the_order_though_learning_goes_on(stand_ins, learner):
    """As when one iteration is played ahead: the order is the second one of its version."""
    async with stand_ins as workers:
        first = await workers.collect(TASKS, "1")
        collecting = asyncio.create_task(collect_without(stop(1), workers, TASKS, "1"))
        await asyncio.sleep(0.1)
        learner.held, learner.version = b"4" * MORE_THAN_A_PIPE_HOLDS, 4
        assert await collecting == first


@pytest.mark.slow
@pytest.mark.parametrize("learned", [False, True])
async def test_a_worker_that_hangs_is_replaced(stand_ins, learner, monkeypatch, caplog, learned):
    """It has the weights and gives no answer, or they have changed and it does not even take them."""
    async with stand_ins as workers:
        first = await workers.collect(TASKS, "1")
        monkeypatch.setattr(module, "longest_s", lambda *_: 12.0)  # in which a new one starts, too
        if learned:
            learner.held, learner.version = b"4" * MORE_THAN_A_PIPE_HOLDS, 4
        stop(1)
        began = time.monotonic()
        again = await workers.collect(TASKS, "1")
        assert time.monotonic() - began >= 12
    assert [g.trajectories[0].steps[0].completion.version for g in again] == [4 if learned else 3] * 3
    assert learned or first == again
    assert "rollout worker 1: no answer in 12 s; another takes over" in caplog.text


async def test_workers_that_all_hang_end_the_run(stand_ins, monkeypatch):
    monkeypatch.setattr(module.worker_process, "main", worker_stand_in.hang)
    monkeypatch.setattr(module, "longest_s", lambda *_: 0.2)
    async with stand_ins as workers:
        said = f"rollout worker 0 died {MAX_DEATHS} times, {MAX_DEATHS} of them killed for having no answer in 0.2 s"
        with pytest.raises(WorkerError, match=said):
            await workers.collect(TASKS[:1], "1")
    assert not multiprocessing.active_children()


def test_how_long_an_order_may_take(monkeypatch):
    """Three groups of 8 on 4 of the 8 phones, each episode tried 1 + 3 times."""
    monkeypatch.setattr(module, "START_S", 100.0)
    part, sections = Part(0, 2), {"phone": {"count": 8}, "agent": {"deadline_s": 10.0}}
    assert longest_s(Recipe(**sections), part, 3) == 100 + 6 * 4 * 10
    judge = {"url": "http://127.0.0.1:1/v1", "model": "m", "reward": True, "deadline_s": 5.0}
    assert longest_s(Recipe(**sections, judge=judge), part, 3) == 100 + 6 * 4 * 15
    fleet = {"type": "docker", "refresh_s": 1.0, "boot_s": 3.0, "give_up_s": 50.0}
    assert longest_s(Recipe(**sections, fleet=fleet), part, 3) == 150 + 6 * 4 * 15
    forever = Recipe(phone={"count": 8}, agent={"deadline_s": 1e12})
    assert longest_s(forever, part, 3) == threading.TIMEOUT_MAX


# --- with one ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> list[Path]:
    """Two tiny models that differ in their weights alone."""
    made = []
    for seed in range(2):
        made.append(tmp_path_factory.mktemp("tiny"))
        torch.manual_seed(seed)
        tiny.create(made[-1], ("Open the Settings app",), hidden=32, layers=2, heads=2, vision_hidden=16)
    return made


def timeless(groups: list[Group]) -> list[Group]:
    """Without what a clock said."""
    return [
        replace(group, trajectories=tuple(
            replace(t, wall_s=0.0, steps=tuple(replace(s, timings={}) for s in t.steps)) for t in group.trajectories
        ))
        for group in groups
    ]  # fmt: skip


@pytest.mark.slow
async def test_what_follows_a_death_in_a_refill_equals_a_run_without_one(folders):
    """The learner holds other weights than `recipe.model`, as after a --resume."""
    engine = LocalEngine(folders[1], LocalSettings())
    engine.version = 3
    tasks = [suite.make_task("MusicPause", seed) for seed in range(2)]
    recipe = recipe_of(1, model=str(folders[0]), agent={"max_new_tokens": 16})
    async with RolloutWorkers(recipe, engine) as workers:
        first = await workers.collect(tasks, "1-0")
        undisturbed = await workers.collect(tasks, "1-1")
        refilled = await collect_without(stop(0), workers, tasks, "1-1")
    assert timeless(refilled) == timeless(undisturbed) != timeless(first)
    assert {s.completion.version for g in refilled for t in g.trajectories for s in t.steps} == {3}
