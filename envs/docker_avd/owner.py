"""The owner of a container: a process, which may have been killed, or nobody.

An engine may serve several machines, or containers of one machine, whose host names and process ids repeat. So an owner
also names the boot of its machine and its pid namespace, and only processes that share both decide whether it is dead.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

DETACHED = "detached"
"""Owner of containers that `mobilerl fleet up` leaves running."""


def this_process() -> str:
    """A unique name of this process: host:pid:start time:boot:pid namespace."""
    return ":".join((socket.gethostname(), str(os.getpid()), _read_start(os.getpid()), *_here()))


def is_dead(owner: str) -> bool:
    """Whether the owner is a process that has ended. Owners that this process cannot see count as alive: those of
    another machine, boot or pid namespace, and labels in another format."""
    match owner.split(":"):
        case [host, pid, started, *place] if host == socket.gethostname() and pid.isdecimal() and all(place):
            return place == _here() and _ended(int(pid), started)
    return False


def format_owner(owner: str) -> str:
    """Short form for display: host:pid, or another label such as "detached"."""
    return ":".join(owner.split(":")[:2])


def _here() -> list[str]:
    """The boot id of the machine and the pid namespace; empty strings if /proc does not show them."""
    try:
        if os.readlink("/proc/self") != str(os.getpid()):
            return ["", ""]  # /proc belongs to another namespace
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return [boot, str(os.stat("/proc/self/ns/pid").st_ino)]
    except OSError:
        return ["", ""]


def _ended(pid: int, started: str) -> bool:
    now = _read_start(pid)
    if now:
        return now != started
    try:
        os.kill(pid, 0)  # checks for existence: /proc may hide other users' processes
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):
        pass
    return False


def _read_start(pid: int) -> str:
    """Start of a process in clock ticks since boot; "" if there is no such process or it is hidden."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    return stat.rpartition(")")[2].split()[19]
