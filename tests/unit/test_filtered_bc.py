"""Filtered behaviour cloning: successes alone are learned from, out of a buffer of the newest trajectories."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from made_groups import make_group, make_trajectory

from envs.androidworld import tasks as androidworld
from envs.base import Task
from envs.phone.tasks import suite
from mobilerl.algorithms.replay import CircularReplay
from mobilerl.config import AlgorithmSection, ConfigError, CreditSection, LossSection, TrainSection, load_recipe
from mobilerl.engines.base import MicroBatch
from mobilerl.records import Batch, Status
from mobilerl.train.credit import assign_credit, learned_from
from mobilerl.train.dry_run import check
from mobilerl.train.learner import Learner
from mobilerl.train.objectives import make_objective
from mobilerl.train.stored import check_stored, stored_trajectories
from mobilerl.trajectory_files import save_trajectories

RECIPES = Path(__file__).parents[2] / "recipes"
SETTINGS = AlgorithmSection(credit=CreditSection(type="success"), loss=LossSection(type="imitation"))
FROM_REPLAY = ("--train.updates", "5", "--algorithm.credit.type", "success", "--algorithm.replay.type", "circular",
               "--algorithm.replay.gamma", "1")  # fmt: skip


class Recorder:
    version = 0

    def __init__(self) -> None:
        self.batches: list[Batch] = []

    def update(self, batch, objective, agg):
        self.batches.append(batch)
        return {"loss": 1.0}


def test_learning_draws_successes_from_the_buffer_alone():
    credited = assign_credit([make_group("g", [1.0, 0.0, 1.0], [3, 4, 2])], SETTINGS.credit)
    assert [(c.advantage, c.informative) for c in credited] == [(1.0, True), (0.0, False), (1.0, True)]
    replay = CircularReplay(10)
    replay.insert([c.trajectory for c in credited], [c.advantage for c in credited], 1)
    engine = Recorder()
    learner = Learner(engine, SETTINGS, TrainSection(mini_batch=4, updates=6))
    metrics = learner.learn([c for c in credited if c.informative], replay, random.Random(0))
    assert len(engine.batches) == 6 and metrics["train/steps"] == 6 and metrics["train/rows"] == 24
    assert metrics["replay/fraction"] == 1.0
    drawn = {(r.trajectory_id, r.step) for b in engine.batches for r in b.rows}
    assert drawn == {("g-0", i) for i in range(3)} | {("g-2", i) for i in range(2)}, "a failure was imitated"


@pytest.mark.parametrize("dropped", [False, True])
def test_fresh_failures_are_in_no_batch(dropped):
    """With weight 0 they have no gradient, and yet count: the fewer the successes, the less of each was learned."""
    credit = CreditSection(type="success", drop_constant_groups=dropped)
    credited = assign_credit([make_group("g", [0.0, 1.0, 0.0, 0.0], [3, 4, 2, 3])], credit)
    engine = Recorder()
    algorithm = AlgorithmSection(credit=credit, loss=LossSection(type="imitation"))
    Learner(engine, algorithm, TrainSection(mini_batch=4)).learn(learned_from(credited, credit), None, random.Random(0))
    assert [(r.trajectory_id, r.step) for b in engine.batches for r in b.rows] == [("g-1", i) for i in range(4)]


def test_a_buffer_without_a_success_gives_no_steps():
    replay = CircularReplay(10)
    replay.insert([make_trajectory("x", 0.0, 3)], [0.0], 1)
    engine = Recorder()
    metrics = Learner(engine, SETTINGS, TrainSection(updates=5)).learn([], replay, random.Random(0))
    assert engine.batches == [] and metrics == {"train/rows": 0.0, "train/steps": 0.0, "replay/fraction": 0.0}


def test_the_objective_is_the_likelihood_of_the_rows():
    logp = torch.tensor([[-1.0, -2.0], [-3.0, 0.0]], requires_grad=True)
    mask = torch.tensor([[1.0, 1.0], [1.0, 0.0]])
    weights = torch.tensor([[0.25, 0.25], [0.5, 0.0]])  # row-mean of two rows
    nothing = torch.zeros(2, 2)
    micro = MicroBatch(logp, nothing, nothing, None, torch.ones(2), torch.ones(2, dtype=torch.bool), mask, weights)
    loss, _ = make_objective(SETTINGS.loss)(micro)
    assert loss.item() == pytest.approx(0.25 * 1 + 0.25 * 2 + 0.5 * 3)


def test_stored_trajectories_come_in_order_without_those_a_device_spoiled(tmp_path):
    task = Task("s/a", "T", "do a", {}, 0, 9, "s")
    made = [make_trajectory(name, reward, 1, task, screenshot=b"png") for name, reward in (("a", 1.0), ("b", 0.0))]
    spoiled = make_trajectory("c", 0.0, 1, task, screenshot=b"png")
    object.__setattr__(spoiled, "status", Status.INFRA_ERROR)
    save_trajectories(tmp_path, 2, [made[1], spoiled])
    save_trajectories(tmp_path, 1, [made[0]])
    assert [t.id for t in stored_trajectories(tmp_path)] == ["stored-a", "stored-b"]
    with pytest.raises(ValueError, match="holds no trajectories"):
        stored_trajectories(tmp_path / "elsewhere")


def test_a_wrong_path_to_stored_trajectories_is_told_before_anything_starts(tmp_path):
    wrong, run_dir = tmp_path / "elsewhere", tmp_path / "run"
    recipe = load_recipe(None, ["--offline.trajectories", str(wrong), *FROM_REPLAY])
    with pytest.raises(ConfigError, match=f"^offline.trajectories: {wrong} holds no .*: name the directory of a run"):
        check(recipe, run_dir)
    checkpoint = run_dir / "checkpoints" / "iter-000001"
    checkpoint.mkdir(parents=True)
    (checkpoint / "state.json").touch()
    check(recipe, run_dir)  # the run has learned from them, and they may be gone
    (tmp_path / "elsewhere").mkdir()
    save_trajectories(wrong, 1, [])
    check(recipe, tmp_path / "another")


@pytest.mark.parametrize(
    ("task", "change", "said"),
    [
        (suite.test_tasks(1)[0], {}, "is held out for testing: name a run that was trained, not an evaluation"),
        (suite.make_task("MapsNoteDistance", 3), {}, "MapsNoteDistance/3 is held out for testing"),
        (androidworld.make_task("MarkorCreateNote", 0, "Make a note", 30, 1), {}, "MarkorCreateNote/30/0 is held out"),
        (suite.train_tasks(1)[0], {"token_ids": ()}, "step 0 has no tokens to learn from: it was played by a script"),
        (suite.train_tasks(1)[0], {"token_ids": (3, 64)}, "step 0 has tokens that the model of 64 does not have"),
        (suite.train_tasks(1)[0], {"prompt_ids": (64,)}, "step 0 has tokens that the model of 64 does not have"),
        (Task("sim/Gone/1", "Gone", "do it", {}, 1, 9, "sim"), {}, "sim/Gone/1 is of an unknown template"),
    ],
)
def test_stored_trajectories_that_must_not_be_learned_from_are_told_by_line(task, change, said, tmp_path):
    good = make_trajectory("good", 1.0, 1, suite.train_tasks(1)[0])
    bad = make_trajectory("bad", 1.0, 1, task)
    step = replace(bad.steps[0], completion=replace(bad.steps[0].completion, **change))
    path = save_trajectories(tmp_path, 1, [good, replace(bad, status=Status.INFRA_ERROR), good])
    check_stored(tmp_path, 64)
    save_trajectories(tmp_path, 1, [good, replace(bad, steps=(step,))])
    with pytest.raises(ValueError, match=f"^{path}, line 2: .*{said}"):
        check_stored(tmp_path, 64)


def test_held_out_episodes_are_refused_before_a_run_begins(tmp_path):
    save_trajectories(tmp_path, 0, [make_trajectory("a", 1.0, 1, suite.test_tasks(1)[0])])
    recipe = load_recipe(None, ["--offline.trajectories", str(tmp_path), *FROM_REPLAY])
    with pytest.raises(ConfigError, match=r"^offline.trajectories: .*iter-000000.jsonl, line 1: .* is held out"):
        check(recipe, tmp_path / "run")


@pytest.mark.parametrize(
    ("flags", "cure"),
    [
        (["--train.updates", "5"], "its gamma = 1"),
        (["--algorithm.replay.gamma", "1"], "set train.updates as well"),
        (["--offline.trajectories", "runs/x"], "set train.updates"),
        (["--algorithm.loss.type", "imitation"], 'set algorithm.credit.type to "success" or "values"'),
        (
            ["--config", "digirl", "--train.updates", "0", "--algorithm.replay.gamma", "0.5"],
            "judges what the replay holds, and train.updates draws from it: set it",
        ),
    ],
)
def test_settings_that_cannot_go_together_are_refused(flags, cure):
    config = RECIPES / f"{flags[1]}.toml" if flags[0] == "--config" else None
    with pytest.raises(ConfigError, match=cure):
        load_recipe(config, flags[2:] if config else flags)
