"""What a run has cost: added up over devices, GPUs, the judge and all starts of the run, and never taken back."""

from __future__ import annotations

import asyncio
import errno
import json
from types import SimpleNamespace

import pytest

from mobilerl.config import ConfigError, load_recipe
from mobilerl.train import spending
from mobilerl.train.spending import Spending, gpus_of


class Fleet:
    """A collector that plays on `held` devices, all of them busy, and has a judge asked once an hour."""

    def __init__(self, clock: SimpleNamespace, held: int) -> None:
        self.clock, self.held, self.began = clock, held, clock.now

    @property
    def hours(self) -> float:
        return (self.clock.now - self.began) / 3600

    @property
    def busy_s(self) -> float:
        return 3600 * self.held * self.hours

    def judged(self) -> dict[str, float]:
        asked = int(self.hours)
        return {"requests": asked, "prompt_tokens": 1000 * asked, "completion_tokens": 20 * asked, "money": 0.5 * asked}


@pytest.fixture
def clock(monkeypatch) -> SimpleNamespace:
    """Moves only when it is told to."""
    clock = SimpleNamespace(now=5000.0)
    monkeypatch.setattr(spending, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


def play(run: Spending, clock: SimpleNamespace, hours: float, held: int = 4, after: float = 0.0) -> dict[str, float]:
    async def main() -> None:
        async with run.holding(Fleet(clock, held)):
            clock.now += 3600 * hours / 2
            run.record()
            clock.now += 3600 * hours / 2

    asyncio.run(main())
    clock.now += 3600 * after
    return run.record()


def test_gpus_count_all_the_time_and_devices_while_they_are_held(tmp_path, clock):
    run = Spending(tmp_path, gpus=8, judged=False, resume=False)
    clock.now += 1800.0  # the model is loaded
    assert play(run, clock, 2.0, after=0.25) == pytest.approx(
        {"cost/device_hours": 8.0, "cost/device_busy_hours": 8.0, "cost/gpu_hours": 8 * 2.75}
    )


def test_devices_that_are_held_and_do_not_play_cost_as_well(tmp_path, clock):
    run, fleet = Spending(tmp_path, gpus=0, judged=False, resume=False), Fleet(clock, 3)

    async def main() -> None:
        async with run.holding(fleet):
            fleet.held = 4  # a spare is found to be there
            clock.now += 3600.0
            fleet.began = clock.now  # it was not played at all

    asyncio.run(main())
    assert run.record() == {"cost/device_hours": 4.0, "cost/device_busy_hours": 0.0, "cost/gpu_hours": 0.0}


def test_every_start_goes_on_from_what_the_ones_before_it_spent(tmp_path, clock):
    play(Spending(tmp_path, 1, judged=True, resume=False), clock, 2.0)
    clock.now += 36000.0  # nobody holds anything
    total = play(Spending(tmp_path, 1, judged=True, resume=True), clock, 4.0)
    assert total == pytest.approx({
        "cost/device_hours": 24.0, "cost/device_busy_hours": 24.0, "cost/gpu_hours": 6.0, "cost/judge_requests": 6,
        "cost/judge_prompt_tokens": 6000, "cost/judge_completion_tokens": 120, "cost/judge_money": 3.0,
    })  # fmt: skip


def test_a_run_that_is_killed_loses_count_of_what_came_after_its_last_iteration_only(tmp_path, clock):
    killed = Spending(tmp_path, 2, judged=False, resume=False)
    clock.now += 3600.0
    killed.record()
    clock.now += 3600.0  # and here it is killed
    assert Spending(tmp_path, 2, judged=False, resume=True).record()["cost/gpu_hours"] == pytest.approx(2.0)


def test_a_run_that_begins_owes_nothing(tmp_path, clock):
    play(Spending(tmp_path, 1, judged=False, resume=False), clock, 2.0)
    assert set(Spending(tmp_path, 1, judged=False, resume=False).record().values()) == {0}


def test_what_a_run_dies_of_is_counted_to_and_not_hidden_by_a_full_disk(tmp_path, clock, monkeypatch):
    run = Spending(tmp_path, 1, judged=False, resume=False)

    async def die() -> None:
        async with run.holding(Fleet(clock, 2)):
            clock.now += 3600.0
            raise RuntimeError("the engine is lost")

    with pytest.raises(RuntimeError, match="engine is lost"):
        asyncio.run(die())
    assert json.loads((tmp_path / "cost.json").read_text())["device_hours"] == pytest.approx(2.0)

    def full(path, data) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(spending, "write_atomic", full)
    with pytest.raises(RuntimeError, match="engine is lost"):
        asyncio.run(die())
    with pytest.raises(OSError, match="No space"):
        run.record()


@pytest.mark.parametrize("content", ["", "[1]", '{"gpu_hours": -1}', '{"gpu_hours": "2"}', '{"gpu_hours": NaN}'])
def test_a_damaged_file_is_named_with_the_cure(tmp_path, content):
    (tmp_path / "cost.json").write_text(content)
    with pytest.raises(ConfigError, match=r"cost\.json cannot be read .*; delete it to count the costs from zero"):
        Spending(tmp_path, 0, judged=False, resume=True)


def test_the_line_for_a_person(tmp_path, clock):
    run = Spending(tmp_path, 0, judged=False, resume=False)
    play(run, clock, 0.003)
    assert run.summary() == "cost: 0.012 device-hours (0.012 busy)"
    dear = Spending(tmp_path, 2, judged=True, resume=False)
    play(dear, clock, 1000.0)
    assert dear.summary() == (
        "cost: 4,000.0 device-hours (4,000.0 busy), 2,000.0 GPU-hours, 1,020,000 judge tokens (500.00)"
    )


@pytest.mark.parametrize(
    ("settings", "on_cuda", "on_cpu"),
    [
        ([], 1, 0),
        (["--engine.sampler", "vllm", "--vllm.tensor_parallel", "4"], 4, 0),
        (["--engine.type", "verl", "--cluster.nodes", "2", "--cluster.rollout_nodes", "1"], 24, 24),
    ],
)
def test_gpus_are_those_of_the_engine(monkeypatch, settings, on_cuda, on_cpu):
    import torch

    for there, gpus in ((True, on_cuda), (False, on_cpu)):
        monkeypatch.setattr(torch.cuda, "is_available", lambda there=there: there)
        assert gpus_of(load_recipe(None, settings)) == gpus
