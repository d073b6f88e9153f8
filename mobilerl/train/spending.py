"""What a run has cost so far: hours of devices, hours of GPUs, and what its judge was asked.

    cost.json   {"device_hours": 3.2, "device_busy_hours": 2.9, "gpu_hours": 0.4, ...}: totals over all of its starts

A resumed run drops the iterations after its checkpoint, but what they cost was spent all the same. So the totals have a
file of their own, which no resume takes back. It is written with every iteration and when the run ends; a run that is
killed loses count of what it spent since its last iteration.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from mobilerl.atomic_files import write_atomic
from mobilerl.config import ConfigError, Recipe
from mobilerl.train.source import Players

COST_FILE = "cost.json"
HOURS = ("device_hours", "device_busy_hours", "gpu_hours")
JUDGE = ("judge_requests", "judge_prompt_tokens", "judge_completion_tokens", "judge_money")


def gpus_of(recipe: Recipe) -> int:
    """GPUs that the recipe's engine holds while it runs on this machine, its sampler's included."""
    if recipe.engine.type == "verl":
        return (recipe.cluster.nodes + recipe.cluster.rollout_nodes) * recipe.cluster.gpus_per_node
    import torch

    if not torch.cuda.is_available():
        return 0
    # vLLM's first GPU is the one that learns.
    return recipe.vllm.tensor_parallel if recipe.engine.sampler == "vllm" else 1


class Spending:
    """Adds up what one run costs. The GPUs' time begins with this object: loading a model holds them as well."""

    def __init__(self, run_dir: Path, gpus: int, judged: bool, resume: bool) -> None:
        """With `resume` it goes on from the run's cost.json. Raises ConfigError when that cannot be read."""
        self._path, self._gpus = run_dir / COST_FILE, gpus
        names = HOURS + (JUDGE if judged else ())
        before = _read(self._path) if resume else {}
        self._total: dict[str, float] = {name: before.get(name, 0) for name in names}
        self._collector: Players | None = None
        self._seen: dict[str, float] = {}
        """What was counted of the collector's own figures."""
        self._counted = time.monotonic()

    @asynccontextmanager
    async def holding(self, collector: Players) -> AsyncIterator[None]:
        """Its devices count from before they are started until they have been given back."""
        self._count()
        self._collector = collector
        try:
            yield
        finally:
            self._count()
            self._collector, self._seen = None, {}
            with suppress(OSError):  # a full disk must not hide what the run may be dying of
                self._write()

    def record(self) -> dict[str, float]:
        """Counts up to now, puts it on disk and returns the totals under their names in metrics.jsonl."""
        self._count()
        self._write()
        return {f"cost/{name}": value for name, value in self._total.items()}

    def summary(self) -> str:
        """The totals of the last count: `cost: 3.2 device-hours (2.9 busy), 12,345 judge tokens (0.06)`."""
        total = self._total
        parts = [f"{_short(total['device_hours'])} device-hours ({_short(total['device_busy_hours'])} busy)"]
        if total["gpu_hours"]:
            parts.append(f"{_short(total['gpu_hours'])} GPU-hours")
        if "judge_requests" in total:
            tokens = total["judge_prompt_tokens"] + total["judge_completion_tokens"]
            money = total["judge_money"]
            price = f" ({money:,.2f})" if money >= 0.01 else f" ({money:.2g})" if money else ""
            parts.append(f"{tokens:,.0f} judge tokens{price}")
        return "cost: " + ", ".join(parts)

    def _count(self) -> None:
        now = time.monotonic()
        hours, self._counted = (now - self._counted) / 3600, now
        self._total["gpu_hours"] += self._gpus * hours
        if self._collector is None:
            return
        self._total["device_hours"] += self._collector.held * hours
        judged = {f"judge_{name}": value for name, value in self._collector.judged().items()}
        figures = {"device_busy_hours": self._collector.busy_s / 3600, **judged}
        for name in figures.keys() & self._total.keys():
            self._total[name] += figures[name] - self._seen.get(name, 0)
        self._seen = figures

    def _write(self) -> None:
        write_atomic(self._path, (json.dumps(self._total) + "\n").encode())


def _read(path: Path) -> dict[str, float]:
    if not path.exists():
        return {}  # of a run that was killed before its first iteration ended
    try:
        total = json.loads(path.read_text())
        if not all(math.isfinite(value) and value >= 0 for value in total.values()):
            raise ValueError("an amount is below zero or no number")
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise ConfigError(f"{path} cannot be read ({error}); delete it to count the costs from zero again") from None
    return total


def _short(value: float) -> str:
    """Two digits at least, and tenths where they are more: `0.0012`, `3.2`, `1,234.5`."""
    return f"{value:,.1f}" if value >= 1 else f"{value:.2g}"
