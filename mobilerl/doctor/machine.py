"""The machine itself: Python, disk, KVM, GPUs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from mobilerl.doctor.check import Check, broken, missing, ok

MB = 2**20
PYTHON = ((3, 11), (3, 12))
DISK_MB = 2000.0
"""Enough for a run of the recipes at their defaults, with room to spare."""
KVM = Path("/dev/kvm")
NVIDIA_SMI_S = 5.0


def python(version: tuple[int, ...] = tuple(sys.version_info[:3])) -> Check:
    said = ".".join(map(str, version))
    if PYTHON[0] <= version[:2] <= PYTHON[1]:
        return ok("Python", said)
    fix = "apt-get install -y python3.11 python3.11-venv && python3.11 -m venv .venv"
    return broken("Python", True, f"{said}; 3.11 or 3.12 is needed", fix)


def disk(folder: Path, needed_mb: float = DISK_MB) -> Check:
    """`folder` need not exist yet."""
    place = next(p for p in (folder.absolute(), *folder.absolute().parents) if p.is_dir())
    if not os.access(place, os.W_OK):
        return broken("disk", True, f"no permission to write in {place}", "start it in a folder of your own")
    free = shutil.disk_usage(place).free / MB
    detail = f"{free:,.0f} MiB free in {place}, {needed_mb:,.0f} wanted"
    if free < needed_mb:
        return broken("disk", True, detail, "make room, or start it on another disk")
    return ok("disk", detail)


def kvm(needed: bool, device: Path = KVM) -> Check:
    if not device.exists():
        fix = "modprobe kvm_intel || modprobe kvm_amd; in a virtual machine it must allow nested virtualisation"
        return missing("KVM", needed, f"no {device}, which Android emulators need", fix)
    if not os.access(device, os.R_OK | os.W_OK):
        return broken("KVM", needed, f"no permission to use {device}", "usermod -aG kvm $USER; log in anew")
    return ok("KVM", str(device))


def gpus(needed: int, timeout_s: float = NVIDIA_SMI_S) -> Check:
    """The GPUs that nvidia-smi lists, with their memory; `needed`: how many the recipe uses on this machine."""
    driver = "nvidia-smi must list the GPUs: install or restart the driver (apt-get install -y nvidia-driver; reboot)"
    program = shutil.which("nvidia-smi")
    if program is None:
        return missing("GPU", needed > 0, "no nvidia-smi here", f"{driver}, or --engine.type local")
    command = [program, "--query-gpu=name,memory.free,memory.total", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return broken("GPU", needed > 0, f"nvidia-smi does not answer in {timeout_s:g} s", driver)
    except OSError as error:
        return broken("GPU", needed > 0, f"nvidia-smi does not run: {error}", driver)
    lines = [line.rsplit(", ", 2) for line in done.stdout.strip().splitlines()]
    if done.returncode or not lines or any(len(line) != 3 for line in lines):
        return broken("GPU", needed > 0, f"nvidia-smi: {' '.join((done.stdout + done.stderr).split())[:200]}", driver)
    names = ", ".join(f"{name} ({free} of {total} free)" for name, free, total in lines)
    if len(lines) < needed:
        detail = f"{len(lines)} GPUs, the recipe uses {needed}: {names}"
        return missing("GPU", True, detail, f"--cluster.gpus_per_node {len(lines)}")
    return ok("GPU", names)
