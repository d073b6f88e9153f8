"""Metrics, held-out success and images of episodes in the real wandb and TensorBoard, without a network."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from PIL import Image

from mobilerl.config import AgentSection, Recipe, TrackingSection, load_recipe, save_recipe
from mobilerl.config.reading import CONFIG_FILE
from mobilerl.envs.phone.env import PhoneEnv
from mobilerl.envs.phone.tasks import suite
from mobilerl.eval.agents import scripted_actor
from mobilerl.records import Group, Trajectory
from mobilerl.records.drawing import HEIGHT, draw_episode
from mobilerl.rollout.episode import episode_settings, run_episode
from mobilerl.training.run_log import RunLog
from mobilerl.training.tracking import Tracker

pytestmark = pytest.mark.slow
ROW = {"iteration": 3, "eval/success_rate": 0.25, "rollout/success_rate": 0.5, "note": "text", "nothing": None}


def play(screenshots: bool) -> Trajectory:
    phone = PhoneEnv("sim-0", 180, 360, screenshots=screenshots)
    actor, task = scripted_actor("expert", 0, [phone]), suite.make_task("TodoDue", 0)
    return asyncio.run(run_episode(phone, actor, task, "t", episode_settings(AgentSection())))


@pytest.fixture(scope="module")
def episode() -> Trajectory:
    return play(screenshots=True)


def track(run_dir: Path, episode: Trajectory, *flags: str) -> Recipe:
    recipe = load_recipe(None, flags)
    save_recipe(recipe, run_dir / CONFIG_FILE)
    with RunLog(recipe, run_dir) as log:
        log.metrics(ROW)
        log.trajectories(3, [Group(episode.task, (episode, episode))], {}, {})
    return recipe


def test_a_image_has_every_screen_of_the_episode(episode):
    image = draw_episode(episode)
    assert episode.success and image.height > HEIGHT and image.width > len(episode.steps) * HEIGHT / 2
    assert draw_episode(play(screenshots=False)) is None


def test_wandb(tmp_path, episode):
    pytest.importorskip("wandb")
    track(tmp_path, episode, "--tracking.wandb", "offline")
    [written] = tmp_path.glob("wandb/offline-run-*/files/media/images/episodes_*.png")
    assert Image.open(written).size == draw_episode(episode).size


def test_tensorboard(tmp_path, episode):
    pytest.importorskip("tensorboard")
    track(tmp_path, episode, "--tracking.tensorboard", "true")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [(e.step, e.value) for e in events.Scalars("eval/success_rate")] == [(3, 0.25)]
    [image] = events.Images("episodes/0")
    assert (image.step, (image.width, image.height)) == (3, draw_episode(episode).size)


def test_wandb_goes_on_offline_when_its_server_cannot_be_reached(tmp_path, episode, monkeypatch, capsys):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_API_KEY", 40 * "0")
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("WANDB_INIT_TIMEOUT", "3")
    track(tmp_path, episode, "--tracking.wandb", "online")
    said = " ".join(capsys.readouterr().err.split())
    assert "logging offline; upload the run later with `wandb sync`" in said
    assert list(tmp_path.glob("wandb/offline-run-*/*.wandb"))
    assert len((tmp_path / "metrics.jsonl").read_text().splitlines()) == 1


def test_wandb_whose_server_is_gone_in_the_middle_delays_the_end_for_seconds(tmp_path, episode, monkeypatch):
    pytest.importorskip("wandb")
    words = [sys.executable, str(Path(__file__).with_name("wandb_stand_in.py"))]
    tests = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": tests}) as server:
        monkeypatch.setenv("WANDB_BASE_URL", server.stdout.readline().strip())
        monkeypatch.setenv("WANDB_API_KEY", 40 * "0")
        monkeypatch.setenv("WANDB_FINISH_TIMEOUT", "2")
        monkeypatch.setattr("mobilerl.training.wandb_mirror.GRACE_S", 2.0)
        tracking = TrackingSection(wandb="online")
        with Tracker(tmp_path, tracking) as tracker:
            tracker.log(ROW)
            server.kill()
            server.wait()
            tracker.log(ROW | {"train/skipped_steps": 1})
            began = time.monotonic()
    assert time.monotonic() - began < 30
    assert len((tmp_path / "metrics.jsonl").read_text().splitlines()) == 2
    assert list(tmp_path.glob("wandb/run-*/*.wandb"))
