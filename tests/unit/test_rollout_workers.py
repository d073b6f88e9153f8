"""Rollout workers that die or hang: their replacement collects the same, with the same weights."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
import worker_stand_in
from made_groups import make_task

from mobilerl.config import Recipe
from mobilerl.records import Group
from mobilerl.training import workers as module
from mobilerl.training.unguarded import UNGUARDED
from mobilerl.training.worker_process import WorkerResult
from mobilerl.training.workers import MAX_DEATHS, RolloutWorkers, WorkerError

TASKS = [make_task(name) for name in "abc"]
MORE_THAN_A_PIPE_HOLDS = 4 * 2**20


def recipe_of(count: int) -> Recipe:
    """`count` workers with a phone each."""
    return Recipe(fleet={"count": count}, rollout={"workers": count}, algorithm={"group_size": 2})


def stop(worker: int) -> int:
    """Makes it hang. Returns its process id."""
    pid = next(p.pid for p in multiprocessing.active_children() if p.name == f"rollout-{worker}")
    os.kill(pid, signal.SIGSTOP)
    return pid


async def collect_without(pid: int, workers: RolloutWorkers, tasks, prefix: str) -> list[Group]:
    """A collection in which a stopped worker is killed once it has its order, before it carries it out."""
    collecting = asyncio.create_task(workers.collect(tasks, prefix))
    await asyncio.sleep(0.3)
    os.kill(pid, signal.SIGKILL)
    return await collecting


@pytest.fixture
def learner() -> SimpleNamespace:
    """What workers need of an engine. It has learned: its weights are not those of `recipe.model`."""
    engine = SimpleNamespace(version=3, held=b"3" * MORE_THAN_A_PIPE_HOLDS)
    engine.weights = lambda: engine.held
    return engine


async def test_all_workers_run_at_once_however_few_threads_the_event_loop_has(monkeypatch, learner):
    all_there = threading.Barrier(40, timeout=120)

    def play(order) -> WorkerResult:
        all_there.wait()
        return WorkerResult((), Counter(), 0.0, {}, {}, "", ())

    monkeypatch.setattr(module, "_Worker", lambda *_: SimpleNamespace(carry_out=play, close=lambda: None))
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2))
    async with RolloutWorkers(recipe_of(40), learner) as workers:
        assert await workers.collect([make_task(f"t{i}") for i in range(40)], "p") == []


@pytest.fixture
def stand_ins(monkeypatch, learner) -> RolloutWorkers:
    monkeypatch.setattr(module.worker_process, "main", worker_stand_in.main)
    return RolloutWorkers(recipe_of(2), learner)


async def test_a_killed_worker_is_replaced_by_one_with_the_weights_of_the_order(stand_ins, learner):
    async with stand_ins as workers:
        first = await workers.collect(TASKS, "1")
        collecting = asyncio.create_task(collect_without(stop(0), workers, TASKS, "1"))
        await asyncio.sleep(0.1)
        learner.held, learner.version = b"4" * MORE_THAN_A_PIPE_HOLDS, 4  # learning continues in the meantime
        assert await collecting == first
    assert {s.completion.version for g in first for s in g.trajectories[0].steps} == {3}
    timers = [t for t in threading.enumerate() if isinstance(t, threading.Timer)]
    assert all(t.finished.is_set() for t in timers), "a process would be killed that has answered"


async def test_what_happens_to_devices_in_workers_is_told_at_once(stand_ins):
    told: list[str] = []
    stand_ins.on_event(lambda event: told.append(str(event)))
    async with stand_ins as workers:
        await workers.collect(TASKS, "1")
        async with asyncio.timeout(60):
            while len(told) < 2:
                await asyncio.sleep(0.01)
    assert sorted(told) == ["device phone-0 failed: it hangs", "device phone-1 failed: it hangs"]


@pytest.mark.slow
@pytest.mark.parametrize("learned", [False, True])
async def test_a_hanging_worker_is_replaced(stand_ins, learner, monkeypatch, learned):
    """It has the weights and gives no answer, or they have changed and it does not even read them."""
    async with stand_ins as workers:
        first = await workers.collect(TASKS, "1")
        if learned:
            learner.held, learner.version = b"4" * MORE_THAN_A_PIPE_HOLDS, 4
        hanging, patience = stop(1), module._Worker._killed_after

        def killed_after(worker, seconds: float):
            """Soon for the one that hangs; however long another takes to start."""
            return patience(worker, 1.0 if worker._process.pid == hanging else seconds)

        monkeypatch.setattr(module._Worker, "_killed_after", killed_after)
        again = await workers.collect(TASKS, "1")
        assert hanging not in {p.pid for p in multiprocessing.active_children()}
    assert [g.trajectories[0].steps[0].completion.version for g in again] == [4 if learned else 3] * 3
    assert learned or first == again


async def test_workers_that_always_hang_end_the_run(stand_ins, monkeypatch):
    monkeypatch.setattr(module.worker_process, "main", worker_stand_in.hang)
    monkeypatch.setattr(module, "longest_s", lambda *_: 0.2)
    async with stand_ins as workers:
        with pytest.raises(WorkerError, match=f"died {MAX_DEATHS} times.*0.2 s"):
            await workers.collect(TASKS[:1], "1")
    assert not multiprocessing.active_children()


async def test_a_script_without_a_guard_is_told_what_to_write(stand_ins, monkeypatch):
    monkeypatch.setattr(module.worker_process, "main", worker_stand_in.run_again)
    async with stand_ins as workers:
        with pytest.raises(WorkerError, match="below a line `if __name__ == .__main__.:`"):
            await workers.collect(TASKS[:1], "1")


SCRIPT = """
import multiprocessing, sys, mobilerl
if multiprocessing.current_process().name == "MainProcess":  # as `mobilerl.train` starts a worker
    worker = multiprocessing.get_context("spawn").Process(target=print, args=("played",))
    worker.start()
    worker.join()
    sys.exit(worker.exitcode)
mobilerl.train(None, "run")
"""


def test_a_worker_notices_that_it_runs_the_script_again(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (UNGUARDED, "", "")
