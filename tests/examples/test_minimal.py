"""examples/adagrpo_minimal.py says what the real thing says, and runs."""

from __future__ import annotations

import asyncio
import importlib.util
import random
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from envs.base import Task
from mobilerl.algorithms.advantages import group_relative
from mobilerl.algorithms.rewards import shortest_path_adjustment
from mobilerl.records import Status, Trajectory

FILE = Path(__file__).parents[2] / "examples" / "adagrpo_minimal.py"


@pytest.fixture(scope="module")
def minimal():
    spec = importlib.util.spec_from_file_location("adagrpo_minimal", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def group(*episodes: tuple[float, int], template: str = "T") -> list[Trajectory]:
    task = Task("t", template, "do it", {}, 0, 9, "sim")
    return [Trajectory(f"e{i}", task, (None,) * n, r, Status.FINISHED, "d") for i, (r, n) in enumerate(episodes)]


def test_rewards_and_advantages_are_those_of_the_library(minimal):
    for episodes in (((1.0, 4), (1.0, 5), (0.0, 3)), ((0.0, 2), (0.0, 9)), ((0.5, 2), (1.0, 6), (1.0, 6))):
        index = torch.zeros(len(episodes), dtype=torch.long)
        rewards, lengths = map(torch.tensor, zip(*episodes, strict=True))
        adjusted = shortest_path_adjustment(rewards.double(), lengths, index)
        assert minimal.shortest_path_adjusted(group(*episodes)) == pytest.approx(adjusted.tolist())
        wanted = group_relative(adjusted, index, normalize_std=False)
        assert minimal.advantages(group(*episodes)) == pytest.approx(wanted.tolist())


def test_templates_that_keep_failing_rest(minimal):
    tasks = [t.task for name in ("hard", "easy") for t in group((0.0, 1), template=name)]
    curriculum, rng = minimal.Curriculum(tasks), random.Random(0)
    for _ in range(2):
        curriculum.record(group((0.0, 1), (0.0, 1), template="hard"))
    drawn = [{t.template for t in curriculum.sample(50, rng)} for _ in range(4)]
    assert drawn[:3] == [{"easy"}] * 3 and drawn[3] == {"hard", "easy"}


@pytest.mark.slow
def test_it_runs_and_learns_something(minimal, monkeypatch, tmp_path, capsys):
    """On tasks that the shipped checkpoint solves sometimes, as most of this phone's it does not."""
    known = [t for t in minimal.train_tasks(8) if t.template in ("NotesPin", "CalendarDelete", "ContactsDelete")]
    for name, value in (("GROUP", 4), ("TASKS", 3), ("PHONES", 4), ("EPOCHS", 1), ("train_tasks", lambda _: known)):
        monkeypatch.setattr(minimal, name, value)
    rates = asyncio.run(minimal.main(2, tmp_path))
    assert len(rates) == 2 and "success" in capsys.readouterr().out
    before, after = load_file(minimal.START / "model.safetensors"), load_file(tmp_path / "model.safetensors")
    assert any(not torch.equal(before[name], after[name]) for name in before), "no group was informative"
