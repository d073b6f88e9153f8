"""A real vLLM (the CPU wheel will do) as the sampler of the local engine, on tiny checkpoints of the families."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from model_families import FAMILIES, create
from PIL import Image

from mobilerl import tiny
from mobilerl.agent.prompts import DEFAULT_SYSTEM_PROMPTS
from mobilerl.engines.base import EngineError, Request, Sampling, StreamingEngine
from mobilerl.engines.loading import load_model
from mobilerl.engines.local import LocalEngine, LocalSettings
from mobilerl.engines.vllm.channel import Channel
from mobilerl.engines.vllm.engine import VllmEngine
from mobilerl.engines.vllm.sampler import VllmSampler
from mobilerl.engines.vllm.settings import VllmSettings, engine_arguments, environment
from mobilerl.records import Completion, Row
from mobilerl.train.tracking import read_metrics

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="no vLLM: pip install 'mobilerl[vllm]'"),
    pytest.mark.usefixtures("one_thread"),
]
SMALL = 60_000
"""max_pixels: full screens of the tests are cut down to it."""
SETTINGS = VllmSettings(max_prompt=2048, max_images=2, max_sequences=8, eager=True, threads=1, timeout_s=300.0)
CLOSE = 1e-4
"""Largest difference of a log-probability between vLLM and the learner, both in float32."""


@pytest.fixture(scope="module", params=FAMILIES)
def family(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def engine(family, tmp_path_factory) -> Iterator[VllmEngine]:
    folder = tmp_path_factory.mktemp(family)
    create(FAMILIES[family], folder, [DEFAULT_SYSTEM_PROMPTS["box"]])
    if family == "GLM-4.1V":  # as it is published: vLLM asks for it, transformers takes it for granted
        config = json.loads((folder / "config.json").read_text())
        config["text_config"]["attention_bias"] = True
        (folder / "config.json").write_text(json.dumps(config))
    learner = LocalEngine(folder, LocalSettings(max_pixels=SMALL, learning_rate=1e-2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(folder))  # the log of one that failed is kept
        made = VllmEngine(learner, VllmSampler(folder, learner.codec, SETTINGS))
    yield made
    made.close()


def png(width: int, height: int, shade: int) -> bytes:
    blocks = np.random.default_rng(shade).integers(0, 256, (12, 8, 3), dtype=np.uint8)
    out = io.BytesIO()
    Image.fromarray(blocks).resize((width, height), Image.Resampling.NEAREST).save(out, "PNG")
    return out.getvalue()


def requests(engine: VllmEngine, count: int, temperature: float, tokens: int = 10) -> list[Request]:
    """Prompts of different lengths with 0, 1 or 2 images; the same images again in every call."""
    made = []
    for i in range(count):
        images = tuple(png(*size, shade) for size, shade in (((540, 1200), 1), ((200, 150), 2)))[: i % 3]
        content = [{"type": "image"}] * len(images) + [{"type": "text", "text": f"Open Settings {'a b ' * i}"}]
        prompt = engine.codec.encode([{"role": "user", "content": content}], images)
        made.append(Request(prompt, images, Sampling(temperature, tokens)))
    return made


def own_logprobs(engine: VllmEngine, asked: Sequence[Request], done: Sequence[Completion]) -> list[tuple[float, ...]]:
    learner = engine.learner
    before = learner.settings
    learner.settings = LocalSettings(temperature=asked[0].sampling.temperature or 1.0, max_pixels=SMALL)
    rows = [Row("t", 0, d.prompt_ids, d.token_ids, d.logprobs, r.images, 0) for r, d in zip(asked, done, strict=True)]
    try:
        return learner.logprobs(rows)
    finally:
        learner.settings = before


def difference(done: Sequence[Completion], own: Sequence[tuple[float, ...]]) -> float:
    return max(abs(a - b) for d, o in zip(done, own, strict=True) for a, b in zip(d.logprobs, o, strict=True))


def agrees(engine: VllmEngine, version: int) -> list[tuple[list[Request], list[Completion]]]:
    """What vLLM samples at several temperatures, after checking it against the learner."""
    sampled = []
    for temperature in (1.0, 0.0, 0.7):
        asked = requests(engine, 6, temperature)
        done = engine.generate(asked)
        worst = difference(done, own_logprobs(engine, asked, done))
        print(f"version {version}, temperature {temperature}: off by {worst:.1e}")
        assert worst < CLOSE
        for r, d in zip(asked, done, strict=True):
            assert d.prompt_ids == r.prompt_ids and d.version == version and 0 < len(d.token_ids) <= 10
            ended = d.token_ids[-1] in engine.codec.end_ids
            assert ended or len(d.token_ids) == 10
            assert not set(d.token_ids) & set(engine.codec.banned_ids)
            assert not set(d.token_ids[:-1]) & engine.codec.end_ids
            assert d.text == engine.codec.decode(d.token_ids)
        sampled.append((asked, done))
    return sampled


def shake(engine: VllmEngine, seed: int, favour_banned: bool = False) -> None:
    """Changes every weight, the vision tower's as well."""
    torch.manual_seed(seed)
    model = engine.learner.model
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn_like(p) * 0.2 * p.std().nan_to_num(0.1).clamp(min=1e-2))
        if favour_banned:
            for banned in engine.codec.banned_ids:
                model.lm_head.weight[banned] *= 20.0


