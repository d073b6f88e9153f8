"""Checks before the first episode that the devices have the packages that a file of instructions names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from mobilerl.envs.base import InfraError, Task, Transport
from mobilerl.envs.instructions.packages import installed, named, nearest

MOST_AT_ONCE = 32
"""Number of devices that are asked at the same time."""


@dataclass(frozen=True, slots=True)
class Packages:
    """Installed packages by device. `complete` says whether all devices of the run answered."""

    devices: Mapping[str, frozenset[str]]
    complete: bool


@dataclass(frozen=True, slots=True)
class Findings:
    unrunnable: Mapping[str, str] = field(default_factory=dict)
    """Reasons by task id why tasks can run on no device of the run."""
    warnings: Sequence[str] = ()
    """Other packages that devices lack."""


def ask(transports: Mapping[str, Transport]) -> Packages:
    """Asks devices for their packages. Those that do not answer are left out: other checks report them."""

    def answer(transport: Transport) -> frozenset[str] | None:
        try:
            return installed(transport)
        except InfraError:
            return None

    with ThreadPoolExecutor(MOST_AT_ONCE, "packages") as threads:
        answers = dict(zip(transports, threads.map(answer, transports.values()), strict=True))
    found = {name: known for name, known in answers.items() if known is not None}
    return Packages(found, len(found) == len(transports))


def findings(packages: Packages, tasks: Sequence[Task], apps: Mapping[str, str]) -> Findings:
    """What is missing for `tasks` and for the launcher names `apps`; nothing if no device answered."""
    unrunnable: dict[str, str] = {}
    warnings = [
        f"[apps] {name!r}: {_missing(packages, package, lacking)}"
        for name, package in apps.items()
        if (lacking := _lacking(packages, package))
    ]
    for task in tasks:
        for package, (where, needed) in named(task).items():
            if not (lacking := _lacking(packages, package)):
                continue
            said = f"{task.id}: `{where}`: {_missing(packages, package, lacking)}"
            if needed and packages.complete and len(lacking) == len(packages.devices):
                unrunnable.setdefault(task.id, said)
            else:
                warnings.append(said)
    return Findings(unrunnable, warnings)


def _lacking(packages: Packages, package: str) -> list[str]:
    return [device for device, known in packages.devices.items() if package not in known]


def _missing(packages: Packages, package: str, lacking: Sequence[str]) -> str:
    known = frozenset().union(*(packages.devices[device] for device in lacking))
    return f"{package} is not installed on {', '.join(lacking)}{nearest(package, known)}"
