"""Who a container belongs to: a process, which may have been killed, or nobody.

An engine may serve several machines, and containers of one machine: their host names and process numbers repeat. So an
owner names the boot of its machine and its pid namespace as well, and is judged only by processes that share both.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

DETACHED = "detached"
"""Owner of containers that `mobilerl fleet up` left running."""


def this_process() -> str:
    """host:pid:start time:boot:pid namespace, which no other process has."""
    return ":".join((socket.gethostname(), str(os.getpid()), _started(os.getpid()), *_here()))


def is_dead(owner: str) -> bool:
    """Whether an owner is a process that has ended. One that this process could not see counts as alive: of another
    machine, pid namespace or boot, or with a label of another form."""
    match owner.split(":"):
        case [host, pid, started, *place] if host == socket.gethostname() and pid.isdecimal() and all(place):
            return place == _here() and _ended(int(pid), started)
    return False


def shown(owner: str) -> str:
    """For people: host:pid, or what it says instead."""
    return ":".join(owner.split(":")[:2])


def _here() -> list[str]:
    """The machine's boot and the pid namespace; empty where /proc does not tell them."""
    try:
        if os.readlink("/proc/self") != str(os.getpid()):
            return ["", ""]  # /proc is another namespace's
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return [boot, str(os.stat("/proc/self/ns/pid").st_ino)]
    except OSError:
        return ["", ""]


def _ended(pid: int, started: str) -> bool:
    now = _started(pid)
    if now:
        return now != started
    try:
        os.kill(pid, 0)  # asks whether it exists: /proc may hide other users' processes
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):
        pass
    return False


def _started(pid: int) -> str:
    """Clock ticks between the machine's boot and the start of a process; "" when there is none to be seen."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    return stat.rpartition(")")[2].split()[19]
