"""Ctrl-C and SIGTERM, with which SLURM ends a job before its time is up: a run saves what it has and says how to go on.

The first signal asks the loop to stop. What can be given up (collecting) is given up at once, what cannot (an update)
is finished, and the loop saves. The second Ctrl-C leaves at once; what is on disk is whole, since checkpoints are put
in place by one rename. Processes below this one end with it: rollout workers and vLLM notice that it is gone.
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
from types import FrameType, TracebackType
from typing import Any, TypeVar

log = logging.getLogger(__name__)
T = TypeVar("T")
SIGNALS = (signal.SIGINT, signal.SIGTERM)
SETTLE_S = 120.0
"""For what collecting left running to end: a generation that is under way."""
AGAIN = "stopping: collecting is given up, an update is finished, then the run is saved; Ctrl-C again leaves at once"


class Stopped(Exception):  # noqa: N818 - nothing went wrong
    """A run ended because it was asked to, by the signal `number`. The message says what of it is kept."""

    def __init__(self, number: int, message: str = "stopped") -> None:
        super().__init__(message)
        self.number = number

    @property
    def exit_code(self) -> int:
        """As shells give it: 130 for Ctrl-C, 143 for SIGTERM."""
        return 128 + self.number


class StopGuard:
    """Catches the signals while it is entered. To be entered in the event loop's thread.

    Outside the main thread, where Python handles no signals, it does nothing by itself; `request` works everywhere.
    """

    def __init__(self, say: Callable[[str], None] | None = None) -> None:
        self._say = say or (lambda text: print(f"\n{text}", file=sys.stderr, flush=True))
        self._number: int | None = None
        self._event: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._before: dict[int, Any] = {}

    @property
    def requested(self) -> bool:
        return self._number is not None

    def __enter__(self) -> StopGuard:
        self._loop, self._event = asyncio.get_running_loop(), asyncio.Event()
        if threading.current_thread() is threading.main_thread():
            # A shell without job control starts what is to run in the background with SIGINT ignored: so be it.
            heard = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
            self._before = {number: signal.signal(number, self._handle) for number in heard}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for number, before in self._before.items():
            signal.signal(number, before if before is not None else signal.SIG_DFL)
        self._before = {}

    def request(self, number: int = signal.SIGINT) -> None:
        """Asks the loop to stop, from any thread."""
        if self._number is None:
            self._number = number
        if self._loop is not None and self._event is not None:
            with suppress(RuntimeError):  # the loop is over, and so is what was to be stopped
                self._loop.call_soon_threadsafe(self._event.set)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._number is None:
            self._say(AGAIN)
            self.request(number)
        elif number == signal.SIGINT:
            # Not by an exception: it would run through all that closes devices and servers, which takes minutes.
            os.write(2, b"\nleft at once\n")
            os._exit(128 + number)

    async def until_stopped(self, work: Awaitable[T]) -> T:
        """The result of `work`; once a stop is asked for, `work` is cancelled and Stopped raised instead.

        A signal that reaches a whole job ends its servers as well, so what `work` dies of meanwhile counts as the stop.
        """
        assert self._event is not None, "the guard has not been entered"
        task = asyncio.ensure_future(work)
        stop = asyncio.ensure_future(self._event.wait())
        try:
            await asyncio.wait({task, stop}, return_when=asyncio.FIRST_COMPLETED)
            if self._number is None:
                return task.result()
            raise Stopped(self._number)
        finally:
            task.cancel()
            stop.cancel()
            await asyncio.gather(task, stop, return_exceptions=True)

    def raise_if_requested(self, message: str) -> None:
        """At the end of a run, once it is saved; `message` says where."""
        if self._number is not None:
            raise Stopped(self._number, message)


class Before:
    """Random and curriculum state as it is before an iteration: one that is given up must leave no trace in it."""

    def __init__(self, sampler: Any, rng: random.Random) -> None:
        """`sampler` has `state_dict` and `load_state_dict`. With torch loaded, its random state is kept as well."""
        self._sampler, self._rng = sampler, rng
        self._states = copy.deepcopy(sampler.state_dict()), rng.getstate()
        self._torch = sys.modules.get("torch")
        if self._torch is not None:
            self._cpu, self._cuda = self._torch.get_rng_state(), []
            if self._torch.cuda.is_available():
                self._cuda = self._torch.cuda.get_rng_state_all()

    async def restore(self) -> None:
        """To be called once devices are closed."""
        # A generation that is under way cannot be broken off, and it draws from torch's random numbers to its end.
        if others := asyncio.all_tasks() - {asyncio.current_task()}:
            _, pending = await asyncio.wait(others, timeout=SETTLE_S)
            if pending:
                log.warning("still sampling after %g s: what follows may differ from an unbroken run", SETTLE_S)
        state, random_state = self._states
        self._sampler.load_state_dict(state)
        self._rng.setstate(random_state)
        if self._torch is not None:
            self._torch.set_rng_state(self._cpu)
            if self._cuda:
                self._torch.cuda.set_rng_state_all(self._cuda)


@contextmanager
def interrupts_as_stopped() -> Iterator[None]:
    """For what has no loop to stop: Ctrl-C and SIGTERM end it where it stands, by Stopped."""
    number = signal.SIGINT

    def terminate(given: int, frame: FrameType | None) -> None:
        nonlocal number
        number = signal.Signals(given)
        if callable(signal.getsignal(signal.SIGINT)):
            signal.raise_signal(signal.SIGINT)  # asyncio has a handler of its own, which ends its loop in order
        else:
            raise KeyboardInterrupt

    main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTERM, terminate) if main else None
    try:
        yield
    except KeyboardInterrupt:
        raise Stopped(number) from None
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)


def going_on(words: Sequence[str], resume: bool) -> str:
    """The command that goes on with the run that the command line `words` began."""
    added = ["--resume"] if resume and "--resume" not in words else []
    return shlex.join(["mobilerl", *words, *added])
