"""`mobilerl run`: which commands it runs, with which recipes. They themselves do not run here; tests/e2e has that."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mobilerl.cli import main, make_parser, pipeline
from mobilerl.cli.run import pipeline_of
from mobilerl.config import ConfigError, load_recipe
from mobilerl.config.in_use import differing
from mobilerl.config.packaged import RECIPES, recipe_names


@pytest.fixture
def calls(monkeypatch, tmp_path) -> list[list[str]]:
    """The commands that run, in a folder in which SFT leaves a checkpoint."""
    made: list[list[str]] = []

    def call(*words: str, print_out: Path | None = None) -> None:
        made.append(list(words))
        if words[0] == "sft":
            (Path(words[words.index("--run-dir") + 1]) / "final").mkdir(parents=True)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pipeline, "call", call)
    monkeypatch.setattr(pipeline, "print_table", lambda rows: made.append(["table", *rows]))
    monkeypatch.setattr(pipeline, "page_of", lambda run_dir: run_dir / "page")
    return made


def test_the_main_job_runs_sft_first_and_once(calls):
    assert main(["run", "adagrpo", "--train.seed", "3"]) == 0
    assert [words[0] for words in calls] == "sft eval table eval table train eval eval table eval eval table".split()
    train = calls[5]
    assert train[train.index("--model") + 1] == "runs/sft/final" and train[-2:] == ["--train.seed", "3"]
    assert train[train.index("--run-dir") + 1] == "runs/adagrpo"
    assert calls[-1] == ["table", "SFT", "AdaGRPO"]
    calls.clear()
    main(["run", "reachagent", "--evaluate", "no"])
    main(["run", "generated/adagrpo", "--evaluate", "no"])
    assert [words[0] for words in calls] == ["pages", "train"]
    assert "runs/reachagent" in calls[0] and "runs/generated-adagrpo" in calls[1]


@pytest.mark.parametrize("recipe", ["miniwob/adagrpo", str(RECIPES / "miniwob/adagrpo.toml")])
def test_runs_of_recipes_in_folders_have_folders_of_their_own(calls, recipe):
    """Or the SFT of `sft` would be taken for theirs."""
    main(["run", "sft", "--evaluate", "no"])
    main(["run", recipe, "--evaluate", "no"])
    assert [words[words.index("--run-dir") + 1] for words in calls if words[0] in ("sft", "train")] == [
        *("runs/sft", "runs/miniwob-sft", "runs/miniwob-adagrpo")
    ]


@pytest.mark.parametrize(
    ("words", "evaluations"),
    [
        ((), 4),  # the phone's tasks, and generated ones
        (("--tasks.generated_share", "0"), 2),
        (("--tasks.generated_share", "0", "--evaluate", "pass-k"), 4),
        (("--suite.type", "generated"), 2),
        (("--config", "miniwob/adagrpo"), 2),
        (("--suite.type", "instructions", "--suite.file", "mine.toml", "--rollout.workers", "0"), 0),
    ],
)
def test_suites_that_need_nothing_else_are_evaluated_before_and_after(calls, words, evaluations):
    assert main(["run", "adagrpo", "--model", "m", *words]) == 0
    assert sum(words[0] == "eval" for words in calls) == evaluations


def test_a_recipe_for_a_published_model_needs_one(calls, capsys):
    for more in ([], ["--extras"]):
        assert main(["run", "adagrpo", "--engine", "verl", "--config", "cluster/androidworld-7b", *more]) == 2
        assert "--model is missing: cluster/androidworld-7b is for a published model" in capsys.readouterr().err
    assert not calls


def test_devices_are_looked_for_before_sft(calls, capsys):
    flags = ["--fleet.type", "docker", "--fleet.hosts", '["tcp://127.0.0.1:9"]']
    assert main(["run", "adagrpo", *flags]) == 2 and not calls
    assert "no Docker engine answers at tcp://127.0.0.1:9" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "command"), [("sft", "sft"), ("reachagent", "pages")])
def test_nodes_of_a_slurm_step_take_part_and_leave_the_rest_to_the_first(calls, monkeypatch, tmp_path, name, command):
    scontrol = tmp_path / "bin/scontrol"
    scontrol.parent.mkdir()
    scontrol.write_text("#!/bin/sh\necho node7; echo node9\n")
    scontrol.chmod(0o755)
    step = {"JOB_ID": "5", "STEP_NUM_NODES": "2", "STEP_NODELIST": "node[7,9]", "NODEID": "1"}
    for key, value in step.items():
        monkeypatch.setenv(f"SLURM_{key}", value)
    monkeypatch.setenv("PATH", str(scontrol.parent), prepend=":")
    assert main(["run", name, "--model", "m", "--sft.processes", "8"]) == 0
    (words,) = calls
    nodes = ["--sft.nodes", "2", "--sft.node_rank", "1", "--sft.rendezvous", "node7:29400"]
    assert words[0] == command and words[-8:] == [*nodes, "--sft.processes", "8"]


def test_the_exit_code_is_that_of_the_step_that_failed(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert main(["run", "sft", "--model", str(tmp_path / "nothing")]) == 2


WAITS = """
import runpy, signal, sys, time
from mobilerl.cli import pipeline

