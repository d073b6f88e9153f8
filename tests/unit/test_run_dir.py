"""A run directory: who may write into it, and the agent settings of its checkpoint, its recipe and flags."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mobilerl.config import AgentSection, ConfigError, Recipe, load_recipe
from mobilerl.config.reading import held, read_saved
from mobilerl.models.checkpoint_folder import save_agent
from mobilerl.train.run_dir import check_agent_flags, open_run
from mobilerl.train.run_log import RunLog


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    for name in ("config.json", "model.safetensors"):
        (folder / name).write_text("{}")
    save_agent(AgentSection(history_thoughts=True, max_new_tokens=7, deadline_s=11.0), folder)
    return folder


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
        check_agent_flags(load_recipe(None, ["--model", str(model), *flags]), flags)

    check("--agent.max_new_tokens", "7", "--agent.deadline_s=60", "--train.iterations", "2")
    with pytest.raises(ConfigError, match=r"--agent.max_new_tokens 8: .*trained with 7"):
        check("--agent.max_new_tokens", "8")


HOLDS = """
import sys, time
from pathlib import Path
from mobilerl.config.reading import held
with held(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def test_one_process_at_a_time_and_a_kill_releases_the_directory(tmp_path):
    other = subprocess.Popen([sys.executable, "-c", HOLDS, tmp_path / "run"], stdout=subprocess.PIPE, text=True)
    assert other.stdout.readline() == "held\n"
    with pytest.raises(ConfigError, match=f"is in use by process {other.pid} on"), held(tmp_path / "run"):
        pass
    other.kill()
    other.communicate()
    with held(tmp_path / "run"):
        (tmp_path / "run" / "kept").touch()
    with held(tmp_path / "new"):
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
