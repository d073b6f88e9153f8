"""Memory that was freed, given back to the system."""

from __future__ import annotations

import ctypes
import sys


def give_back_free_memory() -> None:
    """Gives back what glibc's malloc keeps of freed memory; does nothing where there is another malloc.

    Prompts and pictures of ever other lengths leave gaps between what stays, in the arena of each thread. Left alone, a
    process comes to hold as much again as it uses within an hour. Takes some ten milliseconds.
    """
    if not sys.platform.startswith("linux"):
        return
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
