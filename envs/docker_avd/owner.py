"""Who a container belongs to: a process, which may have been killed, or nobody."""

from __future__ import annotations

import os
import socket
from pathlib import Path

DETACHED = "detached"
"""Owner of containers that `mobilerl fleet up` left running."""


def this_process() -> str:
    """host:pid:start time, which no later process has."""
    return f"{socket.gethostname()}:{os.getpid()}:{_started(os.getpid())}"


def is_dead(owner: str) -> bool:
    """Whether an owner is a process of this machine that has ended. Owners elsewhere count as alive."""
    match owner.split(":"):
        case [host, pid, started] if host == socket.gethostname() and pid.isdecimal():
            return _started(int(pid)) != started
    return False


def _started(pid: int) -> str:
    """Clock ticks between the machine's boot and the start of a process; "" when there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    return stat.rpartition(")")[2].split()[19]
