"""Checks before the first episode that the devices have the packages that a file of instructions names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from mobilerl.envs.base import InfraError, Task, Transport
from mobilerl.envs.instructions.packages import find_named, list_installed, nearest

MOST_AT_ONCE = 32
"""Number of devices that are asked at the same time."""


@dataclass(frozen=True, slots=True)
class Packages:
    """Installed packages by device. `complete` says whether all devices of the run answered."""

    devices: Mapping[str, frozenset[str]]
    complete: bool
    silent: Mapping[str, str] = field(default_factory=dict)
    """Why devices did not answer, by device."""


@dataclass(frozen=True, slots=True)
class Findings:
    unrunnable: Mapping[str, str] = field(default_factory=dict)
    """Reasons by task id why tasks can run on no device of the run."""
    warnings: Sequence[str] = ()
    """Other packages that devices lack."""
    silent: Sequence[str] = ()
    """Devices that did not answer, with the reason."""


def ask(transports: Mapping[str, Transport]) -> Packages:
    """Asks devices for their packages."""

    def answer(transport: Transport) -> frozenset[str] | str:
        try:
            return list_installed(transport)
        except InfraError as error:
            return str(error)

    with ThreadPoolExecutor(MOST_AT_ONCE, "packages") as threads:
        answers = dict(zip(transports, threads.map(answer, transports.values()), strict=True))
    found = {name: known for name, known in answers.items() if not isinstance(known, str)}
    silent = {name: reason for name, reason in answers.items() if isinstance(reason, str)}
    return Packages(found, not silent, silent)


def findings(packages: Packages, tasks: Sequence[Task], apps: Mapping[str, str]) -> Findings:
    """What is missing for `tasks` and for the launcher names `apps` on the devices that answered."""
    unrunnable: dict[str, str] = {}
    warnings = [
        f"[apps] {name!r}: {_missing(packages, package, lacking)}"
        for name, package in apps.items()
        if (lacking := _lacking(packages, package))
    ]
    for task in tasks:
        for package, (where, needed) in find_named(task).items():
            if not (lacking := _lacking(packages, package)):
                continue
            said = f"{task.id}: `{where}`: {_missing(packages, package, lacking)}"
            if needed and packages.complete and len(lacking) == len(packages.devices):
                unrunnable.setdefault(task.id, said)
            else:
                warnings.append(said)
    silent = [f"device {reason}: `adb devices` shows what is attached" for reason in packages.silent.values()]
    return Findings(unrunnable, warnings, silent)


def _lacking(packages: Packages, package: str) -> list[str]:
    return [device for device, known in packages.devices.items() if package not in known]


def _missing(packages: Packages, package: str, lacking: Sequence[str]) -> str:
    known = frozenset().union(*(packages.devices[device] for device in lacking))
    return f"{package} is not installed on {', '.join(lacking)}{nearest(package, known)}"
