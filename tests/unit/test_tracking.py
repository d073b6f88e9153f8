"""metrics.jsonl, its mirrors, and the progress on the console."""

import asyncio
import io
import json
import sys
import types

import numpy as np
import pytest
from rich.console import Console

from envs.base import DeviceReport
from mobilerl.config import TrackingSection
from mobilerl.train import progress
from mobilerl.train.progress import ProgressView, TimeLeft, describe_status
from mobilerl.train.tracking import Tracker, read_metrics


def test_non_finite_values_become_null(tmp_path):
    with Tracker(tmp_path) as tracker:
        tracker.log({"iteration": 0, "a": float("nan"), "b": np.float32(0.5), "c": [float("-inf"), 1]})
    assert read_metrics(tmp_path / "metrics.jsonl") == [{"iteration": 0, "a": None, "b": 0.5, "c": [None, 1]}]


def test_resume_drops_later_iterations_and_an_incomplete_line(tmp_path):
    path = tmp_path / "metrics.jsonl"
    Tracker(tmp_path).truncate_after(5)
    assert not path.exists()
    path.write_text("".join(json.dumps({"iteration": i}) + "\n" for i in range(4)) + '{"iteration": 4, "tr')
    assert [row["iteration"] for row in read_metrics(path)] == [0, 1, 2, 3]
    tracker = Tracker(tmp_path)
    tracker.log({"iteration": 4})
    assert [row["iteration"] for row in read_metrics(path)] == [0, 1, 2, 3, 4]
    tracker.truncate_after(1)
    tracker.log({"iteration": 2, "again": True})
    assert read_metrics(path) == [{"iteration": 0}, {"iteration": 1}, {"iteration": 2, "again": True}]


def test_a_corrupt_line_in_the_middle_is_named(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"iteration": 0}\n{oops\n{"iteration": 1}\n')
    with pytest.raises(ValueError, match="metrics.jsonl, line 2"):
        read_metrics(path)


def test_a_resumed_run_continues_the_same_wandb_run(tmp_path, monkeypatch):
    options, logged = [], []
    fake = types.ModuleType("wandb")
    fake.api = types.SimpleNamespace(api_key="k")
    fake.init = lambda **given: options.append(given) or fake
    fake.define_metric = lambda *names, **given: None
    fake.log = logged.append
    fake.finish = lambda: None
    monkeypatch.setitem(sys.modules, "wandb", fake)
    for iteration in range(2):
        with Tracker(tmp_path, TrackingSection(wandb="online")) as tracker:
            tracker.log({"iteration": iteration, "a": 1.0, "b": float("nan")})
    first, second = options
    assert first["resume"] == "allow" and first["id"] == second["id"]
    assert logged == [{"iteration": 0, "a": 1.0}, {"iteration": 1, "a": 1.0}]


def test_tensorboard_gets_the_numbers_and_a_resumed_run_replaces_them(tmp_path):
    with Tracker(tmp_path, TrackingSection(tensorboard=True)) as tracker:
        for i in range(4):
            tracker.log({"iteration": i, "a": float(i), "b": None, "note": "text"})
    with Tracker(tmp_path, TrackingSection(tensorboard=True)) as tracker:
        tracker.truncate_after(1)
        tracker.log({"iteration": 2, "a": 20.0})
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert events.Tags()["scalars"] == ["a"]
    assert [(e.step, e.value) for e in events.Scalars("a")] == [(0, 0.0), (1, 1.0), (2, 20.0)]


OUT = ["quarantined"] * 6
FULL = {
    "iteration": 12,
    "rollout/success_rate": 0.4375,
    "rollout/trajectories_per_min": 120.4,
    "train/kl": 0.0031,
    "curriculum/active": 40,
    "curriculum/cooling": 3,
    "fleet/quarantined": 2,
    "time/rollout_s": 6.0,
    "time/update_s": 4.0,
}


def test_progress_prints_plain_lines_without_a_terminal():
    out = io.StringIO()
    with ProgressView(iterations=200, console=Console(file=out, width=100)) as view:
        view.status("collecting 3/64")
        view.update(FULL)
        view.update({"iteration": 13, "rollout/success_rate": 0.5})
        view.update({"iteration": 14, "rollout/success_rate": 0.25})
        view.update({"iteration": 15})
        view.say("saved [it]")
    lines = out.getvalue().splitlines()
    assert lines[0] == ("iter   12/200  success  43.8% →  ep/min 120  kl 0.0031  tasks 40 active, 3 cooling")
    assert lines[1] == " " * 11 + "devices 2 quarantined  10.0s (rollout 60%, update 40%, publish 0%)"
    assert "50.0% ↑" in lines[2] and "25.0% ↓" in lines[3] and "success    --" in lines[4]
    assert lines[5] == "saved [it]"


def test_the_line_of_an_iteration_has_what_was_learned_and_names_devices():
    out = io.StringIO()
    devices = [DeviceReport(str(i), "", state, {}, 1, "", f"phone-{i}") for i, state in enumerate(["ready", *OUT])]
    with ProgressView(console=Console(file=out, width=300)) as view:
        learned = {"train/loss": -0.0213, "train/grad_norm": 0.31, "train/entropy": 0.84, "train/skipped_steps": 2.0}
        view.update({"iteration": 3, **learned, "fleet/quarantined": 6, "fleet/failures": 9}, devices)
    assert "loss -0.0213  grad norm 0.31  entropy 0.84  skipped steps 2  devices 6 quarantined (" in out.getvalue()
    assert "quarantined (phone-1, phone-2, phone-3, phone-4, ...), 9 failures" in out.getvalue()


async def test_a_long_iteration_gets_a_line_in_a_file(monkeypatch):
    monkeypatch.setattr(progress, "LINE_EVERY_S", 0.01)
    out, ended = io.StringIO(), 0
    with ProgressView(console=Console(file=out, width=100)) as view:
        with view.watching(lambda: describe_status(12, ended, 32, {"fleet/leased": 40, "fleet/ready": 0})):
            await asyncio.sleep(0.05)
            ended = 18
            await asyncio.sleep(0.05)
    lines = out.getvalue().splitlines()
    assert lines[0] == "iteration 12: 0 of 32 episodes; devices: 40 leased"
    assert lines[-1] == "iteration 12: 18 of 32 episodes; devices: 40 leased"


@pytest.mark.parametrize(
    ("limits", "seconds"),
    [
        ((1000, 10.0, None), 600.0 - 60.0),  # 998 x 30 s are longer than the rest of ten minutes
        ((4, 10.0, None), 2 * 30.0),
        ((1000, None, 1000), (1000 - 300) / 200 * 30.0),
        ((None, None, None), None),
    ],
)
def test_time_left_is_to_the_first_limit(limits, seconds):
    left = TimeLeft(*limits)
    assert left.after({"iteration": 1}) is None
    left.after({"iteration": 1, "time_s": 30.0, "rollout/env_steps": 100})
    assert left.after({"iteration": 2, "time_s": 60.0, "rollout/env_steps": 300}) == seconds
