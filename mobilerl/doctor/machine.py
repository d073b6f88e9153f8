"""The machine itself: Python, processors, memory, disk, limits, ports."""

from __future__ import annotations

import os
import resource
import shutil
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from mobilerl.doctor.check import Check, broken, ok, warning

MB = 2**20
PYTHON = ((3, 11), (3, 12))
SHARED = Path("/dev/shm")


def python(version: tuple[int, ...] = tuple(sys.version_info[:3])) -> Check:
    said = ".".join(map(str, version))
    if PYTHON[0] <= version[:2] <= PYTHON[1]:
        return ok("Python", said)
    cure = "apt-get install -y python3.11 python3.11-venv && python3.11 -m venv .venv"
    return broken("Python", True, f"{said}; 3.11 or 3.12 is needed", cure)


def cores(workers: int, available: int | None = None) -> Check:
    available = available or len(os.sched_getaffinity(0))
    if workers > available:
        detail = f"{available} CPU cores for {workers} rollout workers, which want one each"
        return warning("CPU", detail, f"--collect.workers {available}")
    return ok("CPU", f"{available} cores")


def memory(needed_mb: float, available_mb: float) -> Check:
    detail = f"{available_mb:,.0f} MiB available, about {needed_mb:,.0f} wanted"
    if available_mb < needed_mb:
        cure = "less of engine.micro_tokens, phone.count, collect.workers or algorithm.replay.capacity"
        return warning("memory", detail, cure)
    return ok("memory", detail)


def disk(folder: Path, needed_mb: float) -> Check:
    """`folder` need not exist yet."""
    place = next(p for p in (folder.absolute(), *folder.absolute().parents) if p.is_dir())
    if not os.access(place, os.W_OK):
        return broken("disk", True, f"no permission to write in {place}", "give a --run-dir of your own")
    free = shutil.disk_usage(place).free / MB
    detail = f"{free:,.0f} MiB free in {place}, about {needed_mb:,.0f} wanted"
    if free < needed_mb:
        return broken("disk", True, detail, "make room, or give a --run-dir on another disk")
    return ok("disk", detail)


def shared_memory(needed_mb: float, folder: Path = SHARED) -> Check:
    if not folder.is_dir():
        return broken("shared memory", needed_mb > 0, f"no {folder}", f"mount -t tmpfs tmpfs {folder}")
    usage = shutil.disk_usage(folder)
    free = usage.free / MB
    detail = f"{free:,.0f} of {usage.total / MB:,.0f} MiB free in {folder}"
    if free < needed_mb:
        cure = f"mount -o remount,size={needed_mb / 1024:.0f}G {folder}; in Docker --shm-size={needed_mb / 1024:.0f}g"
        return broken("shared memory", True, f"{detail}, {needed_mb:,.0f} are needed", cure)
    return ok("shared memory", detail)


def open_files(needed: int, limits: tuple[int, int] | None = None) -> Check:
    """`limits`: soft and hard, as `ulimit` knows them."""
    soft, hard = limits or resource.getrlimit(resource.RLIMIT_NOFILE)
    soft, hard = (n if n != resource.RLIM_INFINITY else sys.maxsize for n in (soft, hard))
    said = "no limit" if soft == sys.maxsize else f"at most {soft:,}"
    if soft >= needed:
        return ok("open files", said)
    cure = (
        f"ulimit -n {needed}"
        if hard >= needed
        else f'echo "* - nofile {needed}" >> /etc/security/limits.conf; log in anew'
    )
    return broken("open files", True, f"{said}, about {needed:,} are needed", cure)


def ports(wanted: Sequence[tuple[int, str]]) -> Check:
    """Whether ports that the recipe fixes can be listened on.

    They are those of torch's stores, which listen on every address, as other nodes must reach them: so one address on
    which somebody else has the port is enough to fail. The trial binds the port only, and takes no connection.
    """
    taken = []
    for port, setting in wanted:
        with socket.socket() as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                trial.bind(("", port))
            except (OSError, OverflowError) as error:
                taken.append(f"{port} ({setting}): {getattr(error, 'strerror', None) or error}")
    if taken:
        return broken(
            "ports", True, "; ".join(taken), f"ss -ltnp | grep {wanted[0][0]} tells who has it; or change the setting"
        )
    fixed = ", ".join(str(port) for port, _ in wanted)
    return ok("ports", f"{fixed} are free" if fixed else "the recipe fixes none")
