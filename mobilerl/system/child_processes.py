"""Start of child processes that ignore signals to the whole process group."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker

JOB_SIGNALS = frozenset({signal.SIGINT, signal.SIGTERM})
"""Signals that end a job, and that a terminal, `timeout`, SLURM or systemd may send to all of its processes."""


@contextmanager
def signals_held(*numbers: signal.Signals) -> Iterator[None]:
    """Blocks signals for processes started here, as Ctrl-C on a terminal, for one, reaches children too.

    They inherit the signal mask. Otherwise a child that is still importing would end with a traceback.
    """
    resource_tracker.ensure_running()  # started with the first child, it would unblock the signals
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
