"""A run directory: who may write into it, and the agent settings of its checkpoint, its recipe and flags."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mobilerl.config import AgentSection, ConfigError, Recipe, load_recipe
from mobilerl.config.reading import lock_run_dir, read_saved
from mobilerl.models.checkpoint_folder import save_agent
from mobilerl.models.hub import find_model, with_local_model
from mobilerl.training.run_dir import check_run_dir, with_checkpoints_agent
from mobilerl.training.run_log import RunLog
from mobilerl.training.start_model import as_started, with_start_model


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    for name in ("config.json", "model.safetensors"):
        (folder / name).write_text("{}")
    save_agent(AgentSection(history_thoughts=True, max_new_tokens=7, deadline_s=11.0), folder)
    return folder


def open_run(recipe: Recipe, run: Path, resume: bool) -> Recipe:
    recipe = with_checkpoints_agent(recipe)
    check_run_dir(recipe, run, resume)
    return recipe


def test_the_checkpoints_agent_is_used_with_the_recipes_deadline(tmp_path, model):
    recipe = Recipe(model=str(model), agent=AgentSection(deadline_s=3600.0))
    run = tmp_path / "run"
    opened = open_run(recipe, run, resume=False).agent
    assert not run.exists(), "it is claimed when there is something to save"
    with RunLog(open_run(recipe, run, resume=False), run) as log:
        log.hold({"iteration": 0})
        assert not (run / "config.json").exists() and log.has_begun
        log.metrics({"iteration": 1})
        assert (run / "metrics.jsonl").read_text().count("iteration") == 2
    assert (opened.history_thoughts, opened.max_new_tokens, opened.deadline_s) == (True, 7, 3600.0)
    assert open_run(recipe, run, resume=True).agent == opened
    with pytest.raises(ConfigError, match="--resume"):
        open_run(recipe, run, resume=False)
    with pytest.raises(ConfigError, match="no run to resume"):
        open_run(recipe, tmp_path / "other", resume=True)


def test_a_flag_that_the_checkpoint_would_override_is_refused(model):
    def check(*flags: str) -> None:
        with_checkpoints_agent(load_recipe(None, ["--model", str(model), *flags]), flags)

    check("--agent.max_new_tokens", "7", "--agent.deadline_s=60", "--train.iterations", "2")
    with pytest.raises(ConfigError, match=r"--agent.max_new_tokens 8: .*trained with 7"):
        check("--agent.max_new_tokens", "8")


HOLDS = """
import sys, time
from pathlib import Path
from mobilerl.config.reading import lock_run_dir
with lock_run_dir(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def test_one_process_at_a_time_and_a_kill_releases_the_directory(tmp_path):
    other = subprocess.Popen([sys.executable, "-c", HOLDS, tmp_path / "run"], stdout=subprocess.PIPE, text=True)
    assert other.stdout.readline() == "held\n"
    with pytest.raises(ConfigError, match=f"is in use by process {other.pid} on"), lock_run_dir(tmp_path / "run"):
        pass
    other.kill()
    other.communicate()
    with lock_run_dir(tmp_path / "run"):
        (tmp_path / "run" / "kept").touch()
    with lock_run_dir(tmp_path / "new"):
        pass
    assert (tmp_path / "run" / "kept").exists() and not (tmp_path / "new").exists()


@pytest.mark.parametrize("left", ["metrics.jsonl", "checkpoints"])
def test_files_of_a_run_without_its_recipe_are_not_mixed_with_another(tmp_path, model, left):
    (tmp_path / "run" / left).mkdir(parents=True)
    with pytest.raises(ConfigError, match=f"has {left} of a run, but no config.json"):
        open_run(Recipe(model=str(model)), tmp_path / "run", resume=False)


def test_a_directory_that_is_deleted_during_the_run_can_still_be_resumed(tmp_path, model, caplog):
    run, recipe = tmp_path / "run", Recipe(model=str(model))
    opened = open_run(recipe, run, resume=False)
    with RunLog(opened, run) as log:
        log.metrics({"iteration": 1})
        shutil.rmtree(run)
        log.metrics({"iteration": 2})
    assert "was deleted during the run" in caplog.text
    assert read_saved(run / "config.json") == opened and '"iteration":2' in (run / "metrics.jsonl").read_text()


# --- the start model of a resumed run ------------------------------------------------------------------------------


@pytest.fixture
def run(tmp_path, model) -> Path:
    """A run with a checkpoint of its own."""
    run = tmp_path / "run"
    begin(Recipe(model=str(model)), run)
    add_checkpoint(model, run, 4)
    return run


def begin(recipe: Recipe, run: Path, resume: bool = False) -> Recipe:
    """Opens a run and writes its recipe, as the first row of metrics does."""
    recipe = open_run(recipe, run, resume)
    with RunLog(as_started(recipe, run), run) as log:
        log.keep_directory()
    return recipe


def add_checkpoint(model: Path, run: Path, iteration: int) -> Path:
    own = shutil.copytree(model, run / "checkpoints" / f"iter-{iteration:06d}")
    (own / "state.json").write_text("{}")
    return own


def resumed(run: Path, model: Path | str, **settings: object) -> tuple[str, str]:
    """The model that a resumed run uses, and the one in its config.json."""
    recipe = with_start_model(Recipe(model=str(model), **settings), run, resume=True)
    used = begin(recipe, run, resume=True).model
    return used, read_saved(run / "config.json").model


def test_a_start_model_that_moved_is_replaced_by_the_runs_own_checkpoint(tmp_path, model, run):
    assert resumed(run, model) == resumed(run, "") == (str(model), str(model))
    moved = model.rename(tmp_path / "moved")
    own = run / "checkpoints" / "iter-000004"
    for given in (model, moved, ""):
        assert resumed(run, given) == (str(own), str(model))
    with pytest.raises(ConfigError, match=f"no checkpoint folder {tmp_path / 'typo'}"):
        resumed(run, tmp_path / "typo")
    own = add_checkpoint(moved, run, 6)
    assert resumed(run, "") == (str(own), str(model))


@pytest.mark.parametrize(
    "algorithm", [{"type": "gigpo", "loss": {"kl_coef": 0.1}}, {"type": "digirl"}], ids=["a reference", "features"]
)
def test_a_run_that_goes_on_using_its_start_model_asks_where_it_is(tmp_path, model, algorithm, monkeypatch):
    run, recipe = tmp_path / "run", Recipe(model=str(model), algorithm=algorithm)
    begin(recipe, run)
    add_checkpoint(model, run, 4)
    other = shutil.copytree(model, tmp_path / "other")
    monkeypatch.chdir(tmp_path)
    for same in ("", "model", f"{model}/"):
        assert resumed(run, same, algorithm=algorithm) == (str(model), str(model))
    with pytest.raises(ConfigError, match=f"started from {model}, and algorithm.type"):
        resumed(run, other, algorithm=algorithm)
    model.rename(tmp_path / "moved")
    with pytest.raises(
        ConfigError,
        match=rf"{model}, the start model of {run}, is gone, and algorithm.*: give its new place with --model",
    ):
        resumed(run, "", algorithm=algorithm)
    moved = str(tmp_path / "moved")
    assert resumed(run, moved, algorithm=algorithm) == (moved, moved)
    assert resumed(run, "", algorithm=algorithm) == (moved, moved)


def test_an_adapter_without_its_base_model_asks_where_it_is(tmp_path, model, run):
    own = run / "checkpoints" / "iter-000004"
    (own / "config.json").unlink()
    (own / "model.safetensors").rename(own / "adapter_model.safetensors")
    (own / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": str(model)}))
    moved = model.rename(tmp_path / "moved")
    with pytest.raises(ConfigError, match=f"is gone, and it is the base model of the adapter {own}"):
        resumed(run, "")
    assert resumed(run, moved) == (str(moved), str(moved))


def test_a_published_model_keeps_its_format_under_another_name(tmp_path, model):
    start, run = model.rename(tmp_path / "Qwen2.5-VL-3B"), tmp_path / "run"
    (start / "agent.json").unlink()
    assert begin(Recipe(model=str(start)), run).agent.format == "qwen2.5-vl"
    add_checkpoint(start, run, 1)
    moved = start.rename(tmp_path / "scratch")
    assert resumed(run, moved) == (str(run / "checkpoints" / "iter-000001"), str(start))


def test_a_model_of_the_hub_stays_at_the_commit_that_the_run_started_from(tmp_path, model):
    cached = tmp_path / "models--lab--agent" / "snapshots" / "abc"
    cached.parent.mkdir(parents=True)
    model.rename(cached)
    run = tmp_path / "run"
    begin(Recipe(model=str(cached)), run)
    assert resumed(run, "lab/agent") == (str(cached), str(cached)), "nothing is downloaded"
    own = add_checkpoint(cached, run, 1)
    shutil.rmtree(cached)
    assert resumed(run, "") == (str(own), str(cached))


def test_a_run_directory_is_a_model(tmp_path, model, run):
    fresh = tmp_path / "fresh"
    assert with_start_model(Recipe(model=str(run)), fresh, False).model == str(run / "checkpoints" / "iter-000004")
    sft = tmp_path / "sft"
    shutil.copytree(model, sft / "final")
    assert with_start_model(Recipe(model=str(sft)), fresh, False).model == str(sft / "final")
    assert find_model(sft) == sft / "final" and with_local_model(Recipe(model=str(sft))).model == str(sft / "final")
    shutil.rmtree(run / "checkpoints")
    (run / ".lock").touch()
    with pytest.raises(ConfigError, match=f"{run} is the directory of a run that has no checkpoint yet"):
        open_run(with_start_model(Recipe(model=str(run)), fresh, False), fresh, False)