def command(*_, **__):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    print("begun", flush=True)
    time.sleep(60)

runpy.run_module = command
try:
    pipeline.call("train")
except pipeline.StepFailed as failure:
    sys.exit(failure.code)
"""


@pytest.mark.parametrize(("number", "step"), [(signal.SIGTERM, {}), (signal.SIGINT, {"SLURM_STEP_ID": "0"})])
def test_a_signal_to_the_command_alone_stops_the_step(number, step):
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "start_new_session": True, "text": True}
    with subprocess.Popen([sys.executable, "-c", WAITS], env={**os.environ, **step}, **pipes) as process:
        assert process.stdout.readline() == "begun\n"
        process.send_signal(number)
        assert process.wait(30) == 143


# --- composition ---------------------------------------------------------------------------------------------------


def test_overlays_apply_in_order(tmp_path):
    (tmp_path / "base.toml").write_text("[train]\nseed = 1\niterations = 7\n[fleet]\ncount = 3\n")
    (tmp_path / "mine.toml").write_text('extends = "base.toml"\n[train]\nseed = 2\n')
    (tmp_path / "over.toml").write_text('[train]\nseed = 3\n[algorithm]\ntype = "gigpo"\n')
    paths = [tmp_path / "mine.toml", tmp_path / "over.toml"]
    recipe = load_recipe(paths, ["--fleet.count", "4"])
    assert (recipe.train.seed, recipe.train.iterations, recipe.fleet.count) == (3, 7, 4)
    assert recipe.algorithm.type == "gigpo" and load_recipe(paths[:1]).train.seed == 2
    assert load_recipe(["gpu/qwen2.5-vl-3b-lora", "adagrpo"]).engine.type == "vllm"


def test_an_overlay_of_another_algorithm_replaces_that_section_whole():
    recipe = load_recipe(["digirl", "gpu/qwen2.5-vl-3b-lora"])
    assert recipe.algorithm == load_recipe("gpu/qwen2.5-vl-3b-lora").algorithm


def test_an_overlay_of_another_algorithm_keeps_the_settings_of_all_algorithms(tmp_path):
    (tmp_path / "over.toml").write_text('[algorithm]\ntype = "gigpo"\nwarmup_steps = 3\n')
    algorithm = load_recipe(["digirl", tmp_path / "over.toml"], ["--algorithm.grad_clip", "2"]).algorithm
    assert (algorithm.type, algorithm.mini_batch_size, algorithm.learning_rate) == ("gigpo", 128, 3e-4)
    assert (algorithm.warmup_steps, algorithm.grad_clip, algorithm.group_size) == (3, 2, 8)


def test_the_defaults_are_those_of_the_recipe_for_one_gpu():
    """A recipe of one's own for a published model needs neither the recipe nor what it extends."""
    of_recipe = load_recipe("gpu/qwen2.5-vl-3b-lora")
    mine = load_recipe(None, ["--engine.type", "vllm"])
    assert set(differing(mine.model_dump(), of_recipe.model_dump())) == {
        *("phone.width", "phone.height", "tasks.per_template"),  # of the embedded phone
        *("algorithm.curriculum.revisit_every", "train.iterations", "train.checkpoint_every"),
    }


FOR_PUBLISHED = [n for n in recipe_names() if n.split("/")[0] in ("gpu", "cluster", "paper") and not n.endswith("-sft")]


@pytest.mark.parametrize("name", FOR_PUBLISHED)
@pytest.mark.parametrize("below", ["adagrpo", "gigpo", "digirl", "filtered_bc", "distrl"])
def test_nothing_of_the_tiny_model_is_left_below_a_recipe_for_a_published_one(name, below):
    assert load_recipe([below, name]) == load_recipe(name)
    args, rest = make_parser().parse_known_args(["run", below, "--config", name])
    if name.startswith("paper/mobilerl"):  # starts from its own SFT
        assert "verl" in pipeline_of(args, rest).extras()
        return
    with pytest.raises(ConfigError, match="--model is missing"):
        pipeline_of(args, rest).extras()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('extends = "nowhere.toml"', "there is no recipe nowhere.toml"),
        ("extends = 3", "extends: name one recipe"),
        ('extends = "a.toml"', "extends: a circle"),
        ('[run]\nsfft = "x"', "run: this is a table with title, sft, evaluation"),
        ("[run]\nsft = 3", "run.sft: this is text"),
        ("[train]\nsead = 1", r"a.toml: train.sead: there is no such setting; did you mean 'seed'"),
    ],
)
def test_mistakes_name_the_file(tmp_path, text, message):
    (tmp_path / "a.toml").write_text(text)
    (tmp_path / "b.toml").write_text("[train]\nseed = 1\n")
    with pytest.raises(ConfigError, match=message):
        load_recipe([tmp_path / "a.toml", tmp_path / "b.toml"])