def test_logprobs_and_versions_follow_the_learner(engine, family):
    assert isinstance(engine, StreamingEngine) and engine.version == 0
    before = agrees(engine, 0)
    shake(engine, 1, favour_banned=True)
    for asked, done in before:
        assert difference(done, own_logprobs(engine, asked, done)) > 0.05  # the test can tell old weights from new
    assert engine.publish() == 1
    after = agrees(engine, 1)
    assert [d.token_ids for d in after[1][1]] != [d.token_ids for d in before[1][1]]  # greedy


def test_a_saved_state_is_loaded_into_vllm_too(engine, family, tmp_path):
    if family != "Qwen2.5-VL":
        pytest.skip("the same for every family")
    version = engine.version
    engine.save(tmp_path)
    asked = requests(engine, 3, 0.0)
    before = engine.generate(asked)
    shake(engine, 2)
    engine.publish()
    assert engine.generate(asked) != before
    engine.load(tmp_path)
    again = engine.generate(asked)
    assert [d.token_ids for d in again] == [d.token_ids for d in before]
    assert difference(again, [d.logprobs for d in before]) < CLOSE and {d.version for d in again} == {version}


def test_nothing_is_lost_while_weights_are_swapped(engine, family):
    """Many threads ask all the time; every answer fits the weights of the version it names."""
    if family != "Qwen2.5-VL":
        pytest.skip("the same for every family")
    asked = requests(engine, 3, 1.0, tokens=40)
    first, going = engine.version, threading.Event()
    going.set()

    def ask(request: Request) -> list[Completion]:
        done = []
        while going.is_set():
            done.append(engine.submit(request).result(120))
        return done

    states, answers = {first: _state(engine)}, []
    with ThreadPoolExecutor(6) as pool:
        futures = [pool.submit(ask, asked[i % 3]) for i in range(6)]
        for seed in (3, 4):
            time.sleep(1.0)
            shake(engine, seed)
            states[engine.publish()] = _state(engine)
        time.sleep(1.0)
        going.clear()
        answers = [(asked[i % 3], done) for i, f in enumerate(futures) for done in f.result(120)]
    assert {done.version for _, done in answers} == {first, first + 1, first + 2}
    for version, state in states.items():
        engine.learner.model.load_state_dict(state)
        mine = [(r, d) for r, d in answers if d.version == version][:30]
        assert difference([d for _, d in mine], own_logprobs(engine, *map(list, zip(*mine, strict=True)))) < CLOSE


def _state(engine: VllmEngine) -> dict[str, torch.Tensor]:
    return {name: t.clone() for name, t in engine.learner.model.state_dict().items()}


def test_what_vllm_refuses_harms_nobody_else(engine, family):
    if family != "Qwen2.5-VL":
        pytest.skip("the same for every family")
    good = requests(engine, 3, 1.0)
    images = (good[2].images[0],) * 3
    content = [{"type": "image"}] * 3 + [{"type": "text", "text": "x"}]
    many = Request(engine.codec.encode([{"role": "user", "content": content}], images), images, Sampling(1.0, 4))
    answers = [engine.submit(r) for r in (good[0], many, good[1])]
    assert answers[0].result(60).token_ids and answers[2].result(60).token_ids
    with pytest.raises(ValueError, match="vLLM refused: .*2 image"):
        answers[1].result(60)
    with pytest.raises(ValueError, match="has 1 image placeholders but 2 images"):
        engine.generate([Request(good[1].prompt_ids, good[2].images, Sampling(1.0, 4))])
    wrong = list(good[1].prompt_ids)
    wrong.insert(wrong.index(engine.codec.image_token_id), engine.codec.image_token_id)
    with pytest.raises(ValueError, match=r"vLLM read a prompt of \d+ tokens where the learner has \d+"):
        engine.generate([Request(tuple(wrong), good[1].images, Sampling(1.0, 4))])


