"""kill -9 at any moment, then --resume: what follows equals a run that was never stopped, bit for bit."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from small_policies import HEIGHT, WIDTH, demonstrate, warm_up, with_mistakes

from envs.base import Finish
from envs.phone.tasks import suite
from mobilerl.agent.candidates import candidates
from mobilerl.config import AgentSection
from mobilerl.train.checkpoint import latest
from mobilerl.train.tracking import read_metrics

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

ITERATIONS = 6
LIMIT_S = 900.0
"""For anything that must happen at all, however busy the machine is."""
CLOCK = ("time", "cost/", "rollout/trajectories_per_min", "rollout/steps_per_s", "rollout/env_utilization")
"""Prefixes of the metrics that are read off a clock, or count what was spent on work that a kill threw away."""


@pytest.fixture(scope="session")
def policy(tmp_path_factory) -> Path:
    """One that sometimes succeeds, so that groups are informative and replay fills from the first iteration on."""
    tasks = [suite.make_task(name, seed) for name in ("MusicPause", "TodoDue") for seed in range(4)]
    agent = AgentSection(screenshots=1, max_new_tokens=16)
    steps = with_mistakes(
        demonstrate(tasks), 0.3, lambda step, rng: rng.choice([*candidates(step.screen), Finish()]), copies=4
    )
    return warm_up(tmp_path_factory.mktemp("weak"), agent, steps, epochs=25)


def command(policy: Path, run_dir: Path, *more: str, **settings: object) -> list[str]:
    flags = {
        "model": policy, "phone.count": 4, "phone.width": WIDTH, "phone.height": HEIGHT, "phone.popup_rate": 0.5,
        "tasks.per_template": 3, "tasks.templates": '["MusicPause", "TodoDue"]', "collect.tasks_per_iteration": 3,
        "collect.group_size": 4, "engine.learning_rate": 1e-3, "engine.warmup_steps": 3, "engine.threads": 1,
        "algorithm.loss.kl_coef": 0.01, "algorithm.replay.kappa": 4, "algorithm.replay.max_age": 3,
        "algorithm.curriculum.epoch_groups": 2, "algorithm.curriculum.revisit_every": 1,
        "train.iterations": ITERATIONS, "train.mini_batch": 16, "train.checkpoint_every": 2,
        "train.trajectories_every": 1, **{name.replace("__", "."): value for name, value in settings.items()},
    }  # fmt: skip
    words = [word for name, value in flags.items() for word in (f"--{name}", str(value))]
    return [sys.executable, "-m", "mobilerl", "train", "--run-dir", str(run_dir), *words, *more]


def run_to_end(policy: Path, run_dir: Path, *more: str, **settings: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(policy, run_dir, *more, **settings), capture_output=True, text=True, timeout=LIMIT_S)


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


def played(record: dict) -> dict:
    """A trajectory's record without what a clock said, and without which of the free phones played it."""
    return {**record, "device_id": "", "wall_s": 0, "steps": [{**step, "timings": {}} for step in record["steps"]]}


def content(path: Path) -> object:
    """A file's content, as bytes where nothing in it comes from a clock."""
    if path.suffix == ".jsonl":
        return [played(json.loads(line)) for line in path.read_text().splitlines()]
    if path.name == "state.json":
        state = json.loads(path.read_text())
        state["files"].pop("replay.jsonl")  # its size: that of the timings' digits
        return {**state, "elapsed_s": 0}
    return path.read_bytes()


def contents(folder: Path) -> dict[str, object]:
    return {str(p.relative_to(folder)): content(p) for p in sorted(folder.rglob("*")) if p.is_file()}


def assert_equal_runs(run: Path, straight: Path) -> None:
    rows = [[timeless(row) for row in read_metrics(r / "metrics.jsonl")] for r in (run, straight)]
    assert rows[0] == rows[1]
    for part in ("checkpoints", "trajectories"):
        mine, wanted = contents(run / part), contents(straight / part)
        assert mine.keys() == wanted.keys()
        assert [name for name in mine if mine[name] != wanted[name]] == []


