"""Results of benchmarks as files, and which figures of a new file are worse than those of an older one.

A file holds the results of one part, its command, the machine, the load and the versions of packages. The name of a
figure tells whether more or less is better, and what it depends on:

- `share` of device time that was used: holds on any machine;
- `ratio` of two sides measured in turns in one run, and `size` in bytes: hold on machines with the same GPU;
- `time`: holds on the same class of machine only. Machines of one class were seen to differ by four times in speed,
  because virtual cores share hardware; so each file also says how fast fixed work was done (`pace`), and what depends
  on the CPU is compared at equal pace. Two runs still differ more than other figures do: the allowed factor is squared.

What was measured by the wall clock does not count if other work kept the cores busy.
"""

from __future__ import annotations

import json
import math
import os
import platform
import re
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

SCHEMA = 1
PACKAGES = ("numpy", "pillow", "torch", "transformers", "trl", "vllm")
KINDS = (
    (r"^utilisation$", "share", "more"),
    (r"_speed$", "ratio", "more"),
    (r"^memory$", "ratio", "less"),
    (r"_(mb|gib|kb)$", "size", "less"),
    (r"_per_(s|cpu_s|min)(_|$)", "time", "more"),
    (r"^cpu_ms_per_step$", "time", "less"),
)
"""(last part of a figure's name, kind, which is better)."""
PACED = re.compile(r"_per_(s|cpu_s)(_|$)|^cpu_ms_per_step$")
"""Times that depend on the CPU. Steps per minute depend on the devices instead."""
REFERENCE = re.compile(r"^sides\.(hf|trl)|^ratios\.\S+ mobilerl\b| barrier\.")
"""Figures of what a part is compared with, and ratios between two sides of this project."""
NEEDS = {"share": (), "ratio": ("gpu",), "size": ("gpu",), "time": ("processor", "cores", "avx512", "gpu", "python")}
"""Facts of the machine that must be equal for figures of a kind to count."""


@dataclass(frozen=True, slots=True)
class Figure:
    """`ratio` is above 1 where the new value is better; below 1 / `allowed` it is worse.

    `reason`: why the figure does not count; "" where it does.
    """

    name: str
    before: float
    after: float
    ratio: float
    allowed: float
    reason: str

    @property
    def worse(self) -> bool:
        return self.ratio * self.allowed < 1

    @property
    def regression(self) -> bool:
        return self.worse and not self.reason


# --- files ---------------------------------------------------------------------------------------------------------


def take(part: str, command: str, measure: Callable[[], Any]) -> dict[str, Any]:
    """Measures; returns the content of a file of results."""
    load = os.getloadavg()[0]
    before = _pace()
    results = measure()
    after = _pace()
    return {
        "schema": SCHEMA,
        "part": part,
        "command": command,
        "machine": _machine(),
        "load": load,
        "pace": {name: round((before[name] + after[name]) / 2, 1) for name in before},
        "versions": dict(_versions()),
        "results": results,
    }


def write(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n")


def load(path: Path) -> dict[str, Any]:
    """Raises ValueError if `path` is not a file of results."""
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} cannot be read ({error}); `mobilerl bench PART --save` writes such files") from None
    if not isinstance(content, dict) or content.get("schema") != SCHEMA or not {"part", "results"} <= content.keys():
        raise ValueError(f"{path} holds no results of `mobilerl bench PART --save`")
    return content


def _machine() -> dict[str, Any]:
    """The class of this machine; nothing that identifies it."""
    info = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    return {
        "cores": len(os.sched_getaffinity(0)),
        "avx512": "avx512f" in info,
        "processor": platform.machine(),
        "gpu": _gpu(),
        "python": ".".join(platform.python_version_tuple()[:2]),
    }


def _gpu() -> str:
    try:
        import torch
    except ImportError:
        return ""
    return torch.cuda.get_device_name() if torch.cuda.is_available() else ""


def _versions() -> Iterator[tuple[str, str]]:
    for package in PACKAGES:
        try:
            yield package, version(package)
        except PackageNotFoundError:
            continue


# --- comparing -----------------------------------------------------------------------------------------------------


