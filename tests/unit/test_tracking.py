"""metrics.jsonl, its mirrors, and the progress on the console."""

import asyncio
import io
import json
import os
import sys
import types
from datetime import datetime

import numpy as np
import pytest
from rich.console import Console

from mobilerl.config import ConfigError, TrackingSection, load_recipe
from mobilerl.envs.base import InfraError
from mobilerl.training import progress
from mobilerl.training.interrupt import Stopped
from mobilerl.training.mirrors import check_mirrors
from mobilerl.training.progress import ProgressView, TimeLeft, describe_status
from mobilerl.training.starts import STARTS_FILE, command_line
from mobilerl.training.tracking import Tracker, read_metrics


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


def test_a_process_notes_its_start_once_and_not_before_it_has_something_to_log(tmp_path):
    for iteration in (3, 4):
        with Tracker(tmp_path) as tracker:
            assert iteration == 4 or not (tmp_path / STARTS_FILE).exists()
            tracker.log({"iteration": iteration})
    (start,) = read_metrics(tmp_path / STARTS_FILE)
    assert start["iteration"] == 3 and datetime.fromisoformat(start["time"]).tzinfo is not None


def test_the_noted_command_can_be_typed_again_and_has_no_secrets(monkeypatch):
    monkeypatch.setattr(sys.modules["__main__"], "__file__", "mine.py", raising=False)  # pytest-xdist's has none
    flags = ["--judge.url", "http://me:pw@host/v1", "--fleet.environment", "A=s3cret", "--fleet.environment=B=s3cret"]
    noted = command_line(["/some/venv/bin/mobilerl", "train", "--run-dir", "my runs/a", *flags])
    assert noted == (
        "mobilerl train --run-dir 'my runs/a' --judge.url 'http://***@host/v1' "
        "--fleet.environment '***' '--fleet.environment=***'"
    )
    assert command_line(["/clone/mobilerl/__main__.py", "sft"]) == "mobilerl sft"
    assert command_line(["mine.py", "--x"]) == "python mine.py --x"


