"""Trajectories of another run, which a run learns from before its first iteration."""

from dataclasses import replace

import pytest
from made_groups import make_trajectory

from mobilerl.config import ConfigError, load_recipe
from mobilerl.envs.androidworld import tasks as androidworld
from mobilerl.envs.base import Task
from mobilerl.envs.phone.tasks import suite
from mobilerl.records import Status
from mobilerl.records.files import save_trajectories
from mobilerl.suites.base import make_suite
from mobilerl.training.dry_run import check
from mobilerl.training.offline import check_offline_trajectories, load_offline_trajectories
from mobilerl.training.run import Run


def check_with(stored, run_dir):
    recipe = load_recipe(None, ["--algorithm.type", "filtered_bc", "--algorithm.offline.trajectories", str(stored)])
    check(Run(recipe, run_dir, False, make_suite(recipe)))


def test_they_come_in_order_without_infrastructure_errors(tmp_path):
    made = [make_trajectory(name, reward, 1, screenshot=b"png") for name, reward in (("a", 1.0), ("b", 0.0))]
    save_trajectories(tmp_path, 2, [made[1], replace(made[0], id="c", status=Status.INFRA_ERROR)])
    save_trajectories(tmp_path, 1, [made[0]])
    assert [t.id for t in load_offline_trajectories(tmp_path)] == ["stored-a", "stored-b"]
    with pytest.raises(ValueError, match="trajectories"):
        load_offline_trajectories(tmp_path / "elsewhere")


def test_a_wrong_path_is_an_error_before_anything_starts(tmp_path):
    wrong, run_dir = tmp_path / "elsewhere", tmp_path / "run"
    with pytest.raises(ConfigError, match=f"offline.trajectories.*{wrong}"):
        check_with(wrong, run_dir)
    checkpoint = run_dir / "checkpoints" / "iter-000001"
    checkpoint.mkdir(parents=True)
    (checkpoint / "state.json").touch()
    check_with(wrong, run_dir)  # the run has learned from them, and they may be gone


@pytest.mark.parametrize(
    ("task", "change", "said"),
    [
        (suite.held_out_tasks(1)[0], {}, "held out"),
        (androidworld.make_task("MarkorCreateNote", 0, "Make a note", 30, 1), {}, "held out"),
        (suite.train_tasks(1)[0], {"token_ids": ()}, "no token ids"),
        (suite.train_tasks(1)[0], {"prompt_ids": (64,)}, "token ids"),
        (Task("sim/Gone/1", "Gone", "do it", {}, 1, 9, "sim"), {}, "unknown template"),
    ],
)
def test_unusable_trajectories_are_named_by_line(task, change, said, tmp_path):
    good = make_trajectory("good", 1.0, 1, suite.train_tasks(1)[0])
    bad = make_trajectory("bad", 1.0, 1, task)
    step = replace(bad.steps[0], completion=replace(bad.steps[0].completion, **change))
    path = save_trajectories(tmp_path, 1, [good, replace(bad, status=Status.INFRA_ERROR), good])
    check_offline_trajectories(tmp_path, 64)
    save_trajectories(tmp_path, 1, [good, replace(bad, steps=(step,))])
    with pytest.raises(ValueError, match=f"^{path}, line 2: .*{said}"):
        check_offline_trajectories(tmp_path, 64)
