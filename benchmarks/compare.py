"""Results of benchmarks as files, and how a new one compares with an older one.

A file holds one part's results, the command they are of, the machine they were taken on, its pace meanwhile and the
versions of packages that the figures depend on. Whether more or less is better is told by a figure's name, and so is
whether a machine twice as fast would double it; figures of neither kind, and texts, say what was measured.
"""

from __future__ import annotations

import json
import math
import os
import platform
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks.pace import mean, pace, quicker

MORE = re.compile(r"_per_(s|cpu_s|min)(_|$)|_speed(_|$)|^utilisation$|^mfu$|^times_the_need$")
"""Names of figures of which more is better."""
PACED = re.compile(r"_per_(s|cpu_s)(_|$)|^cpu_ms_per_step$|^times_the_need$")
"""What the machine's pace decides. Not what is per minute, or waited for: devices' own times do."""
LESS = re.compile(r"_(mb|gib|kb)$|_per_step$|^memory$")
FAULTS = re.compile(r"^lost$|^of_a_wrong_version$|^of_mixed_versions$")
"""Counts of what must not happen: less is better, and 0 can be compared."""
PACKAGES = ("numpy", "pillow", "torch", "transformers", "trl", "vllm")
SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Change:
    """`ratio` is above 1 where the new figure is the better one, 0 where a speed fell to 0 or a first fault came.

    Where the machine's pace decides the figure, it is at equal pace.
    """

    name: str
    before: float
    after: float
    ratio: float

    def worse(self, factor: float) -> bool:
        return self.ratio * factor < 1


def taken(part: str, command: str, measure: Callable[[], Any]) -> dict[str, Any]:
    """What a file of these results holds, measured here and now."""
    before = pace()
    results = measure()
    return {"schema": SCHEMA, "part": part, "command": command, "machine": machine(), "pace": mean([before, pace()]),
            "versions": versions(), "results": results}  # fmt: skip


def write(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n")


def load(path: Path) -> dict[str, Any]:
    """Raises ValueError where `path` is not a file of `save`."""
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} cannot be read as results ({error}); `bench PART --save` writes them") from None
    known = isinstance(content, dict) and content.get("schema") == SCHEMA and {"part", "results"} <= content.keys()
    if not known or not all(isinstance(content.get(group, {}), dict) for group in ("machine", "pace", "versions")):
        raise ValueError(f"{path} holds no results of `mobilerl bench PART --save`")
    return content


def compare(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[list[Change], list[str]]:
    """Changes of all figures that both files have, worst first, and what was measured differently.

    Raises ValueError when the files are of different parts or share no figure.
    """
    if before["part"] != after["part"]:
        raise ValueError(f"the files are of different parts: {before['part']} and {after['part']}")
    old, new = flatten(before["results"]), flatten(after["results"])
    faster = quicker(before.get("pace", {}), after.get("pace", {}))
    both = [name for name in old if better(name) and _is_number(old[name]) and _is_number(new.get(name))]
    changes = [
        Change(name, float(old[name]), float(new[name]), ratio)
        for name in both
        if (ratio := _ratio(name, old[name], new[name], faster)) is not None
    ]
    if not changes:
        raise ValueError(f"the files of {before['part']} share no figure: they were taken at different sizes")
    facts, now = {**_about(before), **old}, {**_about(after), **new}
    differ = [
        f"{name}: {facts[name]} before, {now[name]} now"
        for name in facts
        if name in now and not better(name) and not isinstance(facts[name], float) and facts[name] != now[name]
    ]
    if not math.isclose(faster, 1.0):
        differ.append(f"pace: this machine did the same calculations {faster:.2f} times as fast; ratios allow for it")
    return sorted(changes, key=lambda c: c.ratio), differ


def better(name: str) -> str:
    """ "more", "less" or, for what is no figure of merit, ""."""
    last = name.rsplit(".", 1)[-1]
    return "more" if MORE.search(last) else "less" if LESS.search(last) or FAULTS.search(last) else ""


def _ratio(name: str, before: float, after: float, faster: float) -> float | None:
    """None where 0 leaves nothing to divide by."""
    last = name.rsplit(".", 1)[-1]
    if FAULTS.search(last):
        return before / after if after else 1.0
    if not before or better(name) == "less" and not after:
        return None
    ratio = after / before if better(name) == "more" else before / after
    return ratio / faster if PACED.search(last) else ratio


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _about(content: Mapping[str, Any]) -> dict[str, Any]:
    """What is known of the machine and of the versions; files of older releases do not name versions."""
    return {f"{group}.{k}": v for group in ("machine", "versions") for k, v in content.get(group, {}).items()}


def flatten(results: Any, name: str = "") -> dict[str, Any]:
    """{dotted name: value}. An item of a list is named by its texts and whole numbers, which say what it is of."""
    if isinstance(results, Mapping):
        parts = {f"{name}.{key}" if name else key: value for key, value in results.items()}
    elif isinstance(results, Sequence) and not isinstance(results, str):
        parts = {f"{name}.{_label(item)}" if name else _label(item): item for item in results}
    else:
        return {name: results}
    return {path: value for part, item in parts.items() for path, value in flatten(item, part).items()}


def _label(item: Any) -> str:
    if not isinstance(item, Mapping):
        return str(item)
    return " ".join(str(v) for v in item.values() if isinstance(v, (str, int)) and not isinstance(v, bool))


def machine() -> dict[str, Any]:
    """The class of this machine: what figures depend on, nothing that names it."""
    cores = len(os.sched_getaffinity(0))
    info = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    return {"cores": cores, "avx512": "avx512f" in info, "processor": platform.machine(), "gpu": _gpu(),
            "python": ".".join(platform.python_version_tuple()[:2])}  # fmt: skip


def versions() -> dict[str, str]:
    """Those of PACKAGES that are installed."""
    found = {}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _gpu() -> str:
    try:
        import torch
    except ImportError:
        return ""
    return torch.cuda.get_device_name() if torch.cuda.is_available() else ""