def test_a_corrupt_line_in_the_middle_is_named(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"iteration": 0}\n{oops\n{"iteration": 1}\n')
    with pytest.raises(ValueError, match="metrics.jsonl, line 2"):
        read_metrics(path)


class FakeWandb(types.ModuleType):
    """Stands in for the package, whose server cannot run here."""

    api = types.SimpleNamespace(api_key="k")

    def __init__(self):
        super().__init__("wandb")
        self.options, self.logged, self.alerts, self.exit_codes = [], [], [], []
        self.log = self.logged.append
        self.define_metric = lambda *names, **given: None
        self.alert = lambda title, text, level: self.alerts.append((title, text, level))
        self.finish = lambda exit_code: self.exit_codes.append(exit_code)

    def init(self, **given):
        self.options.append(given)
        return self


@pytest.fixture
def wandb(monkeypatch):
    fake = FakeWandb()
    monkeypatch.setitem(sys.modules, "wandb", fake)
    for name in ("WANDB_MODE", "WANDB_INIT_TIMEOUT", "WANDB_FINISH_TIMEOUT"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    return fake


ONLINE = TrackingSection(wandb="online")


def test_a_resumed_run_continues_the_same_wandb_run(tmp_path, wandb):
    for iteration in range(2):
        with Tracker(tmp_path, ONLINE) as tracker:
            tracker.log({"iteration": iteration, "a": 1.0, "b": float("nan")})
    first, second = wandb.options
    assert first["resume"] == "allow" and first["id"] == second["id"]
    assert wandb.logged == [{"iteration": 0, "a": 1.0}, {"iteration": 1, "a": 1.0}]
    assert wandb.exit_codes == [0, 0]


@pytest.mark.parametrize(
    ("setting", "variable", "used"),
    [
        ("online", "offline", ["offline"]),
        ("online", "dryrun", ["offline"]),
        ("online", "disabled", []),
        ("offline", "online", ["offline"]),
        ("off", "online", []),
        ("online", "shared", ["online"]),
    ],
)
def test_wandb_mode_can_only_show_less(setting, variable, used, tmp_path, wandb, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", variable)
    with Tracker(tmp_path, TrackingSection(wandb=setting)) as tracker:
        tracker.log({"iteration": 0})
    assert [given["mode"] for given in wandb.options] == used


@pytest.mark.parametrize("key", [None, "k"])
def test_wandb_logs_offline_without_a_key_or_a_server(key, tmp_path, wandb, monkeypatch, capsys):
    def init(**given):
        if given["mode"] == "online":
            raise ConnectionError("no route to host")
        return FakeWandb.init(wandb, **given)

    monkeypatch.setattr(wandb, "api", types.SimpleNamespace(api_key=key))
    wandb.init = init
    with Tracker(tmp_path, ONLINE) as tracker:
        tracker.log({"iteration": 0})
    assert [given["mode"] for given in wandb.options] == ["offline"] and len(wandb.logged) == 1
    reason = "no route to host" if key else "no API key"
    assert f"wandb: {reason}; logging offline; upload the run later with `wandb sync`" in capsys.readouterr().err


def test_a_tracker_that_fails_in_the_middle_does_not_end_the_run(tmp_path, wandb, capsys):
    def fails(*args, **options):
        raise ConnectionError("the service\nis gone")

    with Tracker(tmp_path, ONLINE) as tracker:
        tracker.log({"iteration": 0})
        wandb.log = wandb.finish = wandb.alert = fails
        tracker.log({"iteration": 1})
        tracker.log({"iteration": 2, "train/skipped_steps": 1})
    said = capsys.readouterr().err
    assert said.count("wandb: ConnectionError: the service is gone; the run goes on") == 1
    assert len(read_metrics(tmp_path / "metrics.jsonl")) == 3


def test_a_tracker_without_a_disk_does_not_end_the_run(tmp_path, capsys):
    (tmp_path / "tensorboard").write_text("in the way")
    settings = TrackingSection(tensorboard=True, prometheus_file="/proc/nowhere/run.prom")
    with Tracker(tmp_path, settings) as tracker:
        for iteration in range(2):
            tracker.log({"iteration": iteration})
    said = capsys.readouterr().err
    assert said.count("TensorBoard: ") == said.count("Prometheus: ") == 1
    assert len(read_metrics(tmp_path / "metrics.jsonl")) == 2


def test_wandb_alerts_once_on_each_event_and_marks_a_failed_run(tmp_path, wandb):
    with Tracker(tmp_path / "a", ONLINE) as tracker:
        for iteration in range(3):
            tracker.log({"iteration": iteration, "train/skipped_steps": iteration})
    assert [(title, level) for title, _, level in wandb.alerts] == [("a: skips steps", "WARN"), ("a: finished", "INFO")]
    wandb.alerts.clear()
    for name, error in (("b", InfraError("no episode was completed for 900 s")), ("c", Stopped(15, "saved"))):
        with pytest.raises(type(error)), Tracker(tmp_path / name, ONLINE) as tracker:
            if name == "c":
                tracker.log({"iteration": 0})
            raise error
    assert wandb.alerts == [
        ("b: failed", "no episode was completed for 900 s", "ERROR"),
        ("c: stopped", "saved", "WARN"),
    ]
    assert wandb.exit_codes == [0, 1, 0]


def test_prometheus_reads_the_newest_metrics_and_the_state_of_the_run(tmp_path):
    path, run = tmp_path / "node" / "run.prom", tmp_path / 'my "run"'
    with pytest.raises(InfraError), Tracker(run, TrackingSection(prometheus_file=str(path))) as tracker:
        tracker.log({"iteration": 1, "eval/held out": 0.25, "gone": 1})
        tracker.log({"iteration": 2, "eval/held out": 0.5, "eval/held_out": 0.75, "note": "text", "nan": float("nan")})
        lines = path.read_text()
        assert f'mobilerl_run_state{{run="{tmp_path}/my \\"run\\"",state="running"}} 1.0\n' in lines
        raise InfraError("no devices")
    samples = [line.rpartition(" ") for line in path.read_text().splitlines() if not line.startswith("#")]
    values = {name.partition("{")[0]: float(value) for name, _, value in samples if "state=" not in name}
    assert values.keys() == {"mobilerl_iteration", "mobilerl_iteration_timestamp_seconds", "mobilerl_eval_held_out"}
    assert values["mobilerl_iteration"] == 2 and values["mobilerl_eval_held_out"] == 0.75
    states = {name.split('state="')[1][:-2]: float(value) for name, _, value in samples if "state=" in name}
    assert states == {"running": 0, "finished": 0, "stopped": 0, "failed": 1}
    assert path.stat().st_mode & 0o444 == 0o444 and os.listdir(path.parent) == ["run.prom"]


def test_a_prometheus_file_that_cannot_be_written_is_found_before_the_run(tmp_path):
    with pytest.raises(ConfigError, match=r"tracking.prometheus_file: /nonexistent: no such folder"):
        check_mirrors(TrackingSection(prometheus_file="/nonexistent/run.prom"))
    with pytest.raises(ConfigError, match="prometheus_file"):
        load_recipe(None, ["--tracking.prometheus_file", str(tmp_path / "run.txt")])


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


def test_a_metric_of_an_earlier_version_has_its_new_name(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"iteration":1,"train/entropy":0.5}\n{"iteration":2,"train/neg_logp":0.25}\n')
    assert [row["train/neg_logp"] for row in read_metrics(path)] == [0.5, 0.25]