def running(group: int) -> list[int]:
    """Processes of a process group that have not ended."""
    stats = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # ended meanwhile
            stats.append(path.read_text())
    fields = [(stat.split()[0], *stat.rpartition(")")[2].split()[:3]) for stat in stats]
    return [int(pid) for pid, state, _, owner in fields if int(owner) == group and state != "Z"]


def test_weights_that_do_not_fit_end_vllm_with_the_reason(engine, family):
    """The last test on each engine: half-loaded weights must never be sampled from."""
    weights = list(engine.learner.model.named_parameters())
    with pytest.raises(
        EngineError, match=r"did not take the weights of version 99 .*lacks \d+ weights.*log: .*--resume"
    ):
        engine.sampler.refresh(weights[: len(weights) // 2], 99)
    with pytest.raises(EngineError, match="version 99"):
        engine.generate(requests(engine, 1, 1.0))
    until = time.monotonic() + 20
    while running(engine.sampler._process.pid) and time.monotonic() < until:
        time.sleep(0.1)
    assert not running(engine.sampler._process.pid)


# --- whole runs -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    torch.manual_seed(0)
    tiny.create(folder, ["Open the Settings app and tap Pause"], hidden=64, layers=2, heads=2, vision_hidden=16,
                max_pixels=3136)  # fmt: skip
    model = load_model(folder)
    with torch.no_grad():
        for p in model.parameters():
            if p.dim() > 1:
                p.mul_(4.0)  # else every token is as likely, whatever the weights
    model.save_pretrained(folder)
    return folder


def command(checkpoint: Path, run_dir: Path, *more: str) -> list[str]:
    """Weight decay moves the weights whatever an untrained model earns, by about a tenth in each iteration."""
    flags = {
        "model": checkpoint, "phone.count": 4, "phone.width": 180, "phone.height": 360,
        "tasks.per_template": 2, "tasks.templates": '["MusicPause", "TodoDue"]', "collect.tasks_per_iteration": 2,
        "collect.group_size": 2, "algorithm.credit.drop_constant_groups": "false", "train.mini_batch": 64,
        "agent.max_new_tokens": 8, "engine.sampler": "vllm", "engine.learning_rate": 0.1, "engine.weight_decay": 1.0,
        "engine.warmup_steps": 0, "engine.threads": 1, "vllm.max_prompt": 2048, "vllm.max_sequences": 8,
        "vllm.eager": "true", "vllm.timeout_s": 300, "train.iterations": 2,
    }  # fmt: skip
    words = [word for name, value in flags.items() for word in (f"--{name}", str(value))]
    return [sys.executable, "-m", "mobilerl", "train", "--run-dir", str(run_dir), *words, *more]


@pytest.mark.e2e
def test_a_run_samples_with_the_weights_it_learned(checkpoint, tmp_path):
    run_dir = tmp_path / "run"
    more = ("--train.iterations", "3", "--train.trajectories_every", "1")
    done = subprocess.run(command(checkpoint, run_dir, *more), capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr[-2000:]
    rows = read_metrics(run_dir / "metrics.jsonl")
    assert [row["iteration"] for row in rows] == [1, 2, 3]
    worst = [row["train/rollout_prob_diff_max"] for row in rows]
    print("train/rollout_prob_diff_max:", worst)
    assert all(w is not None and w < CLOSE for w in worst)
    assert [row["staleness/max"] for row in rows] == [0, 0, 0]
    versions = []
    for i in (1, 2, 3):
        lines = (run_dir / "trajectories" / f"iter-{i:06d}.jsonl").read_text().splitlines()
        versions.append({step["completion"]["version"] for line in lines for step in json.loads(line)["steps"]})
    assert versions == [{0}, {1}, {2}]


def test_vllm_ends_with_a_run_that_was_killed(checkpoint, tmp_path):
    """As the kernel ends it: the process only sees that its channel has closed, and here while it still starts."""
    learner = LocalEngine(checkpoint, LocalSettings())
    start = {"folder": str(tmp_path / "run"), "engine": engine_arguments(checkpoint, learner.codec, SETTINGS),
             "image_token_id": learner.codec.image_token_id, "stop_ids": []}  # fmt: skip
    (tmp_path / "run").mkdir()
    ours, theirs = socket.socketpair()
    with theirs, open(tmp_path / "log", "wb") as log:
        vllm = subprocess.Popen(
            [sys.executable, "-m", "mobilerl.engines.vllm.host", str(theirs.fileno())], pass_fds=[theirs.fileno()],
            env=environment(SETTINGS), stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    channel = Channel(ours.detach())
    channel.send(start)
    time.sleep(15)
    assert vllm.poll() is None
    channel.close()
    assert vllm.wait(60) == -signal.SIGKILL and not (tmp_path / "run").exists()
