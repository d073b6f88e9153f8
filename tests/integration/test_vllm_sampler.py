"""A real vLLM (the CPU wheel will do) as the sampler of the local engine, on tiny checkpoints of the families."""

from __future__ import annotations

import importlib.util
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest
import torch
from accelerate.state import AcceleratorState
from model_checks import as_vllm_wants_it

from mobilerl.benchmarks.model_families import FAMILIES, create, png
from mobilerl.benchmarks.text_families import create_text_model
from mobilerl.config import VllmSection
from mobilerl.engines.local import LocalSettings
from mobilerl.engines.vllm import VllmEngine
from mobilerl.inference.vllm_adapter import adapter_tensors
from mobilerl.inference.vllm_arguments import VllmSettings
from mobilerl.models import tiny
from mobilerl.policy.prompts import DEFAULT_SYSTEM_PROMPTS
from mobilerl.records import Completion, TrainingSample
from mobilerl.records.engine import EngineError, Request, Sampling, StreamingEngine

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
IN_BFLOAT16 = "Qwen3.5"
"""The family whose linear attention vLLM computes on CPUs in bfloat16 only."""


@pytest.fixture(scope="module", params=[family for family in FAMILIES if family != IN_BFLOAT16])
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


@pytest.mark.parametrize("lora_rank", [0, 4])
def test_linear_attention_and_its_adapter(lora_rank, tmp_path):
    """The sampler in bfloat16, the learner in float32."""
    create(FAMILIES[IN_BFLOAT16], tmp_path, [DEFAULT_SYSTEM_PROMPTS["box"]])
    engine = VllmEngine(tmp_path, LocalSettings(max_pixels=SMALL, lora_rank=lora_rank), SETTINGS)
    try:
        assert engine._sends_adapter == bool(lora_rank)
        asked = requests(engine, 6, 1.0, tokens=30)
        said = [{"role": "user", "content": "Open Settings " * 200}]
        # Of prompts with more than a block of 1,152 tokens, the second time the state comes from the cache.
        long = Request(engine.codec.encode(said, ()), (), Sampling(1.0, 30))
        assert 1152 < len(long.prompt_ids) < SECTION.max_prompt
        engine.generate([long])
        asked.append(long)
        done = engine.generate(asked)
        assert k3(own_logprobs(engine, asked, done), done) < 1e-3
        (shake_adapter if lora_rank else shake)(engine, 1)
        assert k3(own_logprobs(engine, asked, done), done) > 0.1
        engine.publish()
        done = engine.generate(asked)
        assert k3(own_logprobs(engine, asked, done), done) < 1e-3
    finally:
        engine.close()


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
        applied = sampled_k3(engine)
        monkeypatch.setattr(engine, "_sends_adapter", False)
        engine.publish()
        assert applied < 5e-4 and sampled_k3(engine) > 2 * applied
    finally:
        engine.close()


def sampled_k3(engine: VllmEngine) -> float:
    asked = requests(engine, 12, 1.0, tokens=60)
    done = engine.generate(asked)
    return k3(own_logprobs(engine, asked, done), done)


def k3(own: Sequence[tuple[float, ...]], done: Sequence[Completion]) -> float:
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
