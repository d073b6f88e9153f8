import io
import json
import sys
import types

import numpy as np
import pytest
from rich.console import Console

from mobilerl.config import load_recipe
from mobilerl.train.progress import ProgressView
from mobilerl.train.run_log import RunLog
from mobilerl.train.tracking import Tracker, read_metrics


def test_log_appends_one_object_and_writes_non_finite_as_null(tmp_path):
    with Tracker(tmp_path) as tracker:
        tracker.log({"iteration": 0, "a": float("nan"), "b": np.float32(0.5), "c": [float("-inf"), 1]})
        assert read_metrics(tmp_path / "metrics.jsonl") == [{"iteration": 0, "a": None, "b": 0.5, "c": [None, 1]}]
        tracker.log({"iteration": 1, "a": 2})
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["iteration"] for line in lines] == [0, 1]


@pytest.mark.parametrize("metrics", [{"a": 1}, {"iteration": "3"}, {"iteration": float("nan")}])
def test_an_iteration_number_is_required(tmp_path, metrics):
    with pytest.raises(ValueError, match="iteration"):
        Tracker(tmp_path).log(metrics)


def test_a_value_that_is_no_metric_is_named(tmp_path):
    for value in (object(), np.zeros(2)):
        with pytest.raises(TypeError, match="'train/loss' is a"):
            Tracker(tmp_path).log({"iteration": 0, "train/loss": value})


def test_resume_drops_later_iterations_and_a_half_written_line(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text("".join(json.dumps({"iteration": i}) + "\n" for i in range(4)) + '{"iteration": 4, "tr')
    assert [row["iteration"] for row in read_metrics(path)] == [0, 1, 2, 3]
    tracker = Tracker(tmp_path)
    tracker.truncate_after(1)
    tracker.log({"iteration": 2, "again": True})
    assert read_metrics(path) == [{"iteration": 0}, {"iteration": 1}, {"iteration": 2, "again": True}]


def test_a_half_written_line_never_joins_the_next(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"iteration": 0}\n{"iter')
    Tracker(tmp_path).log({"iteration": 1})
    assert path.read_text() == '{"iteration": 0}\n{"iteration":1}\n'


def test_truncating_a_run_that_has_no_metrics_makes_no_file(tmp_path):
    Tracker(tmp_path).truncate_after(5)
    assert not (tmp_path / "metrics.jsonl").exists()


def test_a_corrupt_line_in_the_middle_is_named(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"iteration": 0}\n{oops\n{"iteration": 1}\n')
    with pytest.raises(ValueError, match="metrics.jsonl, line 2"):
        read_metrics(path)


class FakeWandb(types.ModuleType):
    """Stands for the package: records what it is asked to do."""

    def __init__(self, key: str | None) -> None:
        super().__init__("wandb")
        self.api = types.SimpleNamespace(api_key=key)
        self.init_options: list[dict] = []
        self.logged: list[dict] = []
        self.finished = False

    def init(self, **options):
        self.init_options.append(options)
        return self

    def define_metric(self, *names, **options):
        pass

    def log(self, row):
        self.logged.append(row)

    def finish(self):
        self.finished = True


def test_wandb_without_a_key_stays_offline(tmp_path, monkeypatch, capsys):
    fake = FakeWandb(key=None)
    monkeypatch.setitem(sys.modules, "wandb", fake)
    with Tracker(tmp_path, wandb="online", project="p") as tracker:
        assert not fake.init_options  # nothing is started before there is something to log
        tracker.log({"iteration": 0, "a": 1.0, "b": float("nan")})
    assert fake.init_options[0]["mode"] == "offline" and fake.init_options[0]["project"] == "p"
    assert fake.logged == [{"iteration": 0, "a": 1.0}]
    assert fake.finished
    assert "offline" in capsys.readouterr().err


def test_a_runs_recipe_goes_to_wandb_with_it(tmp_path, monkeypatch):
    fake = FakeWandb(key=None)
    monkeypatch.setitem(sys.modules, "wandb", fake)
    recipe = load_recipe(None, ["--tracking.wandb", "offline", "--algorithm.replay.gamma", "0.125"])
    with RunLog(recipe, tmp_path) as log:
        log.metrics({"iteration": 1})
    (options,) = fake.init_options
    assert options["mode"] == "offline" and options["config"] == json.loads(recipe.model_dump_json())
    assert options["config"]["algorithm"]["replay"]["gamma"] == 0.125


def test_a_resumed_run_goes_on_in_the_same_wandb_run(tmp_path, monkeypatch):
    fake = FakeWandb(key="k")
    monkeypatch.setitem(sys.modules, "wandb", fake)
    for iteration in range(2):
        with Tracker(tmp_path, wandb="online") as tracker:
            tracker.log({"iteration": iteration})
    first, second = fake.init_options
    assert first["mode"] == "online" and first["resume"] == "allow"
    assert first["id"] == second["id"]


def test_tensorboard_gets_the_numbers(tmp_path):
    with Tracker(tmp_path, tensorboard=True) as tracker:
        tracker.log({"iteration": 0, "train/loss": 0.25, "train/kl": None, "note": "text"})
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert events.Tags()["scalars"] == ["train/loss"]
    assert [(e.step, e.value) for e in events.Scalars("train/loss")] == [(0, 0.25)]


def test_tensorboard_forgets_what_a_resumed_run_writes_anew(tmp_path):
    with Tracker(tmp_path, tensorboard=True) as tracker:
        for i in range(4):
            tracker.log({"iteration": i, "a": float(i)})
    with Tracker(tmp_path, tensorboard=True) as tracker:
        tracker.truncate_after(1)
        tracker.log({"iteration": 2, "a": 20.0})
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [(e.step, e.value) for e in events.Scalars("a")] == [(0, 0.0), (1, 1.0), (2, 20.0)]


FULL = {
    "iteration": 12,
    "rollout/success_rate": 0.4375,
    "rollout/trajectories_per_min": 120.4,
    "rollout/episode_len": 6.41,
    "rollout/reward": 0.42,
    "train/kl": 0.0031,
    "replay/size": 120,
    "replay/fraction": 0.25,
    "curriculum/active": 40,
    "curriculum/cooling": 3,
    "curriculum/removed": 1,
    "time/rollout_s": 6.0,
    "time/update_s": 3.0,
    "time/publish_s": 1.0,
}


def test_progress_is_plain_lines_without_a_terminal():
    out = io.StringIO()
    with ProgressView(iterations=200, console=Console(file=out, width=40)) as view:
        view.status("collecting 3/64")
        view.update(FULL)
        view.update({"iteration": 13, "rollout/success_rate": 0.5})
        view.update({"iteration": 14, "rollout/success_rate": 0.25})
        view.update({"iteration": 15})
    first, second, third, fourth = out.getvalue().splitlines()
    assert first == (
        "iter   12/200  success  43.8% →  ep/min 120  len 6.4  reward 0.420  kl 0.0031  replay 120 (25% of batch)"
        "  tasks 40 active, 3 cooling, 1 removed  10.0s (rollout 60%, update 30%, publish 10%)"
    )
    assert "success  50.0% ↑" in second
    assert "success  25.0% ↓" in third
    assert "success    --" in fourth


def test_progress_on_a_terminal_shows_the_line_and_what_goes_on():
    out = io.StringIO()
    with ProgressView(console=Console(file=out, force_terminal=True, width=200)) as view:
        view.status("collecting 3/64 [bold]")
        view.update(FULL)
    assert "collecting 3/64 [bold]" in out.getvalue()
    assert "43.8%" in out.getvalue()
