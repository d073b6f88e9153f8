"""Memory, handles and threads of processes over time, and whether they grow. Linux only: it reads /proc."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

T_975 = 2.228
"""Of Student's distribution with 10 degrees of freedom: two less than the blocks."""
PAGE_MB = os.sysconf("SC_PAGE_SIZE") / (1 << 20)
MEASURES = ("rss_mb", "handles", "threads")
BLOCKS = 12
"""Parts of the time, of each of which one value is looked at: neighbouring samples are anything but independent."""
KEPT = 0.1
"""Share of a block's values that lie below the one looked at. A leak lifts the least that is held; what comes and goes,
as the buffers of an optimiser step do, lifts the most, and more of the block's samples the busier the machine is."""
ALLOWED = {"rss_mb": (16.0, 0.03), "handles": (4.0, 0.0), "threads": (4.0, 0.0)}
"""Growth in an hour that is none: so much, or this share of the level, whichever is more."""


@dataclass(frozen=True)
class Sample:
    seconds: float
    rss_mb: float
    handles: int
    threads: int


@dataclass(frozen=True)
class Slope:
    """What is kept, and its growth in an hour with the 95 % interval.

    `verdict`: flat, grows, or unclear where the interval holds both.
    """

    level: float
    per_hour: float
    low: float
    high: float
    verdict: str


@dataclass
class Watch:
    """Samples of every process of the trees below `roots` {name: pid}, until `stop`. Use as a context manager."""

    roots: Mapping[str, int]
    every_s: float = 5.0
    samples: dict[str, list[Sample]] = field(default_factory=dict)
    _over: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Watch:
        self._began = time.monotonic()
        self._names: dict[int, str] = {}
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.is_set():
            self.look()
            self._over.wait(self.every_s)

    def look(self) -> None:
        """One sample of every process that is there."""
        for pid, name in self._processes().items():
            if (found := sample(pid, time.monotonic() - self._began)) is not None:
                self.samples.setdefault(name, []).append(found)

    def _processes(self) -> dict[int, str]:
        """Names by pid. A child keeps the number it got when it was first seen: a replaced one has another."""
        children = _children()
        found: dict[int, str] = {}
        for root, pid in self.roots.items():
            waiting = [(pid, root)]
            while waiting:
                pid, name = waiting.pop()
                found[pid] = self._names.setdefault(pid, name)
                taken = sum(n.startswith(f"{found[pid]}/") for n in self._names.values())
                for child in sorted(children.get(pid, ())):
                    known = self._names.get(child)
                    taken += known is None
                    waiting.append((child, known or f"{found[pid]}/{taken}"))
        return found


def sample(pid: int, seconds: float) -> Sample | None:
    """None when the process is gone, or may not be looked at."""
    folder = Path(f"/proc/{pid}")
    try:
        resident = int((folder / "statm").read_text().split()[1])
        threads = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[17])
        return Sample(seconds, resident * PAGE_MB, len(os.listdir(folder / "fd")), threads)
    except (OSError, IndexError):
        return None


def _children() -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                parent = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except OSError:
                continue
            found.setdefault(parent, []).append(int(folder.name))
    return found


def slope(seconds: Sequence[float], values: Sequence[float], measure: str) -> Slope | None:
    """A straight line through what is kept in `BLOCKS` blocks, by least squares; None of fewer than 2 samples each."""
    blocks = BLOCKS
    if len(values) < 2 * blocks:
        return None
    edges = [round(i * len(values) / blocks) for i in range(blocks + 1)]
    x = [median(seconds[a:b]) / 3600 for a, b in zip(edges, edges[1:], strict=False)]
    y = [sorted(values[a:b])[int(KEPT * (b - a))] for a, b in zip(edges, edges[1:], strict=False)]
    mean_x, mean_y = sum(x) / blocks, sum(y) / blocks
    spread = sum((v - mean_x) ** 2 for v in x)
    rate = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)) / spread
    left = [b - mean_y - rate * (a - mean_x) for a, b in zip(x, y, strict=True)]
    error = math.sqrt(sum(r * r for r in left) / (blocks - 2) / spread)
    reach = T_975 * error
    most, share = ALLOWED[measure]
    allowed = max(most, share * mean_y)
    low, high = rate - reach, rate + reach
    verdict = "flat" if high <= allowed else "grows" if low > allowed else "unclear"
    return Slope(mean_y, rate, low, high, verdict)


def slopes(samples: Sequence[Sample], skip_s: float) -> dict[str, Slope | None]:
    """By measure, without the first `skip_s` seconds, in which caches and buffers fill."""
    kept = [s for s in samples if s.seconds >= skip_s]
    seconds = [s.seconds for s in kept]
    return {m: slope(seconds, [float(getattr(s, m)) for s in kept], m) for m in MEASURES}
