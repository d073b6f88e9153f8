"""`mobilerl doctor`: what is missing on this machine, and the command that mends it."""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

DISK_GB = 2.0
"""What a run of the recipes at their defaults fills with room to spare."""


@dataclass(frozen=True, slots=True)
class Finding:
    """`cure` is the command that mends it; "" when nothing is missing. `needed`: the local run cannot do without."""

    name: str
    ok: bool
    needed: bool
    detail: str
    cure: str = ""


def add(commands: argparse._SubParsersAction, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser("doctor", parents=[common], allow_abbrev=False, help="what is missing here")
    parser.set_defaults(run=run, takes_settings=False)


def run(args: argparse.Namespace, settings: Sequence[str]) -> int:
    found = examine()
    table = Table("", "what", "found", "to mend it")
    for f in found:
        sign = "[green]ok[/green]" if f.ok else "[red]missing[/red]" if f.needed else "[yellow]optional[/yellow]"
        table.add_row(sign, f.name, escape(f.detail), "" if f.ok else escape(f.cure))
    console = Console()
    console.print(table)
    missing = [f.name for f in found if f.needed and not f.ok]
    if missing:
        console.print(f"[red]missing for training on this machine: {', '.join(missing)}[/red]")
        return 1
    console.print("training on this machine (engine local, embedded phone) has all it needs")
    return 0


def examine() -> list[Finding]:
    return [
        _python(),
        _package("torch", "2.11", "pip install torch==2.13.0"),
        _gpu(),
        *(_package(name, low, "pip install 'mobilerl[local]'") for name, low in _LOCAL),
        _disk(Path.cwd()),
        _program("chromium", ("chromium", "chromium-browser", "google-chrome"), "apt-get install -y chromium",
                 "for the viewer's tests"),
        _package("tensorboard", "2.20", "pip install 'mobilerl[tracking]'", needed=False),
        _wandb(),
        _program("adb", ("adb",), "apt-get install -y adb", "for real devices and emulators"),
        _program("docker", ("docker",), "apt-get install -y docker.io", "for emulators in containers"),
        _kvm(),
    ]  # fmt: skip


_LOCAL = (("transformers", "5.5.3"), ("accelerate", "1.15"), ("peft", "0.21"), ("datasets", "4.0"))


def _python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    fits = (3, 11) <= sys.version_info[:2] <= (3, 12)
    return Finding("Python", fits, True, version, "apt-get install -y python3.11 python3.11-venv")


def _package(name: str, lowest: str, cure: str, needed: bool = True) -> Finding:
    """An installed distribution of at least the version `lowest`, without importing it."""
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return Finding(name, False, needed, "not installed", cure)
    if _numbers(version) < _numbers(lowest):
        return Finding(name, False, needed, f"{version} is older than {lowest}", cure)
    return Finding(name, True, needed, version)


def _numbers(version: str) -> tuple[int, ...]:
    """The leading numbers of a version: 2.13.0+cpu -> (2, 13, 0)."""
    parts = []
    for part in version.split("+")[0].split("."):
        if not part.isdecimal():
            break
        parts.append(int(part))
    return tuple(parts)


def _gpu() -> Finding:
    cure = "with an NVIDIA card: apt-get install -y nvidia-driver; the tiny model needs none"
    try:
        import torch
    except (ImportError, OSError) as error:
        return Finding("GPU", False, False, f"torch cannot be loaded: {str(error).splitlines()[0]}", cure)
    if not torch.cuda.is_available():
        return Finding("GPU", False, False, f"none; {os.cpu_count()} CPU cores", cure)
    names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return Finding("GPU", True, False, ", ".join(names))


def _disk(folder: Path) -> Finding:
    free = shutil.disk_usage(folder).free / 1e9
    cure = f"make room: {DISK_GB:g} GB are needed, or give a --run-dir on another disk"
    return Finding("disk", free >= DISK_GB, True, f"{free:.1f} GB free in {folder}", cure)


def _program(name: str, commands: Sequence[str], cure: str, purpose: str) -> Finding:
    path = next(filter(None, map(shutil.which, commands)), None)
    return Finding(name, path is not None, False, path or f"not found ({purpose})", cure)


def _wandb() -> Finding:
    package = _package("wandb", "0.27", "pip install 'mobilerl[tracking]'", needed=False)
    if not package.ok:
        return package
    netrc = Path(os.environ.get("NETRC", Path.home() / ".netrc"))
    key = bool(os.environ.get("WANDB_API_KEY")) or (netrc.is_file() and "api.wandb.ai" in netrc.read_text())
    detail = f"{package.detail}, {'with a key' if key else 'no key: runs are kept offline'}"
    return Finding("wandb", key, False, detail, "wandb login")


def _kvm() -> Finding:
    device = Path("/dev/kvm")
    if not device.exists():
        cure = "modprobe kvm_intel || modprobe kvm_amd"
        return Finding("KVM", False, False, "no /dev/kvm (for Android emulators)", cure)
    usable = os.access(device, os.R_OK | os.W_OK)
    return Finding("KVM", usable, False, "/dev/kvm" if usable else "no access to /dev/kvm", "usermod -aG kvm $USER")
