"""The cumulative cost of a run."""

from __future__ import annotations

import asyncio
import errno
import json
from types import SimpleNamespace

import pytest

from mobilerl.config import load_recipe
from mobilerl.engines.registry import engine_kind
from mobilerl.training import cost
from mobilerl.training.cost import CostTracker


class Fleet:
    """A collector with `held` devices, all busy, and one judge request per hour."""

    def __init__(self, clock: SimpleNamespace, held: int) -> None:
        self.clock, self.held, self.began = clock, held, clock.now

    @property
    def hours(self) -> float:
        return (self.clock.now - self.began) / 3600

    @property
    def busy_s(self) -> float:
        return 3600 * self.held * self.hours

    def count_judge_usage(self) -> dict[str, float]:
        asked = int(self.hours)
        return {"requests": asked, "prompt_tokens": 1000 * asked, "completion_tokens": 20 * asked}


@pytest.fixture
def clock(monkeypatch) -> SimpleNamespace:
    """Advances only on demand."""
    clock = SimpleNamespace(now=5000.0)
    monkeypatch.setattr(cost, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


def play(run: CostTracker, clock: SimpleNamespace, hours: float) -> dict[str, float]:
    async def main() -> None:
        async with run.holding(Fleet(clock, 4)):
            clock.now += 3600 * hours / 2
            run.record()
            clock.now += 3600 * hours / 2

    asyncio.run(main())
    return run.record()


def test_a_resumed_run_adds_to_its_earlier_cost(tmp_path, clock):
    play(CostTracker(tmp_path, 1, judged=True, resume=False), clock, 2.0)
    clock.now += 36000.0  # between two runs
    total = play(CostTracker(tmp_path, 1, judged=True, resume=True), clock, 4.0)
    hours = {"device_hours": 24.0, "device_busy_hours": 24.0, "gpu_hours": 6.0}
    judge = {"judge_requests": 6, "judge_prompt_tokens": 6000, "judge_completion_tokens": 120}
    assert total == pytest.approx({f"cost/{name}": value for name, value in (hours | judge).items()})


def test_a_failing_run_writes_its_cost_and_a_full_disk_does_not_hide_its_error(tmp_path, clock, monkeypatch):
    run = CostTracker(tmp_path, 1, judged=False, resume=False)

    async def die() -> None:
        async with run.holding(Fleet(clock, 2)):
            clock.now += 3600.0
            raise RuntimeError("the engine is lost")

    with pytest.raises(RuntimeError, match="engine is lost"):
        asyncio.run(die())
    assert json.loads((tmp_path / "cost.json").read_text())["device_hours"] == pytest.approx(2.0)

    def full(path, data) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(cost, "write_atomic", full)
    with pytest.raises(RuntimeError, match="engine is lost"):
        asyncio.run(die())
    with pytest.raises(OSError, match="No space"):
        run.record()


@pytest.mark.parametrize(
    ("settings", "on_cuda", "on_cpu"),
    [
        ([], 1, 0),
        (["--engine.type", "vllm", "--vllm.tensor_parallel", "4"], 4, 0),
        (["--engine.type", "verl", "--cluster.nodes", "2", "--cluster.rollout_nodes", "1"], 24, 24),
    ],
)
def test_gpus_of_the_engine(monkeypatch, settings, on_cuda, on_cpu):
    import torch

    for there, gpus in ((True, on_cuda), (False, on_cpu)):
        monkeypatch.setattr(torch.cuda, "is_available", lambda there=there: there)
        recipe = load_recipe(None, settings)
        assert engine_kind(recipe.engine).gpus(recipe) == gpus
