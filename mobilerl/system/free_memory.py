"""The size of main memory, and the return of freed memory to the system."""

from __future__ import annotations

import ctypes
import os
import sys
from contextlib import suppress
from pathlib import Path

CONTAINER_LIMIT = Path("/sys/fs/cgroup/memory.max")


def main_memory() -> int:
    """Bytes of main memory that this machine has, or this container may use."""
    there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with suppress(OSError, ValueError):  # no such file, or "max"
        there = min(there, int(CONTAINER_LIMIT.read_text()))
    return there


def give_back_free_memory() -> None:
    """Returns the freed memory that glibc's malloc keeps; does nothing with another malloc.

    Prompts and images of varying size fragment the malloc arenas of threads: within an hour a process would hold twice
    the memory that it uses. The call takes some ten milliseconds.
    """
    if not sys.platform.startswith("linux"):
        return
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
