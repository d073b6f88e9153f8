"""kill -9, Ctrl-C or SIGTERM at any moment, then --resume: the result equals a run never stopped, bit for bit.

Algorithms other than AdaGRPO run twice, as processes with different hash seeds, and must be equal too.
"""

from __future__ import annotations

import json
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import psutil
import pytest
from prepared import program
from small_policies import HEIGHT, WIDTH, weak_policy

from mobilerl.training.checkpoint import latest
from mobilerl.training.tracking import read_metrics

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

MOBILERL = (sys.executable, "-m", "mobilerl")
ITERATIONS = 6
LIMIT_S = 900.0
"""For anything that must happen, on however busy a machine."""
CLOCK = ("time", "cost/", "rollout/trajectories_per_min", "rollout/steps_per_s", "rollout/env_utilization")
"""Prefixes of the metrics that depend on the clock, or count work that a kill threw away."""


@pytest.fixture(scope="session")
def policy(tmp_path_factory) -> Path:
    """Succeeds sometimes: groups are informative and the replay fills from the first iteration on."""
    return weak_policy(tmp_path_factory.mktemp("weak"), ("MusicPause", "TodoDue"))


ADAGRPO = {
    "algorithm.loss.kl_coef": 0.01,
    "algorithm.replay.kappa": 4,
    "algorithm.replay.max_age": 3,
    "algorithm.curriculum.revisit_every": 1,
}


def command(policy: Path, run_dir: Path, *more: str, **settings: object) -> list[str]:
    """Settings of AdaGRPO, unless `more` names another recipe."""
    flags = {
        "model": policy,
        "fleet.count": 4,
        "phone.width": WIDTH,
        "phone.height": HEIGHT,
        "phone.popup_rate": 0.5,
        "tasks.per_template": 3,
        "tasks.templates": '["MusicPause", "TodoDue"]',
        "rollout.tasks_per_iteration": 3,
        "algorithm.learning_rate": 1e-3,
        "algorithm.warmup_steps": 3,
        "engine.threads": 1,
        "algorithm.group_size": 4,
        "algorithm.curriculum.epoch_groups": 2,
        **({} if "--config" in more else ADAGRPO),
        "train.iterations": ITERATIONS,
        "algorithm.mini_batch_size": 16,
        "train.checkpoint_every": 2,
        "train.trajectories_every": 1,
        **{name.replace("__", "."): value for name, value in settings.items()},
    }
    words = [word for name, value in flags.items() for word in (f"--{name}", str(value))]
    config = [] if "--config" in more else ["--config", "base/tiny-model"]
    return [*MOBILERL, "train", *config, "--run-dir", str(run_dir), *words, *more]


def run_to_end(policy: Path, run_dir: Path, *more: str, **settings: object) -> subprocess.CompletedProcess[str]:
    """In a fork of an imported process, unlike what is to be killed."""
    words = [str(program()), *command(policy, run_dir, *more, **settings)[len(MOBILERL) :]]
    return subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S)


def finish(policy: Path, run_dir: Path, *more: str, **settings: object) -> None:
    done = run_to_end(policy, run_dir, *more, **settings)
    assert done.returncode == 0, done.stderr[-2000:]


