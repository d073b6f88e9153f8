"""Which figures of a new measurement count as regressions against a baseline, and which are only shown.

What a figure is worth depends on what it was worked out from, which its name tells:

- `share`: of device time that was of use (`utilisation`). It holds on any machine.
- `ratio`: two sides measured in one run, in turns. It holds where the accelerator is the same.
- `size`: bytes that are counted. It holds where the accelerator is the same.
- `fault`: a count of what must not happen. It holds on any machine.
- `time`: so much per second. It holds on the same class of machine only, and two runs differ more: what counts as worse
  is the factor times itself.
- `aside`: figures of what is compared against, the extremes of a few rounds, and the rests of shares. They never count:
  the first say nothing of this project, and the others are mostly chance.

Whatever a clock on the wall told does not count where other work keeps the cores busy.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.compare import FAULTS, Change, compare, flatten

OTHERS = {
    "learner": re.compile(r"^sides\.(hf|trl)|^ratios\.\S+ mobilerl\b"),
    "rollout": re.compile(r" barrier\."),
    "refresh": re.compile(r"^restarted_|^undisturbed_"),
}
"""Figures of what a part is compared against, and ratios between sides that are both this project's."""
CHANCE = re.compile(r"_speed_(min|max)$|^lost_ms_per_step$")
NEEDS = {"share": (), "fault": (), "ratio": ("gpu",), "size": ("gpu",),
         "time": ("processor", "cores", "avx512", "gpu", "python")}  # fmt: skip
"""Facts of the machine that must be the baseline's for figures of a kind to count."""


@dataclass(frozen=True, slots=True)
class Figure:
    """`allowed`: the factor beyond which it is worse. `reason`: why it does not count; "" where it does."""

    change: Change
    kind: str
    allowed: float
    reason: str

    @property
    def worse(self) -> bool:
        return self.change.worse(self.allowed)

    @property
    def regression(self) -> bool:
        return self.worse and not self.reason


def judge(
    before: Mapping[str, Any], after: Mapping[str, Any], factor: float, load: float
) -> tuple[list[Figure], list[str]]:
    """Figures that both have, worst first, and what was measured differently. ValueError where they share none.

    `load`: processes that ran on the machine before the measurement began.
    """
    changes, differ = compare(before, after)
    old, new = before.get("machine", {}), after["machine"]
    figures = []
    for change in changes:
        kind = kind_of(before["part"], change.name)
        reason = _reason(kind, change.name, old, new, is_busy(load))
        figures.append(Figure(change, kind, factor**2 if kind == "time" else factor, reason))
    return figures, [*differ, *_missing(before["results"], after["results"]), *_versions(before, after)]


def kind_of(part: str, name: str) -> str:
    """One of NEEDS, or "aside"."""
    last = name.rsplit(".", 1)[-1]
    if CHANCE.search(last) or part in OTHERS and OTHERS[part].search(name):
        return "aside"
    if FAULTS.search(last):
        return "fault"
    if last == "utilisation":
        return "share"
    if last == "memory" or "_speed" in last:
        return "ratio"
    return "size" if re.search(r"_(mb|gib|kb)$", last) else "time"


def is_busy(load: float) -> bool:
    """Whether less than a core is left. The load average is of the whole machine, and so is the count of its cores."""
    return load > max((os.cpu_count() or 1) - 1, 0.5)


def _reason(kind: str, name: str, old: Mapping[str, Any], new: Mapping[str, Any], busy: bool) -> str:
    if kind == "aside":
        return "aside"
    if other := [fact for fact in NEEDS[kind] if old.get(fact) != new.get(fact)]:
        return f"other {', '.join(other)}"
    return "busy machine" if busy and _of_the_wall(kind, name) else ""


def _of_the_wall(kind: str, name: str) -> bool:
    last = name.rsplit(".", 1)[-1]
    return kind in ("time", "ratio") and "cpu" not in last and last != "memory"


def _missing(before: Any, after: Any) -> list[str]:
    """What the baseline has results of and this measurement has not, such as sides whose packages are not installed."""
    old, new = (dict.fromkeys(name.rpartition(".")[0] or name for name in flatten(r)) for r in (before, after))
    return [f"{name}: not measured now" for name in old if name not in new]


def _versions(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Packages that one of them had not; those that both had are compared by `compare`."""
    if "versions" not in before:
        return ["versions: the baseline does not say which it was taken with"]
    old, new = before["versions"], after["versions"]
    return [f"versions.{p}: {old.get(p, 'none')} before, {new.get(p, 'none')} now" for p in sorted(old.keys() ^ new)]
