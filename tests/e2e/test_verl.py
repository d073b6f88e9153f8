"""recipes/adagrpo.sh --engine verl on two Ray nodes: real Ray, verl and vLLM, on CPUs that pass for GPUs.

tests/verl_cpu/ makes that possible; it is no way to train.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from installed import pretend_installed
from prepared import release
from safetensors.torch import load_file
from small_policies import HEIGHT, WIDTH, weak_policy
from test_recipes import METRICS

from mobilerl.records.files import load_trajectories
from mobilerl.training.checkpoint import latest
from mobilerl.training.tracking import read_metrics

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.usefixtures("one_cluster"),
    pytest.mark.skipif(
        not all(map(importlib.util.find_spec, ("verl", "vllm", "ray"))),
        reason="verl, vLLM and Ray are not installed: bash tests/install_verl_cpu.sh .venv",
    ),
]

ROOT = Path(__file__).parents[2]
PLATFORM = ROOT / "tests" / "verl_cpu"
KNOWN, UNKNOWN = ("MusicPause", "TodoDue"), "MusicFillPlaylist"
"""Templates that the policy has seen, and one at which it fails, so that the curriculum has something to cool down."""
FLAGS = [
    "--tasks.templates",
    json.dumps([*KNOWN, UNKNOWN]),
    *f"""--fleet.count 6 --phone.width {WIDTH} --phone.height {HEIGHT} --tasks.per_template 3
    --rollout.tasks_per_iteration 3 --algorithm.group_size 4 --algorithm.learning_rate 1e-3 --algorithm.warmup_steps 3
    --algorithm.replay.kappa 4 --algorithm.curriculum.epoch_groups 2 --algorithm.curriculum.patience 1
    --train.iterations 4 --algorithm.mini_batch_size 16 --train.checkpoint_every 2 --train.trajectories_every 1
    --eval.every 0""".split(),
]
ROUNDING = 4e-6
"""Largest gap of probabilities that float32 explains: of a policy as sharp as this one, one evaluation is up to 8e-7
away from the same weights in float64. An untrained one stays below 1e-6 (test_verl_engine.py); old weights
or another image give 1e-3 and more."""
START_S, RUN_S = 600, 1800
"""Time limits of the cluster's start and of one call of the recipe."""


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A short name: Ray's sockets lie in it, and their paths may not be long."""
    path = Path(tempfile.mkdtemp(prefix="rl-", dir="/tmp"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="module")
def environment(folder) -> Iterator[dict[str, str]]:
    """In which every process finds the CPU platform, and the recipe an environment with everything installed."""
    sys.path.insert(0, str(PLATFORM))
    from mobilerl_verl_cpu.launch import environment, forked

    own = {"PYTHONPATH": f"{PLATFORM}:{ROOT}", "EVAL_FLAGS": "--instances 2 --template MusicPause"}
    made = forked({**os.environ, **environment(folder), **own})
    python = Path(made["MOBILERL_VERL_CPU_PYTHON"])
    extras = ("local,tracking", "local,tracking,verl")
    yield {**made, "VENV": str(pretend_installed(folder / "venv", extras, python.with_name("mobilerl")))}
    release(python)


@pytest.fixture(scope="module")
def cluster(environment) -> Iterator[dict[str, str]]:
    """Two nodes with one "GPU" each."""
    command = [sys.executable, "-m", "mobilerl_verl_cpu.nodes", "2", "1"]
    with started(command, environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as nodes:
        assert select.select([nodes.stdout], [], [], START_S)[0], "Ray does not start"
        yield {**environment, "RAY_ADDRESS": nodes.stdout.readline().strip()}
        nodes.stdin.close()
        nodes.wait(START_S)


@pytest.fixture(scope="module")
def policy(folder) -> Path:
    """Sometimes succeeds, so that groups are informative and the replay fills; where the recipe looks for it."""
    made = weak_policy(folder / "weak", KNOWN, hidden=64)  # vLLM knows no heads of 16 on CPUs
    return shutil.copytree(made, folder / "sft" / "final")


@contextlib.contextmanager
def started(command: list[str], env: dict[str, str], **streams) -> Iterator[subprocess.Popen]:
    """A process whose whole group is gone afterwards."""
    child = subprocess.Popen(command, env=env, start_new_session=True, **streams)
    try:
        yield child
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def recipe(env: dict[str, str], folder: Path, run: str, *flags: str) -> list[str]:
    env |= {"SFT_DIR": str(folder / "sft"), "RUN_DIR": str(folder / run)}
    return ["bash", str(ROOT / "recipes" / "adagrpo.sh"), *FLAGS, *flags]


def verl_flags() -> list[str]:
    """HSDP: every node has all weights."""
    from mobilerl_verl_cpu.flags import engine_flags

    own = engine_flags("actor_rollout_ref.actor.fsdp_config.fsdp_size=1")
    return ["--engine", "verl", *own[2:], "--cluster.nodes", "2", "--cluster.gpus_per_node", "1"]


def run_to_end(command: list[str], env: dict[str, str], log: Path) -> None:
    with open(log, "a") as out, started(command, env, stdout=out, stderr=out) as child:
        assert child.wait(RUN_S) == 0, log.read_text()[-3000:]


def test_two_nodes_learn(folder, cluster, policy):
    """Resuming is tested in test_verl_engine.py, bit for bit."""
    env, run = dict(cluster), folder / "run"
    # Groups of four, and others in the place of those without an advantage: every iteration has fresh samples.
    groups = (
        "--algorithm.group_size",
        "4",
        "--algorithm.dynamic_sampling",
        "true",
        "--algorithm.mini_batch_size",
        "256",
    )
    run_to_end(recipe(env, folder, "run", *verl_flags(), *groups), env, folder / "log")

    metrics = list(read_metrics(run / "metrics.jsonl"))
    assert [m["iteration"] for m in metrics] == [1, 2, 3, 4]
    assert set(METRICS) <= set().union(*metrics)
    # An iteration may have nothing to learn from, or only the buffer.
    gaps = [m["train/rollout_prob_diff_max"] for m in metrics]
    compared = [gap for gap in gaps if gap is not None]
    assert len(compared) >= 2 and max(compared) < ROUNDING, "rollout and trainer differ"
    for m, gap in zip(metrics, gaps, strict=True):
        assert m["rollout/infra_errors"] == 0 and m["staleness/max"] == 0
        assert 0 <= m["replay/fraction"] <= (0.25 if gap is not None else 1.0)
    assert any(m["replay/fraction"] > 0 for m in metrics), "no replayed sample reached a mini-batch"
    assert any(m["curriculum/cooling"] or m["curriculum/removed"] for m in metrics), "no template was ever cooled down"
    for m in metrics:
        trajectories = load_trajectories(run / "trajectories" / f"iter-{m['iteration']:06d}.jsonl")
        assert {s.completion.version for t in trajectories for s in t.steps} == {m["iteration"] - 1}

    before, after = load_file(policy / "model.safetensors"), load_file(latest(run) / "model.safetensors")
    assert set(before) == set(after) and not all(torch.equal(before[name], after[name]) for name in before)
    assert (run / "eval" / "sim-after" / "results.json").is_file(), "what was saved was not evaluated"


def test_learning_and_sampling_at_once_are_one_version_apart_also_after_a_kill(folder, cluster, policy):
    """The first node learns while the second samples. gloo carries the weights in the place of NCCL."""
    run, log = folder / "apart", folder / "apart-log"
    own = engine_flags_apart()
    command = ["-m", "mobilerl", "train", "--config", str(ROOT / "recipes" / "adagrpo.toml"), *FLAGS]
    command += ["--model", str(policy), "--run-dir", str(run), *own, "--rollout.max_staleness", "1"]
    command += ["--algorithm.group_size", "4", "--rollout.workers", "0", "--algorithm.mini_batch_size", "256"]
    command += ["--algorithm.max_response_prob", "1.0", "--train.checkpoint_every", "1"]
    with open(log, "w") as out, started([sys.executable, *command], cluster, stdout=out, stderr=out) as child:
        until = time.monotonic() + RUN_S
        while not (run / "checkpoints" / "iter-000002").is_dir():
            assert child.poll() is None and time.monotonic() < until, log.read_text()[-3000:]
            time.sleep(0.2)
    run_to_end([cluster["MOBILERL_VERL_CPU_PYTHON"], *command, "--resume"], cluster, log)

    metrics = list(read_metrics(run / "metrics.jsonl"))
    assert [m["iteration"] for m in metrics] == [1, 2, 3, 4]
    assert all(m["rollout/lost_groups"] == m["rollout/infra_errors"] == 0 for m in metrics)
    assert max(m["staleness/max"] for m in metrics) == 1
    # Measured beside other tests: 0.55. Where a learner has the machine's only cores, devices do wait a little.
    learned = [m for m in metrics if m["train/loss"] is not None]
    idle = [m["time/idle_device_update_s"] / m["time/update_s"] for m in learned]
    assert sum(idle) / len(idle) < 0.8, "devices waited for the learner"
    # Samples of the newest weights: what arrived at the server is what the trainer has.
    compared = [gap for m in metrics if (gap := m["train/rollout_prob_diff_max"]) is not None]
    assert compared and max(compared) < ROUNDING, "rollout and trainer differ"
    for m in metrics:
        steps = [
            s for t in load_trajectories(run / "trajectories" / f"iter-{m['iteration']:06d}.jsonl") for s in t.steps
        ]
        assert {m["iteration"] - 1 - s.completion.version for s in steps} <= {0, 1}


def engine_flags_apart() -> list[str]:
    from mobilerl_verl_cpu.flags import engine_flags

    own = engine_flags("actor_rollout_ref.rollout.checkpoint_engine.backend=gloo")
    return [*own, "--cluster.nodes", "1", "--cluster.rollout_nodes", "1", "--cluster.gpus_per_node", "1"]
