"""Times, measured so that a busy machine does not make them long."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

TRIES, PATIENCE_S = 3, 20.0


def best_time(call: Callable[[], object], enough: float) -> float:
    """The shortest of many calls, in seconds; the first that takes less than `enough` ends it."""
    until, best = time.monotonic() + PATIENCE_S, float("inf")
    while best >= enough and time.monotonic() < until:
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best


def processor_time(code: str, *words: str, enough: float) -> tuple[int, str, float]:
    """(exit code, output, seconds of processor time) of a Python program, as `best_time`."""
    best = float("inf")
    for _ in range(TRIES):
        with subprocess.Popen(
            [sys.executable, "-c", code, *words],
            cwd=Path(__file__).parents[2],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as child:
            limit = threading.Timer(PATIENCE_S * 3, child.kill)
            limit.start()
            said = child.stdout.read()
            limit.cancel()
            _, status, used = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
        best = min(best, used.ru_utime + used.ru_stime)
        if best < enough:
            break
    return child.returncode, said, best
