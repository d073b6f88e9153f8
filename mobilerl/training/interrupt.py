"""Handling of Ctrl-C and SIGTERM (sent by SLURM to end a job): a run saves its state and says how to resume it.

The first signal asks the loop to stop: it abandons a rollout, finishes an update, and saves. A second Ctrl-C exits
immediately; files on disk stay intact, because checkpoints are put in place by one rename. Child processes (rollout
workers, vLLM) notice that this process is gone and exit.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import os
import random
import shlex
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, TypeVar

log = logging.getLogger(__name__)
T = TypeVar("T")
SIGNALS = (signal.SIGINT, signal.SIGTERM)
SETTLE_S = 120.0
"""Seconds to wait for a generation that is still running when a rollout is abandoned."""
STOPPING = "stopping: the run is saved after the current update; press Ctrl-C again to exit immediately"


class Stopped(Exception):  # noqa: N818 - not an error
    """Raised when signal `number` ended a run. The message says what was saved."""

    def __init__(self, number: int, message: str = "stopped") -> None:
        super().__init__(message)
        self.number = number

    @property
    def exit_code(self) -> int:
        """Exit code by the shell's convention: 130 for Ctrl-C, 143 for SIGTERM."""
        return 128 + self.number


class StopGuard:
    """Context manager that handles the signals, to be entered in the thread of the event loop.

    Outside the main thread, where Python handles no signals, only `request` has an effect.
    """

    def __init__(self, say: Callable[[str], None] | None = None) -> None:
        self._say = say or (lambda text: print(f"\n{text}", file=sys.stderr, flush=True))
        self._number: int | None = None
        self._event: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._previous: dict[int, Any] = {}

    @property
    def requested(self) -> bool:
        return self._number is not None

    def __enter__(self) -> StopGuard:
        self._loop, self._event = asyncio.get_running_loop(), asyncio.Event()
        if threading.current_thread() is threading.main_thread():
            # A shell without job control starts background jobs with SIGINT ignored: leave it ignored.
            handled = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
            self._previous = {number: signal.signal(number, self._handle) for number in handled}
        return self

    def __exit__(self, *exception: object) -> None:
        for number, previous in self._previous.items():
            signal.signal(number, previous if previous is not None else signal.SIG_DFL)
        self._previous = {}

    def request(self, number: int = signal.SIGINT) -> None:
        """Asks the loop to stop, from any thread."""
        if self._number is None:
            self._number = number
        if self._loop is not None and self._event is not None:
            with suppress(RuntimeError):  # the loop is already closed
                self._loop.call_soon_threadsafe(self._event.set)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._number is None:
            self._say(STOPPING)
            self.request(number)
        elif number == signal.SIGINT:
            # Not an exception: that would first close all devices and servers, which takes minutes.
            os.write(2, b"\nexited immediately\n")
            os._exit(128 + number)

    async def until_stopped(self, work: Awaitable[T]) -> T:
        """Awaits `work` and returns its result; if a stop is requested, cancels it and raises Stopped.

        A signal to a whole job also ends its servers, so an error of `work` after the request is ignored.
        """
        assert self._event is not None, "the guard has not been entered"
        task = asyncio.ensure_future(work)
        stop = asyncio.ensure_future(self._event.wait())
        try:
            await asyncio.wait({task, stop}, return_when=asyncio.FIRST_COMPLETED)
            self.raise_if_requested("stopped")
            return task.result()
        finally:
            task.cancel()
            stop.cancel()
            await asyncio.gather(task, stop, return_exceptions=True)

    def raise_if_requested(self, message: str) -> None:
        """Raises Stopped with `message`, which says where the run is saved, if a stop was requested."""
        if self._number is not None:
            raise Stopped(self._number, message)


class Snapshot:
    """RNG and curriculum state before an iteration, to be restored if the iteration is abandoned."""

    def __init__(self, sampler: Any, rng: random.Random) -> None:
        """Captures `sampler` (by its `state_dict`), `rng`, and torch's RNG state if torch is loaded."""
        self._sampler, self._rng = sampler, rng
        self._states = copy.deepcopy(sampler.state_dict()), rng.getstate()
        self._torch = sys.modules.get("torch")
        if self._torch is not None:
            self._cpu, self._cuda = self._torch.get_rng_state(), []
            if self._torch.cuda.is_available():
                self._cuda = self._torch.cuda.get_rng_state_all()

    async def restore(self) -> None:
        """Restores the state. Call it after the devices are closed."""
        # A running generation cannot be interrupted, and it draws from torch's random state until it ends.
        if others := asyncio.all_tasks() - {asyncio.current_task()}:
            _, pending = await asyncio.wait(others, timeout=SETTLE_S)
            if pending:
                log.warning("still generating after %g s; resuming may differ from an uninterrupted run", SETTLE_S)
        state, random_state = self._states
        self._sampler.load_state_dict(state)
        self._rng.setstate(random_state)
        if self._torch is not None:
            self._torch.set_rng_state(self._cpu)
            if self._cuda:
                self._torch.cuda.set_rng_state_all(self._cuda)


@contextmanager
def interrupts_as_stopped() -> Iterator[None]:
    """Raises Stopped immediately on Ctrl-C or SIGTERM; for code without a StopGuard."""
    number = signal.SIGINT

    def terminate(received: int, frame: FrameType | None) -> None:
        nonlocal number
        number = signal.Signals(received)
        if callable(signal.getsignal(signal.SIGINT)):
            signal.raise_signal(signal.SIGINT)  # asyncio's own handler shuts its loop down cleanly
        else:
            raise KeyboardInterrupt

    in_main_thread = threading.current_thread() is threading.main_thread()
    previous = signal.signal(signal.SIGTERM, terminate) if in_main_thread else None
    try:
        yield
    except KeyboardInterrupt:
        raise Stopped(number) from None
    finally:
        if previous is not None:
            signal.signal(signal.SIGTERM, previous)


def resume_command(words: Sequence[str], resume: bool) -> str:
    """The command that continues the run started by the command line `words`."""
    added = ["--resume"] if resume and "--resume" not in words else []
    return shlex.join(["mobilerl", *words, *added])