def kill_when(policy: Path, run_dir: Path, *more: str, moment: Callable[[], bool]) -> bool:
    """Starts a run and kills it at a moment; False when it ended before that."""
    child = subprocess.Popen(command(policy, run_dir, *more), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    limit = time.monotonic() + LIMIT_S
    try:
        while child.poll() is None and not moment():
            assert time.monotonic() < limit, "the moment never came"
            time.sleep(0.0005)
        return child.poll() is None
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()


# --- what must be equal ------------------------------------------------------------------------------------------


def timeless(row: Mapping[str, object]) -> dict[str, object]:
    return {k: v for k, v in row.items() if not k.startswith(CLOCK)}


def comparable(record: dict) -> dict:
    """A trajectory's record without its times and the phone it ran on."""
    return {**record, "device_id": "", "wall_s": 0, "steps": [{**step, "timings": {}} for step in record["steps"]]}


def content(path: Path) -> object:
    """A file's content, as bytes where nothing in it comes from a clock."""
    if path.suffix == ".jsonl":
        return [comparable(json.loads(line)) for line in path.read_text().splitlines()]
    if path.name == "state.json":
        state = json.loads(path.read_text())
        for part in ("files", "digests"):
            state[part].pop("replay.jsonl", None)  # it holds timings
        del state["digest"]
        return {**state, "elapsed_s": 0}
    return path.read_bytes()


def contents(folder: Path) -> dict[str, object]:
    return {str(p.relative_to(folder)): content(p) for p in sorted(folder.rglob("*")) if p.is_file()}


def assert_equal_runs(run: Path, straight: Path, *parts: str) -> None:
    """`parts`: the folders to compare, checkpoints and trajectories by default."""
    rows = [[timeless(row) for row in read_metrics(r / "metrics.jsonl")] for r in (run, straight)]
    assert rows[0] == rows[1]
    for part in parts or ("checkpoints", "trajectories"):
        mine, wanted = contents(run / part), contents(straight / part)
        assert mine.keys() == wanted.keys()
        assert [name for name in mine if mine[name] != wanted[name]] == []


@pytest.fixture(scope="session")
def straight(policy, tmp_path_factory) -> Path:
    """The run that was never stopped."""
    run_dir = tmp_path_factory.mktemp("straight") / "run"
    finish(policy, run_dir)
    return run_dir


@pytest.fixture(scope="session")
def straight_with_workers(policy, tmp_path_factory) -> Path:
    run_dir = tmp_path_factory.mktemp("straight-with-workers") / "run"
    finish(policy, run_dir, rollout__workers=2)
    return run_dir


def test_the_run_is_worth_comparing(straight):
    """Something was learned, replayed and dropped: otherwise equality would say little."""
    rows = read_metrics(straight / "metrics.jsonl")
    assert [r["iteration"] for r in rows] == list(range(1, ITERATIONS + 1))
    assert sum(r["train/steps"] for r in rows) >= ITERATIONS and max(r["replay/fraction"] for r in rows) > 0
    assert max(r["replay/size"] for r in rows) > 0 and all(r["train/kl"] is not None for r in rows if r["train/steps"])
    assert 0 < rows[0]["rollout/success_rate"] < 1 and rows[0]["train/rollout_prob_diff_max"] < 1e-4
    kept = sorted(p.name for p in (straight / "checkpoints").iterdir())
    assert kept == ["iter-000004", "iter-000006"]
    state = json.loads((straight / "checkpoints" / "iter-000006" / "state.json").read_text())
    assert state["replay"]["entries"] and state["sampler"]["curriculum"]["tasks"]


def test_killed_during_a_save_and_at_a_random_moment(policy, straight, tmp_path):
    run_dir, rng = tmp_path / "run", random.Random(0)
    rows = read_metrics(straight / "metrics.jsonl")
    pace = rows[-1]["time_s"] / len(rows)
    # Counted in iterations, so that it comes before the end however busy the machine is.
    wanted, wait, began = rng.randrange(3), rng.uniform(0.0, pace), []

    def at_random() -> bool:
        if not began and (run_dir / "config.json").is_file() and len(read_metrics(run_dir / "metrics.jsonl")) >= wanted:
            began.append(time.monotonic())
        return bool(began) and time.monotonic() - began[0] > wait

    assert kill_when(policy, run_dir, moment=at_random)
    temporary, final = (run_dir / "checkpoints" / name for name in (".iter-000004.tmp", "iter-000004"))
    saving = lambda: (temporary / "trainer.pt").exists() or final.exists()  # noqa: E731
    assert kill_when(policy, run_dir, "--resume", moment=saving)
    assert latest(run_dir) is not None
    finish(policy, run_dir, "--resume")
    assert_equal_runs(run_dir, straight)


def test_killed_with_an_adapter(policy, tmp_path):
    lora = ("--engine.lora_rank", "4", "--train.iterations", "3")
    finish(policy, tmp_path / "straight", *lora)
    metrics = tmp_path / "run" / "metrics.jsonl"
    assert kill_when(policy, tmp_path / "run", *lora, moment=lambda: metrics.is_file() and metrics.stat().st_size > 0)
    finish(policy, tmp_path / "run", *lora, "--resume")
    assert_equal_runs(tmp_path / "run", tmp_path / "straight")
    assert (tmp_path / "run" / "checkpoints" / "iter-000003" / "adapter_model.safetensors").is_file()


def test_resumed_without_the_start_model(policy, tmp_path):
    settings = {"algorithm__loss__kl_coef": 0.0, "rollout__workers": 2}
    start = shutil.copytree(policy, tmp_path / "start")
    finish(start, tmp_path / "straight", train__iterations=4, **settings)
    finish(start, tmp_path / "run", train__iterations=2, **settings)
    shutil.rmtree(start)
    finish(start, tmp_path / "run", "--resume", train__iterations=4, **settings)
    assert_equal_runs(tmp_path / "run", tmp_path / "straight")
    assert json.loads((tmp_path / "run" / "config.json").read_text())["model"] == str(start)


SFT = """--stage 1 --sft.reading_samples 16 --sft.demos_per_template 1 --sft.stage1_epochs 1.5
    --sft.checkpoint_every 5 --sft.batch_size 8 --agent.max_new_tokens 12 --engine.threads 1"""


def test_sft_that_is_killed_and_started_again_is_the_same(tmp_path):
    def words(name: str) -> list[str]:
        screen = ["--phone.width", str(WIDTH), "--phone.height", str(HEIGHT)]
        return ["sft", "--config", "base/tiny-model", "--run-dir", str(tmp_path / name), *screen, *SFT.split()]

    run = tmp_path / "killed"
    child = subprocess.Popen([*MOBILERL, *words("killed")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until = time.monotonic() + LIMIT_S
    # The first epoch has 49 steps.
    while not list(run.glob(".stage1.job/trainer/checkpoint-5?/complete.json")):
        assert child.poll() is None and time.monotonic() < until
        time.sleep(0.01)
    child.kill()
    child.wait()
    assert (run / "reading").is_dir() and not (run / "stage1").exists(), "only the stage that was cut off is resumed"
    said = [
        subprocess.run([program(), *words(name)], check=True, capture_output=True, text=True, timeout=LIMIT_S).stdout
        for name in ("killed", "straight")
    ]
    assert "stage1: resumed after step 5" in said[0] and "demonstrations" not in said[0]
    assert "resumed" not in said[1]
    weights = [(tmp_path / name / "final" / "model.safetensors").read_bytes() for name in ("killed", "straight")]
    rows = [[timeless(row) for row in read_metrics(tmp_path / n / "metrics.jsonl")] for n in ("killed", "straight")]
    assert weights[0] == weights[1] and rows[0] == rows[1]


# --- with worker processes ---------------------------------------------------------------------------------------


def workers_of(run: subprocess.Popen) -> list[psutil.Process]:
    """The workers of a run, the oldest first."""
    living = [p for p in psutil.Process(run.pid).children() if p.status() != psutil.STATUS_ZOMBIE]
    return sorted((p for p in living if "spawn_main" in " ".join(p.cmdline())), key=lambda p: p.pid)


def test_killed_workers_change_nothing_and_none_outlives_its_run(policy, straight_with_workers, tmp_path):
    """Each of the first two is killed once, while an iteration is being collected."""
    run_dir = tmp_path / "run"
    run = subprocess.Popen(command(policy, run_dir, rollout__workers=2), stdout=subprocess.DEVNULL)
    workers: list[psutil.Process] = []
    killed, limit = 0, time.monotonic() + LIMIT_S
    try:
        while run.poll() is None and len(read_metrics(run_dir / "metrics.jsonl")) < 3:
            assert time.monotonic() < limit
            if killed < 2 and len(read_metrics(run_dir / "metrics.jsonl")) > killed:
                workers = workers or workers_of(run)
                workers[killed].kill()
                killed += 1
            time.sleep(0.01)
        workers = workers_of(run)
    finally:
        run.kill()
        run.wait()
    assert killed == 2 and workers
    _, alive = psutil.wait_procs(workers, 60)
    assert not [p for p in alive if p.status() != psutil.STATUS_ZOMBIE], "a worker outlived the run"
    finish(policy, run_dir, "--resume", rollout__workers=2)
    assert_equal_runs(run_dir, straight_with_workers)


# --- Ctrl-C and SIGTERM -------------------------------------------------------------------------------------------


def signaled(words: list[str], number: int, moment: Callable[[], bool]) -> tuple[int, str]:
    """Starts a run and signals it and its workers at a moment, as a terminal and SLURM do; (exit code, stderr)."""
    child = subprocess.Popen(
        words,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # A test that was started in the background ignores SIGINT, which its children inherit.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    limit = time.monotonic() + LIMIT_S
    try:
        while child.poll() is None and not moment():
            assert time.monotonic() < limit, "the moment never came"
            time.sleep(0.01)
        assert child.poll() is None, "it ended before the moment"
        os.killpg(child.pid, number)
        _, said = child.communicate(timeout=LIMIT_S)
        return child.returncode, said
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.communicate()


def rows(run: Path) -> int:
    return len(read_metrics(run / "metrics.jsonl"))


@pytest.mark.parametrize(
    ("number", "code", "wait_s", "workers"), [(signal.SIGTERM, 143, 0.4, 0), (signal.SIGINT, 130, 0.2, 2)]
)
def test_a_run_resumed_after_a_signal_equals_one_never_stopped(
    policy, tmp_path, request, number, code, wait_s, workers
):
    """It saves and says how to go on, though no checkpoint was due."""
    run = tmp_path / "run"
    never_stopped = request.getfixturevalue("straight_with_workers" if workers else "straight")
    wanted = {"train__checkpoint_every": 100, "rollout__workers": workers}
    reached: list[float] = []

    def moment() -> bool:
        if rows(run) >= 2 and not reached:
            reached.append(time.monotonic())
        return bool(reached) and time.monotonic() - reached[0] >= wait_s

    got, said = signaled(command(policy, run, **wanted), number, moment)
    assert got == code, said
    done = rows(run)
    assert latest(run).name == f"iter-{done:06d}"
    *_, stopped, on = said.strip().splitlines()
    assert str(latest(run)) in stopped and "Traceback" not in said
    words = shlex.split(on)
    assert words[0] == "mobilerl" and words[-1] == "--resume"
    subprocess.run([program(), *words[1:]], check=True, capture_output=True, timeout=LIMIT_S)
    assert_equal_runs(run, never_stopped, f"checkpoints/iter-{ITERATIONS:06d}", "trajectories")


# --- the other algorithms -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ["gigpo", "distrl"])
def test_two_runs_of_a_recipe_are_equal(policy, tmp_path, pytestconfig, algorithm):
    """One as a process with a hash seed of its own, one in a fork."""
    config: Path = pytestconfig.rootpath / "recipes" / f"{algorithm}.toml"
    settings = {"train__iterations": 3, "rollout__workers": 0, "rollout__max_staleness": 0}
    if algorithm != "gigpo":
        settings["algorithm__updates"] = 3
    alone = command(policy, tmp_path / "1", "--config", str(config), **settings)
    environment = {**os.environ, "PYTHONHASHSEED": "1"}
    subprocess.run(alone, check=True, capture_output=True, timeout=LIMIT_S, env=environment)
    finish(policy, tmp_path / "2", "--config", str(config), **settings)
    assert_equal_runs(tmp_path / "1", tmp_path / "2")
    rows = read_metrics(tmp_path / "1" / "metrics.jsonl")
    assert sum(row.get("train/steps") or 0 for row in rows) >= 3, "nothing was learned: equality would say little"


# --- errors that the user can fix --------------------------------------------------------------------------------


def error_of(done: subprocess.CompletedProcess[str]) -> str:
    lines = [line for line in done.stderr.splitlines() if "Loading weights" not in line]
    assert done.returncode == 2 and len(lines) == 1 and lines[0].startswith("mobilerl: error: "), done.stderr
    return lines[0]


def test_a_run_is_neither_started_over_nor_resumed_with_another_recipe(policy, straight, tmp_path):
    before = contents(straight / "checkpoints")
    assert "--resume" in error_of(run_to_end(policy, straight))
    said = error_of(run_to_end(policy, straight, "--resume", train__seed=5, algorithm__replay__fraction=0.5))
    assert "algorithm.replay.fraction is 0.5, and 0.25 there; train.seed is 5, and 0 there" in said
    assert contents(straight / "checkpoints") == before
    said = error_of(run_to_end(policy, tmp_path / "new", model=tmp_path / "missing"))
    assert "checkpoint folder" in said and not (tmp_path / "new").exists()
