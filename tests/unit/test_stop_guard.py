"""The guard that turns Ctrl-C and SIGTERM into an orderly end."""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest

from mobilerl.train import interrupt
from mobilerl.train.interrupt import Before, StopGuard, Stopped, going_on, interrupts_as_stopped


@pytest.fixture(autouse=True)
def heard():
    """A shell that started the tests in the background had SIGINT ignored; afterwards all is as it was."""
    before = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


async def never():
    await asyncio.sleep(60)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_work_is_cancelled_and_handlers_are_put_back(number):
    said, cancelled = [], []

    async def work():
        try:
            await never()
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

    asyncio.run(asyncio.wait_for(run(), 10))
    assert cancelled and len(said) == 1 and "again leaves at once" in said[0]
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_work_that_nobody_stops_gives_its_result_and_its_own_errors():
    async def fails():
        raise ValueError("its own")

    async def run():
        with StopGuard() as guard:
            assert await guard.until_stopped(asyncio.sleep(0, "done")) == "done"
            with pytest.raises(ValueError, match="its own"):
                await guard.until_stopped(fails())
            guard.raise_if_requested("nothing was asked for")

    asyncio.run(run())


def test_what_dies_of_the_same_signal_counts_as_the_stop():
    """SLURM ends the servers as well as the run: their failure is no error of the run."""

    async def dies(guard):
        guard.request(signal.SIGTERM)
        raise RuntimeError("the server is gone")

    async def run():
        with StopGuard() as guard:
            with pytest.raises(Stopped):
                await guard.until_stopped(dies(guard))
            with pytest.raises(Stopped, match="saved in X"):
                guard.raise_if_requested("saved in X")

    asyncio.run(run())


def test_a_signal_during_work_that_blocks_the_loop_is_noticed_afterwards():
    async def run():
        with StopGuard(lambda text: None) as guard:
            signal.raise_signal(signal.SIGTERM)  # as while an update runs in this thread
            assert guard.requested
            with pytest.raises(Stopped):
                await guard.until_stopped(never())

    asyncio.run(asyncio.wait_for(run(), 10))


def test_a_stop_can_be_asked_for_from_another_thread():
    async def run():
        with StopGuard() as guard:
            threading.Timer(0.05, guard.request).start()
            with pytest.raises(Stopped):
                await guard.until_stopped(never())

    asyncio.run(asyncio.wait_for(run(), 10))


def test_an_ignored_ctrl_c_stays_ignored():
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    async def run():
        with StopGuard() as guard:
            signal.raise_signal(signal.SIGINT)
            assert not guard.requested
            signal.raise_signal(signal.SIGTERM)
            assert guard.requested

    asyncio.run(run())
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


SECOND = """
import asyncio, signal, time
from mobilerl.train.interrupt import StopGuard
signal.signal(signal.SIGINT, signal.default_int_handler)

async def run():
    with StopGuard(lambda text: print(text, flush=True)) as guard:
        print("ready", flush=True)
        try:
            while not guard.requested:
                await asyncio.sleep(0.01)
        finally:
            time.sleep(60)  # a slow end

asyncio.run(run())
"""


def test_the_second_ctrl_c_leaves_at_once_however_slow_the_end_is():
    child = subprocess.Popen([sys.executable, "-c", SECOND], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline() == "ready\n"
        child.send_signal(signal.SIGINT)
        assert "stopping" in child.stdout.readline()
        child.send_signal(signal.SIGTERM)  # SLURM may send it more than once: only Ctrl-C hurries
        time.sleep(0.3)
        assert child.poll() is None
        child.send_signal(signal.SIGINT)
        began = time.monotonic()
        _, said = child.communicate(timeout=20)
        assert child.returncode == 130 and said.strip() == "left at once"
        assert time.monotonic() - began < 5
    finally:
        child.kill()
        child.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("ignored", [False, True])
def test_without_a_loop_signals_end_the_work_where_it_stands(number, ignored):
    code = f"""
        import signal, time
        from mobilerl.train.interrupt import Stopped, interrupts_as_stopped
        signal.signal(signal.SIGINT, signal.{"SIG_IGN" if ignored else "default_int_handler"})
        try:
            with interrupts_as_stopped():
                print("ready", flush=True)
                time.sleep(5)
            print("slept")
        except Stopped as stop:
            print(stop.exit_code)
    """
    child = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "ready\n"
    child.send_signal(number)
    said, _ = child.communicate(timeout=20)
    assert said.strip() == ("slept" if ignored and number == signal.SIGINT else str(128 + number))


def test_sigterm_ends_a_loop_that_has_no_guard_in_order():
    ended = []

    async def run():
        try:
            asyncio.get_running_loop().call_later(0.05, signal.raise_signal, signal.SIGTERM)
            await never()
        finally:
            ended.append(True)

    with pytest.raises(Stopped) as stopped, interrupts_as_stopped():
        asyncio.run(run())
    assert ended and stopped.value.exit_code == 143
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


class Sampler:
    def __init__(self) -> None:
        self.seen = {"tasks": [1]}

    def state_dict(self):
        return self.seen

    def load_state_dict(self, state):
        self.seen = state


def test_what_collecting_drew_is_undone_once_it_has_ended():
    import torch

    sampler, rng = Sampler(), random.Random(3)

    async def run():
        before = Before(sampler, rng)
        wanted = rng.random(), torch.rand(1).item()
        sampler.seen["tasks"].append(2)
        still = asyncio.create_task(asyncio.to_thread(lambda: (time.sleep(0.2), torch.rand(1))))
        await asyncio.sleep(0)
        await before.restore()
        assert still.done() and sampler.seen == {"tasks": [1]}
        assert (rng.random(), torch.rand(1).item()) == wanted

    asyncio.run(run())


def test_a_generation_that_does_not_end_is_told_and_not_waited_for(monkeypatch, caplog):
    monkeypatch.setattr(interrupt, "SETTLE_S", 0.05)

    async def run():
        before = Before(Sampler(), random.Random(3))
        endless = asyncio.create_task(asyncio.sleep(60))
        await before.restore()
        endless.cancel()

    asyncio.run(run())
    assert "what follows may differ" in caplog.text


def test_the_command_that_goes_on_can_be_pasted():
    assert going_on(["train", "--run-dir", "my runs/a"], True) == "mobilerl train --run-dir 'my runs/a' --resume"
    assert going_on(["train", "--resume"], True) == "mobilerl train --resume"
    assert going_on(["sft"], False) == "mobilerl sft"