@pytest.fixture(scope="session")
def straight(policy, tmp_path_factory) -> Path:
    """The run that was never stopped."""
    run_dir = tmp_path_factory.mktemp("straight") / "run"
    finish(policy, run_dir)
    return run_dir


def test_the_run_is_worth_comparing(straight):
    """Something was learned, replayed, dropped and refilled: else equality would say little."""
    rows = read_metrics(straight / "metrics.jsonl")
    assert [r["iteration"] for r in rows] == list(range(1, ITERATIONS + 1))
    assert sum(r["train/steps"] for r in rows) >= ITERATIONS and max(r["replay/fraction"] for r in rows) > 0
    assert max(r["replay/size"] for r in rows) > 0 and all(r["train/kl"] is not None for r in rows if r["train/steps"])
    assert 0 < rows[0]["rollout/success_rate"] < 1 and rows[0]["train/rollout_prob_diff_max"] < 1e-4
    kept = sorted(p.name for p in (straight / "checkpoints").iterdir())
    assert kept == ["iter-000004", "iter-000006"]
    state = json.loads((straight / "checkpoints" / "iter-000006" / "state.json").read_text())
    assert state["replay"]["entries"] and state["sampler"]["curriculum"]["tasks"]


def test_the_same_recipe_gives_the_same_run(policy, straight, tmp_path):
    finish(policy, tmp_path / "run")
    assert_equal_runs(tmp_path / "run", straight)


def test_a_run_that_is_stopped_and_resumed_is_the_same_run(policy, straight, tmp_path):
    finish(policy, tmp_path / "run", train__iterations=3)  # saved at 2, and at its end: 3
    finish(policy, tmp_path / "run", "--resume")
    assert latest(tmp_path / "run").name == "iter-000006"
    saved = tmp_path / "run" / "checkpoints" / "iter-000006"
    wanted = contents(straight / "checkpoints" / "iter-000006")
    assert [name for name, data in contents(saved).items() if data != wanted[name]] == []
    rows = [[timeless(row) for row in read_metrics(r / "metrics.jsonl")] for r in (tmp_path / "run", straight)]
    assert rows[0] == rows[1]


@pytest.mark.parametrize("seed", range(2))
def test_killed_at_random_moments(policy, straight, tmp_path, seed):
    run_dir, rng = tmp_path / "run", random.Random(seed)
    log = run_dir / "metrics.jsonl"
    rows = read_metrics(straight / "metrics.jsonl")
    pace = rows[-1]["time_s"] / len(rows)
    kills = 0
    for _ in range(2):
        more = ["--resume"] if (run_dir / "config.json").is_file() else []
        # Counted in iterations, so that it comes before the end however busy the machine is.
        wanted = (len(read_metrics(log)) if log.is_file() else 0) + rng.randrange(3)
        wait = rng.uniform(0.0, pace)
        began: list[float] = []

        def moment(wanted=wanted, wait=wait, began=began) -> bool:
            there = (run_dir / "config.json").is_file() and (wanted == 0 or log.is_file())
            if not began and there and (wanted == 0 or log.read_bytes().count(b"\n") >= wanted):
                began.append(time.monotonic())
            return bool(began) and time.monotonic() - began[0] > wait

        kills += kill_when(policy, run_dir, *more, moment=moment)
    assert kills
    finish(policy, run_dir, "--resume")
    assert_equal_runs(run_dir, straight)


def test_killed_while_it_claims_the_run_directory(policy, straight, tmp_path):
    run_dir = tmp_path / "run"
    assert kill_when(policy, run_dir, moment=run_dir.is_dir)
    more = ["--resume"] if (run_dir / "config.json").is_file() else []
    finish(policy, run_dir, *more)
    assert_equal_runs(run_dir, straight)


