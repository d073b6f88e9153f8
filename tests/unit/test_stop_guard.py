"""Ctrl-C and SIGTERM end a run cleanly."""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import sys
import textwrap
import time
from types import SimpleNamespace

import pytest
import torch

from mobilerl.training.interrupt import Snapshot, StopGuard, Stopped


@pytest.fixture(autouse=True)
def default_handlers():
    """The tests may have been started in the background with SIGINT ignored."""
    before = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_cancels_the_work_and_the_handlers_are_restored(number):
    said, cancelled = [], []

    async def work():
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    async def run():
        with StopGuard(said.append) as guard:
            asyncio.get_running_loop().call_later(0.05, signal.raise_signal, number)
            with pytest.raises(Stopped) as stopped:
                await guard.until_stopped(work())
            assert guard.requested
        assert stopped.value.exit_code == 128 + number

    asyncio.run(asyncio.wait_for(run(), 60))
    assert cancelled and len(said) == 1
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_error_after_the_signal_counts_as_the_stop():
    """SLURM ends the servers together with the run."""

    async def fails(guard):
        guard.request(signal.SIGTERM)
        raise RuntimeError("the server is gone")

    async def run():
        with StopGuard() as guard:
            assert await guard.until_stopped(asyncio.sleep(0, "done")) == "done"
            with pytest.raises(Stopped):
                await guard.until_stopped(fails(guard))
            with pytest.raises(Stopped, match="saved in X"):
                guard.raise_if_requested("saved in X")

    asyncio.run(run())


def start(code: str) -> subprocess.Popen:
    """A child process that has printed "ready"."""
    command = [sys.executable, "-c", textwrap.dedent(code)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "ready\n"
    return child


def test_the_second_ctrl_c_exits_immediately():
    child = start(
        """
        import asyncio, signal, time
        from mobilerl.training.interrupt import StopGuard
        signal.signal(signal.SIGINT, signal.default_int_handler)

        async def run():
            with StopGuard(lambda text: print(text, flush=True)) as guard:
                print("ready", flush=True)
                try:
                    while not guard.requested:
                        await asyncio.sleep(0.01)
                finally:
                    time.sleep(600)  # slow shutdown

        asyncio.run(run())
        """
    )
    try:
        child.send_signal(signal.SIGINT)
        assert "stopping" in child.stdout.readline()
        child.send_signal(signal.SIGTERM)  # SLURM may send several; only Ctrl-C forces the exit
        time.sleep(0.3)
        assert child.poll() is None
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=60)
        assert child.returncode == 130
    finally:
        child.kill()
        child.communicate()


@pytest.mark.parametrize(
    ("number", "handler", "output"), [(signal.SIGINT, "default_int_handler", "130"), (signal.SIGTERM, "SIG_IGN", "143")]
)
def test_signals_without_a_loop(number, handler, output):
    child = start(
        f"""
        import signal, time
        from mobilerl.training.interrupt import Stopped, interrupts_as_stopped
        signal.signal(signal.SIGINT, signal.{handler})
        try:
            with interrupts_as_stopped():
                print("ready", flush=True)
                time.sleep(600)
        except Stopped as stop:
            print(stop.exit_code)
        """
    )
    child.send_signal(number)
    assert child.communicate(timeout=60)[0].strip() == output


def test_an_abandoned_iteration_leaves_no_trace_in_random_and_curriculum_state():
    state, rng = {"tasks": [1]}, random.Random(3)
    sampler = SimpleNamespace(state_dict=lambda: state, load_state_dict=state.update)

    async def run():
        before = Snapshot(sampler, rng)
        wanted = rng.random(), torch.rand(1).item()
        state["tasks"] = [1, 2]
        generating = asyncio.create_task(asyncio.to_thread(lambda: (time.sleep(0.2), torch.rand(1))))
        await asyncio.sleep(0)
        await before.restore()
        assert generating.done() and state == {"tasks": [1]}
        assert (rng.random(), torch.rand(1).item()) == wanted

    asyncio.run(run())
