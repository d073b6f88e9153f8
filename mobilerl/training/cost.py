"""Cumulative cost of a run: device hours, GPU hours, and the judge's requests and tokens.

    cost.json   {"device_hours": 3.2, "device_busy_hours": 2.9, "gpu_hours": 0.4, ...}

A resumed run drops the iterations after its checkpoint, but their cost was still spent, so the totals have a file of
their own that is never rolled back. It is written with every iteration and at the end of the run; a killed run loses
the cost since its last iteration.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from mobilerl.config import ConfigError
from mobilerl.system.atomic_files import write_atomic
from mobilerl.training.source import Collectors

COST_FILE = "cost.json"
HOURS = ("device_hours", "device_busy_hours", "gpu_hours")
JUDGE = ("judge_requests", "judge_prompt_tokens", "judge_completion_tokens")


class CostTracker:
    """Adds up the cost of one run. GPU time starts with this object, because loading a model occupies the GPUs too."""

    def __init__(self, run_dir: Path, gpus: int, judged: bool, resume: bool) -> None:
        """With `resume`, continues from the run's cost.json. Raises ConfigError if that cannot be read."""
        self._path, self._gpus = run_dir / COST_FILE, gpus
        saved = _read(self._path) if resume else {}
        self._total: dict[str, float] = {name: saved.get(name, 0) for name in HOURS + (JUDGE if judged else ())}
        self._collector: Collectors | None = None
        self._counted: dict[str, float] = {}
        """The collector's cumulative figures when they were last counted."""
        self._time = time.monotonic()

    @asynccontextmanager
    async def holding(self, collector: Collectors) -> AsyncIterator[None]:
        """Counts the device time of `collector` from before its devices start until they have been released."""
        self._count()
        self._collector = collector
        try:
            yield
        finally:
            self._count()
            self._collector, self._counted = None, {}
            with suppress(OSError):  # a full disk must not hide the error that is ending the run
                self._write()

    def record(self) -> dict[str, float]:
        """Updates the totals, writes them to cost.json and returns them under their names in metrics.jsonl."""
        self._count()
        self._write()
        return {f"cost/{name}": value for name, value in self._total.items()}

    def summary(self) -> str:
        """The totals in one line: `cost: 3.2 device-hours (2.9 busy), 12,345 judge tokens`."""
        total = self._total
        parts = [f"{_short(total['device_hours'])} device-hours ({_short(total['device_busy_hours'])} busy)"]
        if total["gpu_hours"]:
            parts.append(f"{_short(total['gpu_hours'])} GPU-hours")
        if "judge_requests" in total:
            tokens = total["judge_prompt_tokens"] + total["judge_completion_tokens"]
            parts.append(f"{tokens:,.0f} judge tokens")
        return "cost: " + ", ".join(parts)

    def _count(self) -> None:
        now = time.monotonic()
        hours, self._time = (now - self._time) / 3600, now
        self._total["gpu_hours"] += self._gpus * hours
        if self._collector is None:
            return
        self._total["device_hours"] += self._collector.held * hours
        judged = {f"judge_{name}": value for name, value in self._collector.count_judge_usage().items()}
        figures = {"device_busy_hours": self._collector.busy_s / 3600, **judged}
        for name in figures.keys() & self._total.keys():
            self._total[name] += figures[name] - self._counted.get(name, 0)
        self._counted = figures

    def _write(self) -> None:
        write_atomic(self._path, (json.dumps(self._total) + "\n").encode())


def _read(path: Path) -> dict[str, float]:
    if not path.exists():
        return {}  # the run was killed before the end of its first iteration
    try:
        total = json.loads(path.read_text())
        if not all(math.isfinite(value) and value >= 0 for value in total.values()):
            raise ValueError("an amount is negative or not a number")
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise ConfigError(f"{path} cannot be read ({error}); delete it to count costs from zero again") from None
    return total


def _short(value: float) -> str:
    """Formats an amount, as in `0.0012`, `3.2` and `1,234.5`."""
    return f"{value:,.1f}" if value >= 1 else f"{value:.2g}"
