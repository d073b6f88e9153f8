"""Start of child processes that ignore Ctrl-C."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Blocks SIGINT for processes started here, as Ctrl-C on a terminal reaches children too.

    They inherit the signal mask. Otherwise a child that is still importing would end with a traceback.
    """
    resource_tracker.ensure_running()  # started with the first child, it would unblock the signal
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
