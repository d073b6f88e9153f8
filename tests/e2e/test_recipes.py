"""recipes/sft.sh and recipes/adagrpo.sh from nothing to the report, at the smallest size that does it all."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from installed import pretend_installed
from small_policies import HEIGHT, WIDTH
from transformers import AutoModelForImageTextToText, AutoTokenizer

from mobilerl.config import read_saved
from mobilerl.training.checkpoint import latest
from mobilerl.training.tracking import read_metrics

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
SCREEN = f"--phone.width {WIDTH} --phone.height {HEIGHT} --fleet.count 8".split()
SFT = """--sft.reading_samples 64 --sft.goal_samples 64 --sft.processes 0
    --sft.demos_per_template 1 --sft.stage1_epochs 0.1
    --sft.stage2_rounds 2 --sft.stage2_epochs 0.1 --sft.batch_size 8 --agent.max_new_tokens 12"""
TRAIN = """--tasks.per_template 1 --rollout.tasks_per_iteration 4 --algorithm.group_size 2 --train.iterations 2
    --algorithm.mini_batch_size 64 --train.trajectories_every 1 --eval.every 0 --tracking.tensorboard true"""
EVAL = """--instances 2 --template MusicPause --template NotesRename"""
SFT, TRAIN, EVAL = ([*SCREEN, *words.split()] for words in (SFT, TRAIN, EVAL))
METRICS = """iteration time_s rollout/success_rate rollout/trajectories_per_min rollout/env_utilization
    rollout/episode_len rollout/invalid_rate rollout/infra_errors train/loss train/kl train/grad_norm train/clip_frac
    train/rollout_prob_diff_max replay/size replay/fraction curriculum/active curriculum/cooling curriculum/removed
    staleness/mean staleness/max time/rollout_s time/update_s time/publish_s""".split()


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """With the environment of these tests, in which everything is installed."""
    folder = tmp_path_factory.mktemp("recipes")
    pretend_installed(folder / "venv")
    return folder


def recipe(folder: Path, name: str, *flags: str, run: str = "run", evaluate: str = "no") -> str:
    env = {
        **os.environ,
        "VENV": str(folder / "venv"),
        "SFT_DIR": str(folder / "sft"),
        "RUN_DIR": str(folder / run),
        "EVAL_FLAGS": " ".join(EVAL),
        "EVALUATE": evaluate,
        "PYTHONPATH": str(ROOT),
    }
    command = ["bash", str(ROOT / "recipes" / name), *flags]
    done = subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


@pytest.fixture(scope="module")
def sft_run(folder) -> str:
    return recipe(folder, "sft.sh", *SFT, evaluate="yes")


@pytest.fixture(scope="module")
def trained(folder, sft_run) -> str:
    return recipe(folder, "adagrpo.sh", *TRAIN, evaluate="pass-k")


def check_results(path: Path, trials: int, temperature: float) -> None:
    results = json.loads(path.read_text())
    assert results["suite"] == "sim" and results["protocol"]["temperature"] == temperature
    low, high = results["ci95"]
    assert 0 <= low <= results["success_rate"] <= high <= 1
    assert set(results["per_task"]) == {"MusicPause", "NotesRename"}
    assert all(task["trials"] == trials and task["errors"] == 0 for task in results["per_task"].values())
    assert (path.parent / "print-out.txt").read_text().strip()


def check_checkpoint(path: Path) -> None:
    """Loads as any Hugging Face model does; the agent settings lie beside it."""
    model = AutoModelForImageTextToText.from_pretrained(path)
    assert model.get_input_embeddings().num_embeddings == len(AutoTokenizer.from_pretrained(path))
    assert json.loads((path / "agent.json").read_text())["max_new_tokens"] == 12


def test_sft_leaves_a_checkpoint_and_its_report(folder, sft_run):
    run_dir = folder / "sft"
    saved = read_saved(run_dir / "config.json")
    assert saved.sft.reading_samples == 64
    stages = [row["stage"] for row in read_metrics(run_dir / "metrics.jsonl")]
    assert {"stage1", "stage2-round1", "stage2-round2"} <= set(stages)
    check_checkpoint(run_dir / "final")
    check_results(run_dir / "eval" / "sim" / "results.json", 2, 0.0)
    assert (run_dir / "view" / "index.html").is_file()
    assert f"checkpoint: {run_dir / 'final'}" in sft_run and "SFT" in sft_run


def test_a_run_leaves_its_metrics_checkpoints_and_trajectories(folder, trained):
    run_dir = folder / "run"
    saved = read_saved(run_dir / "config.json")
    assert saved.model == str(folder / "sft" / "final") and saved.agent.max_new_tokens == 12
    rows = read_metrics(run_dir / "metrics.jsonl")
    assert [row["iteration"] for row in rows] == [1, 2]
    assert all(set(METRICS) <= set(row) for row in rows)
    check_checkpoint(run_dir / "checkpoints" / "iter-000002")
    for number in (1, 2):
        lines = (run_dir / "trajectories" / f"iter-{number:06d}.jsonl").read_text().splitlines()
        shown = {s["observation"]["screenshot"] for line in lines for s in json.loads(line)["steps"]}
        assert lines and all((run_dir / "screens" / f"{digest}.png").is_file() for digest in shown)
    assert list((run_dir / "tensorboard").iterdir())


def test_before_and_after_are_measured_in_the_same_way(folder, trained):
    run_dir = folder / "run"
    for name, trials, temperature in (
        ("sim-before", 2, 0.0),
        ("sim-after", 2, 0.0),
        ("sim-before-pass-k", 16, 1.0),
        ("sim-after-pass-k", 16, 1.0),
    ):
        check_results(run_dir / "eval" / name / "results.json", trials, temperature)
    before, after = (
        json.loads((run_dir / "eval" / f"sim-{n}" / "results.json").read_text()) for n in ("before", "after")
    )
    assert [e["task_id"] for e in before["instances"]] == [e["task_id"] for e in after["instances"]]
    assert (run_dir / "view" / "index.html").is_file()
    assert "AdaGRPO" in trained and str(run_dir / "view" / "index.html") in trained


def test_called_again_it_continues(folder, trained):
    metrics = (folder / "run" / "metrics.jsonl").read_bytes()
    results = folder / "run" / "eval" / "sim-before" / "results.json"
    made = results.stat().st_mtime_ns
    more = list(TRAIN)
    more[more.index("--train.iterations") + 1] = "3"
    recipe(folder, "adagrpo.sh", *more, evaluate="yes")
    assert (folder / "run" / "metrics.jsonl").read_bytes().startswith(metrics)
    assert [row["iteration"] for row in read_metrics(folder / "run" / "metrics.jsonl")] == [1, 2, 3]
    assert results.stat().st_mtime_ns == made


def test_sigterm_to_the_script_alone_ends_the_run_with_a_checkpoint(folder, sft_run):
    """As Kubernetes, `docker stop` and systemd send it to the first process of a container or unit."""
    venv = pretend_installed(folder / "venv-own", mobilerl=Path(sys.executable).with_name("mobilerl"))
    env = {**os.environ, "VENV": str(venv), "SFT_DIR": str(folder / "sft"), "RUN_DIR": str(folder / "stopped")}
    flags = [*TRAIN, *HERE, "--train.iterations", "1000"]
    command = ["bash", str(ROOT / "recipes/adagrpo.sh"), *flags]
    child = subprocess.Popen(command, env={**env, "PYTHONPATH": str(ROOT)}, cwd=folder, start_new_session=True)
    try:
        metrics = folder / "stopped" / "metrics.jsonl"
        while not metrics.exists() or not metrics.read_text():
            assert child.poll() is None
            time.sleep(0.1)
        child.terminate()
        assert child.wait(120) == 143
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
    done = [row["iteration"] for row in read_metrics(metrics)][-1]
    assert latest(folder / "stopped").name == f"iter-{done:06d}"


def test_variants_are_compared_on_one_budget(folder, sft_run, monkeypatch):
    where = ["--sft-dir", str(folder / "sft"), "--run-dir", str(folder / "compare"), "--eval-flags", " ".join(EVAL)]
    budget = ["--variants", "adagrpo no-spa", "--seeds", "0", "--steps", "10", "--jobs", "1"]
    monkeypatch.setenv("SKIP_INSTALL", "yes")
    said = recipe(folder, "compare.sh", *where, *budget, *TRAIN, *HERE)
    runs = [folder / "compare" / variant / "seed-0" for variant in ("adagrpo", "no-spa")]
    saved = [read_saved(run / "config.json") for run in runs]
    assert [s.algorithm.spa for s in saved] == [True, False]
    assert {(s.model, s.train.max_env_steps, s.train.max_minutes) for s in saved} == {
        (str(folder / "sft" / "final"), 10, None)
    }
    for run in runs:
        (row,) = read_metrics(run / "metrics.jsonl")
        assert row["rollout/env_steps"] >= 10, "the budget ends a run"
        check_results(run / "eval" / "sim" / "results.json", 2, 0.0)
    page = (folder / "compare" / "comparison.md").read_text()
    assert "Left out" not in page and "| w/o SPA | 1 |" in page and "| w/o SPA | 1 |" in said
    assert (folder / "compare" / "learning-curves.png").is_file()


VALUES = "--algorithm.updates 2 --algorithm.critic.updates 5 --train.checkpoint_every 1".split()
HERE = ["--rollout.workers", "0"]
"""No rollout workers, whose starts take longer than these runs; test_resume.py has some."""


def test_digirl_resumes_bit_for_bit_with_its_critic(folder, trained):
    offline = ["--algorithm.offline.trajectories", str(folder / "run")]
    for iterations in ("1", "2"):
        recipe(folder, "digirl.sh", *TRAIN, *VALUES, *HERE, *offline, "--train.iterations", iterations, run="digirl")
    recipe(folder, "digirl.sh", *TRAIN, *VALUES, *HERE, *offline, run="digirl-at-once")
    runs = [folder / "digirl", folder / "digirl-at-once"]
    resumed, at_once = (
        [
            {k: v for k, v in row.items() if k.startswith(("train/", "critic/", "rollout/success"))}
            for row in read_metrics(run / "metrics.jsonl")
        ]
        for run in runs
    )
    assert resumed == at_once and len(resumed) == 3
    assert all(0 <= row["critic/kept"] <= 1 for row in resumed) and resumed[0]["critic/step_loss"] > 0
    first, second = ((run / "checkpoints/iter-000002/model.safetensors").read_bytes() for run in runs)
    assert first == second


def test_distrl_collects_while_it_learns_and_resumes(folder, sft_run):
    for iterations in ("2", "3"):
        recipe(folder, "distrl.sh", *TRAIN, *VALUES, *HERE, "--train.iterations", iterations, run="distrl")
    rows = list(read_metrics(folder / "distrl" / "metrics.jsonl"))
    assert [row["staleness/max"] for row in rows] == [0, 1, 0], "the first one after a start has the newest weights"
    assert all(0 < row["train/ratio_mean"] <= 1 and row["critic/state_loss"] > 0 for row in rows)
    assert [row["rollout/env_steps"] for row in rows] == sorted(row["rollout/env_steps"] for row in rows)
    assert [row["replay/size"] for row in rows] == [8, 16, 24]