@pytest.mark.parametrize(
    ("iteration", "after"),
    [(2, "folder"), (4, "model.safetensors"), (4, "trainer.pt"), (6, "replay.jsonl")],
)
def test_killed_during_a_save(policy, straight, tmp_path, iteration, after):
    run_dir = tmp_path / "run"
    temporary = run_dir / "checkpoints" / f".iter-{iteration:06d}.tmp"
    final = run_dir / "checkpoints" / f"iter-{iteration:06d}"
    path = temporary if after == "folder" else temporary / after
    killed = kill_when(policy, run_dir, moment=lambda: path.exists() or final.exists())
    assert killed or iteration == ITERATIONS
    found = latest(run_dir)
    assert (found is not None) or iteration == 2
    finish(policy, run_dir, "--resume")
    assert_equal_runs(run_dir, straight)


# --- with worker processes ---------------------------------------------------------------------------------------


def children_of(process: int) -> list[int]:
    """The workers of a run, the oldest first."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal() and stat_of(int(folder.name))[1:2] == [str(process)]:
            with contextlib.suppress(OSError):
                if b"spawn_main" in (folder / "cmdline").read_bytes():
                    found.append(int(folder.name))
    return sorted(found)


@pytest.fixture(scope="session")
def straight_with_workers(policy, tmp_path_factory) -> Path:
    run_dir = tmp_path_factory.mktemp("workers") / "run"
    finish(policy, run_dir, collect__workers=2)
    return run_dir


def test_a_run_with_workers_that_is_stopped_and_resumed_is_the_same_run(policy, straight_with_workers, tmp_path):
    finish(policy, tmp_path / "run", collect__workers=2, train__iterations=4)
    finish(policy, tmp_path / "run", "--resume", collect__workers=2)
    assert_equal_runs(tmp_path / "run", straight_with_workers)
    learned = [row["train/steps"] for row in read_metrics(tmp_path / "run" / "metrics.jsonl")]
    assert sum(learned) >= ITERATIONS


def test_killed_workers_change_nothing(policy, straight_with_workers, tmp_path):
    """Each of the first two is killed once, while an iteration is being collected."""
    run_dir = tmp_path / "run"
    run = subprocess.Popen(command(policy, run_dir, collect__workers=2), stdout=subprocess.DEVNULL)
    first: list[int] = []
    killed = 0
    limit = time.monotonic() + LIMIT_S
    try:
        while run.poll() is None:
            assert time.monotonic() < limit
            if (run_dir / "metrics.jsonl").is_file():
                first = first or children_of(run.pid)
                if killed < 2 and len(read_metrics(run_dir / "metrics.jsonl")) > killed:
                    os.kill(first[killed], signal.SIGKILL)
                    killed += 1
            time.sleep(0.01)
    finally:
        run.kill()
    assert run.returncode == 0 and killed == 2
    assert_equal_runs(run_dir, straight_with_workers)


def test_workers_do_not_outlive_a_killed_run(policy, tmp_path):
    run_dir = tmp_path / "run"
    long = {"collect__tasks_per_iteration": 64, "collect__group_size": 16}  # still being collected when it is killed
    run = subprocess.Popen(command(policy, run_dir, collect__workers=2, **long), stdout=subprocess.DEVNULL)
    limit = time.monotonic() + LIMIT_S
    try:
        while not all(seconds_used(pid) > 5 for pid in children_of(run.pid) or [0]):
            assert run.poll() is None and time.monotonic() < limit
            time.sleep(0.1)
        workers = children_of(run.pid)
        assert len(workers) == 2
    finally:
        run.kill()
        run.wait()
    until = time.monotonic() + 60
    while any(map(runs, workers)):
        assert time.monotonic() < until, "a worker outlived the run"
        time.sleep(0.05)


def stat_of(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the state on; [] when there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return []


def runs(pid: int) -> bool:
    return stat_of(pid)[:1] not in ([], ["Z"])


def seconds_used(pid: int) -> float:
    fields = stat_of(pid)
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") if fields else 0.0


# --- what a person can mend --------------------------------------------------------------------------------------


def error_of(done: subprocess.CompletedProcess[str]) -> str:
    lines = [line for line in done.stderr.splitlines() if "Loading weights" not in line]
    assert done.returncode == 2 and len(lines) == 1 and lines[0].startswith("mobilerl: error: "), done.stderr
    return lines[0]


@pytest.fixture
def run_dir(straight, tmp_path) -> Path:
    """A copy of the finished run, to be spoiled."""
    shutil.copytree(straight, tmp_path / "run")
    return tmp_path / "run"


def test_a_run_is_not_started_over(policy, run_dir):
    before = contents(run_dir / "checkpoints")
    assert "already holds a run; go on with it by --resume" in error_of(run_to_end(policy, run_dir))
    assert contents(run_dir / "checkpoints") == before


def test_a_run_of_another_recipe_is_not_taken_over(policy, run_dir):
    said = error_of(run_to_end(policy, run_dir, "--resume", train__seed=5, algorithm__replay__gamma=0.5))
    assert "belongs to another recipe (algorithm.replay.gamma, train.seed differ)" in said


def test_a_model_that_is_not_there(policy, tmp_path):
    said = error_of(run_to_end(policy, tmp_path / "run", model=tmp_path / "nix"))
    assert "there is no checkpoint folder" in said and not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["model.safetensors", "replay.jsonl"])
def test_a_corrupt_checkpoint_says_which_and_the_one_before_works(policy, straight, run_dir, name):
    newest = latest(run_dir)
    (newest / name).write_bytes((newest / name).read_bytes()[:-20])
    said = error_of(run_to_end(policy, run_dir, "--resume"))
    assert name in said and f"delete {newest} to resume from the checkpoint before it" in said
    shutil.rmtree(newest)
    finish(policy, run_dir, "--resume")
    assert_equal_runs(run_dir, straight)


@pytest.fixture
def small_disk(tmp_path) -> Path:
    """A file system of its own that a few checkpoints fill."""
    folder = tmp_path / "disk"
    folder.mkdir()
    options = ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or shutil.which("mount") is None or subprocess.run(options, capture_output=True).returncode:
        pytest.skip("mounting a small tmpfs needs root")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.parametrize(
    ("missing", "says"),
    [
        (0.1, "iter-000004 could not be written (No space left on device)"),
        (0.8, "iter-000004 could not be written (No space left on device)"),
        (None, "the disk is full"),  # already for what is written before the checkpoint
    ],
)
def test_a_disk_that_fills_up(policy, straight, small_disk, missing, says):
    """Of the second checkpoint a share has no room; the first one stays, and the run goes on from it."""
    run_dir, rehearsal, ballast = (small_disk / name for name in ("run", "rehearsal", "ballast"))
    finish(policy, run_dir, train__iterations=2)
    shutil.copytree(run_dir, rehearsal)
    used = shutil.disk_usage(small_disk).used
    finish(policy, rehearsal, "--resume", train__iterations=4)
    wanted = shutil.disk_usage(small_disk).used - used
    size = sum(p.stat().st_size for p in latest(rehearsal).rglob("*") if p.is_file())
    shutil.rmtree(rehearsal)
    room = 0 if missing is None else int(wanted - missing * size)
    with open(ballast, "wb") as f:
        os.posix_fallocate(f.fileno(), 0, shutil.disk_usage(small_disk).free - room)

    said = error_of(run_to_end(policy, run_dir, "--resume"))
    assert says in said
    if missing is not None:
        assert "iter-000002 is intact: make room, then go on with --resume" in said
    assert [p.name for p in (run_dir / "checkpoints").iterdir()] == ["iter-000002"]
    ballast.unlink()
    finish(policy, run_dir, "--resume")
    assert_equal_runs(run_dir, straight)