def compare(
    before: Mapping[str, Any], after: Mapping[str, Any], factor: float = 1.25
) -> tuple[list[Figure], list[str]]:
    """The figures that both files have, worst first, and what was measured differently.

    `factor`: how many times worse a figure may be. Raises ValueError if the files are of different parts, or have no
    figure in common.
    """
    if before["part"] != after["part"]:
        raise ValueError(f"the files are of different parts: {before['part']} and {after['part']}")
    old, new = flatten(before["results"]), flatten(after["results"])
    faster = _relative_pace(before.get("pace", {}), after.get("pace", {}))
    busy = after.get("load", 0.0) > max((os.cpu_count() or 1) - 1, 0.5)
    figures = []
    for name in old:
        kind, better = kind_of(name)
        if kind and _positive(old[name]) and _positive(new.get(name)):
            ratio = new[name] / old[name] if better == "more" else old[name] / new[name]
            ratio /= faster if PACED.search(_last(name)) else 1.0
            reason = _reason(kind, name, before.get("machine", {}), after.get("machine", {}), busy)
            figures.append(Figure(name, old[name], new[name], ratio, factor ** (1 + (kind == "time")), reason))
    if not figures:
        raise ValueError(f"the files of {before['part']} have no figure in common: they were taken at other sizes")
    return sorted(figures, key=lambda f: f.ratio), [*_differences(before, after), *_missing(old, new)]


def kind_of(name: str) -> tuple[str, str]:
    """(kind, which is better); empty for what is no figure of this project's merit."""
    if not REFERENCE.search(name):
        for pattern, kind, better in KINDS:
            if re.search(pattern, _last(name)):
                return kind, better
    return "", ""


def flatten(results: Any, name: str = "") -> dict[str, Any]:
    """{dotted name: value}. An item of a list is named after its strings and integers."""
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
    return " ".join(str(v) for v in item.values() if isinstance(v, str | int) and not isinstance(v, bool))


def _last(name: str) -> str:
    return name.rsplit(".", 1)[-1]


def _positive(value: Any) -> bool:
    return isinstance(value, int | float) and value > 0


def _reason(kind: str, name: str, old: Mapping[str, Any], new: Mapping[str, Any], busy: bool) -> str:
    if other := [fact for fact in NEEDS[kind] if old.get(fact) != new.get(fact)]:
        return f"other {', '.join(other)}"
    by_wall_clock = kind in ("time", "ratio") and "cpu" not in _last(name) and _last(name) != "memory"
    return "busy machine" if busy and by_wall_clock else ""


def _differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    if before.get("command") != after.get("command"):
        yield f"command: {before.get('command')} before, {after.get('command')} now"
    for group in ("machine", "versions"):
        old, new = before.get(group, {}), after.get(group, {})
        for key in sorted(old.keys() | new.keys()):
            if old.get(key) != new.get(key):
                yield f"{group}.{key}: {old.get(key, 'none')} before, {new.get(key, 'none')} now"


def _missing(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    """Items that only the older file has, such as sides whose packages are not installed."""
    present = {name.rpartition(".")[0] for name in new}
    for item in dict.fromkeys(name.rpartition(".")[0] for name in old):
        if item not in present:
            yield f"{item}: not measured now"


# --- the pace of a machine -----------------------------------------------------------------------------------------


def _pace(seconds: float = 0.2) -> dict[str, float]:
    """Units of fixed work per second of CPU time, for `seconds` each: interpreter, compression, matrix product."""
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 8, 100_000, dtype=np.uint8).tobytes()
    matrix = rng.random((96, 96), dtype=np.float32)  # too small for a second thread
    work: dict[str, Callable[[], object]] = {
        "interpreter": _interpret,
        "zlib": lambda: zlib.compress(pixels, 6),
        "matmul": lambda: matrix @ matrix,
    }
    return {name: _rate(unit, seconds) for name, unit in work.items()}


def _rate(unit: Callable[[], object], seconds: float) -> float:
    began, done = time.process_time(), 0
    while (spent := time.process_time() - began) < seconds:
        unit()
        done += 1
    return done / spent


def _interpret() -> int:
    words = {}
    for i in range(2000):
        words[str(i)] = i * i % 7
    return sum(words.values())


def _relative_pace(before: Mapping[str, float], after: Mapping[str, float]) -> float:
    """How many times as fast the second machine was, by the geometric mean; 1 if unknown."""
    both = [math.log(after[name] / before[name]) for name in before.keys() & after.keys()]
    return math.exp(sum(both) / len(both)) if both else 1.0
