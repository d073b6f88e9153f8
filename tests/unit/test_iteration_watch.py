"""What an iteration reports of the time in which devices or the model had nothing to do."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import pytest

from mobilerl.inference import engine_policy
from mobilerl.inference.engine_policy import BusyTime
from mobilerl.training import metrics
from mobilerl.training.metrics import IterationWatch


@pytest.fixture
def clock(monkeypatch) -> SimpleNamespace:
    clock = SimpleNamespace(now=0.0)
    for module in (metrics, engine_policy):
        monkeypatch.setattr(module.time, "monotonic", lambda: clock.now)
    return clock


def test_idle_seconds_by_phase(clock):
    """Two devices: one is busy for all of a rollout of 10 s, one for 4 s of it; both for 1 s of the update."""
    sampling = BusyTime()
    collector = SimpleNamespace(
        devices=2, busy_s=0.0, counts=Counter(), ended=0, status=dict, sampling_s=sampling.seconds
    )
    watch = IterationWatch(collector, ahead=False)
    clock.now = 2.0
    with sampling.running(), sampling.running():
        clock.now = 5.0
    with sampling.running():
        clock.now = 8.0
    clock.now, collector.busy_s = 10.0, 14.0
    watch.end_phase("rollout")
    clock.now, collector.busy_s = 13.0, 16.0
    watch.end_phase("update")
    clock.now = 14.0
    watch.end_phase("publish")
    step = SimpleNamespace(timings={"policy": 3.0, "action": 1.0})
    found = watch._idle([SimpleNamespace(trajectories=[SimpleNamespace(steps=[step, step])])])
    assert found == {
        "time/idle_device_rollout_s": 3.0,
        "time/idle_device_update_s": 2.0,
        "time/idle_device_publish_s": 1.0,
        "time/idle_device_sampling_s": 3.0,
        "time/idle_model_s": 4.0,
    }


def test_overlapping_calls_count_once(clock):
    busy = BusyTime()
    with busy.running():
        clock.now = 1.0
        with busy.running():
            clock.now = 3.0
            assert busy.seconds() == 3.0
    clock.now = 10.0
    assert busy.seconds() == 3.0
