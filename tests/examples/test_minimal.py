"""examples/adagrpo_minimal.py says what the real thing says, and runs."""

from __future__ import annotations

import asyncio
import importlib.util
import random
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file

from mobilerl.algorithms.advantages import group_relative
from mobilerl.algorithms.curriculum import FailureCurriculum
from mobilerl.algorithms.replay import AdaptivePositiveReplay
from mobilerl.algorithms.rewards import shortest_path_adjustment
from mobilerl.envs.base import Task
from mobilerl.records import Status, TrainingSample, Trajectory

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


def test_the_curriculum_is_that_of_the_library(minimal):
    rng, names = random.Random(0), [f"T{i}" for i in range(6)]
    theirs = FailureCurriculum(names)
    ours = minimal.Curriculum([group((0.0, 1), template=name)[0].task for name in names])
    for _ in range(30):  # epochs, in which the last templates succeed more often, and some are not played
        drawn = rng.choices(list(theirs.weights()), k=12)
        rewards = {name: rng.choice((0.5, 1.0)) * (rng.random() < names.index(name) / 4) for name in sorted(set(drawn))}
        ours.record([group((rewards[name], 1), template=name) for name in drawn])
        theirs.update({name: [reward] for name, reward in rewards.items()})
        assert {name: ours.weight(name) for name in names if ours.weight(name)} == pytest.approx(theirs.weights())
    assert 0 < len(theirs.removed) < 6


def test_the_replay_holds_what_that_of_the_library_holds(minimal):
    rng, theirs, ours = random.Random(0), AdaptivePositiveReplay(100, minimal.KAPPA, minimal.GAMMA), minimal.Replay(100)
    for iteration in range(6):  # one success in each of 40 groups, of which no two have the same size
        sizes = rng.sample(range(2, 80), 40)
        groups = [[played(f"{iteration}-{size}-{i}", success=i == 0) for i in range(size)] for size in sizes]
        advantage = [[float(t.success) - 1 / len(group) for t in group] for group in groups]
        rarity = [1 - 1 / len(group) for group in groups for _ in group]
        theirs.insert([t for group in groups for t in group], sum(advantage, []), iteration, rarity)
        ours.insert(groups, advantage)
        kept = [entry["trajectory"].id for entry in theirs.state_dict()["entries"]]
        assert [samples[0].trajectory_id for _, samples in ours.entries] == kept
    assert len(kept) == 100
    first = Counter(ours.draw(3, rng)[0].trajectory_id for _ in range(3000))
    assert first[kept[0]] > 10 * first[kept[-1]] and len(ours.draw(9, rng)) == 3


def played(name: str, success: bool) -> SimpleNamespace:
    """What the replays read of a trajectory, which gives one sample."""
    sample = TrainingSample(name, 0, (1,), (2,), (0.0,), (), 0)
    return SimpleNamespace(id=name, success=success, steps=(1,), samples_to_learn=lambda *_, **__: [sample])


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
