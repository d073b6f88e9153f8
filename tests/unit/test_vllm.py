"""vLLM as a sampler without vLLM: prompts, weights, limits, and an engine that dies, hangs or refuses."""

from __future__ import annotations

import asyncio
import io
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image

from mobilerl import tiny
from mobilerl.config import VllmSection
from mobilerl.inference import vllm
from mobilerl.inference.vllm import VllmSampler, VllmSettings, checkpoint_weights, image_limits
from mobilerl.interfaces import EngineError, Request, Sampling
from mobilerl.models.codec import Codec
from mobilerl.models.loading import add_lora, load_model

WAIT_S = 20.0


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("tiny")
    torch.manual_seed(0)
    tiny.create(path, ("Open the Settings app",), hidden=32, layers=2, heads=2, vision_hidden=16)
    return path


def png(width: int, height: int) -> bytes:
    out = io.BytesIO()
    pixels = np.random.default_rng(width).integers(0, 256, (height, width, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(out, "PNG")
    return out.getvalue()


@pytest.mark.parametrize("limit", (None, 3136))
def test_vllms_image_processor_leaves_prepared_images_as_they_are(folder, limit):
    codec = Codec.load(folder, limit)
    limits = image_limits(codec)
    for width, height in ((90, 200), (360, 720), (40, 40)):
        screen = png(width, height)
        shown = codec.scaled_image(screen)
        assert limits["shortest_edge"] <= shown.width * shown.height <= limits["longest_edge"]
        again = codec.image_processor(images=[shown], return_tensors="np", size=limits)
        assert (again["pixel_values"] == codec.pixels(screen)[0]).all()


def test_an_adapter_is_added_to_its_base_and_the_base_is_unchanged(folder):
    model = add_lora(load_model(folder), 2)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "lora_" in name:
                p.normal_()
    before = {name: p.clone() for name, p in model.named_parameters()}
    sent = dict(checkpoint_weights(model))
    assert all(torch.equal(p, before[name]) for name, p in model.named_parameters())
    merged = dict(model.merge_and_unload().named_parameters())
    assert sent.keys() == merged.keys() == dict(load_model(folder).named_parameters()).keys()
    assert all(torch.allclose(sent[name], merged[name], atol=1e-6) for name in merged)


class EngineDeadError(Exception):
    pass


class FakeVllm:
    """Stands in for AsyncLLM. Answers wait for `go`; a request of 2 tokens kills it."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.salts: list[str] = []
        self.loaded = -1
        self.alive = True

    async def generate(self, prompt, params, name):
        self.salts.append(prompt["cache_salt"])
        if params.max_tokens == 2:
            raise EngineDeadError
        while not self.go.is_set():
            await asyncio.sleep(0.001)
        answer = SimpleNamespace(
            token_ids=[1, 2], logprobs=[{1: SimpleNamespace(logprob=-0.5)}, {2: SimpleNamespace(logprob=-1.0)}]
        )
        yield SimpleNamespace(prompt_token_ids=prompt["prompt_token_ids"], outputs=[answer])

    async def reset_encoder_cache(self) -> None:
        pass

    async def collective_rpc(self, name, timeout, args=()):
        if args:
            if args[1] == 7:
                raise RuntimeError("the update lacks 3 weights")
            self.loaded = args[1]
        return [self.loaded]

    def shutdown(self) -> None:
        self.alive = False


@pytest.fixture
def engine(monkeypatch) -> FakeVllm:
    made = FakeVllm()
    fields = SimpleNamespace(FINAL_ONLY=0)
    for name, content in {
        "vllm": {"SamplingParams": lambda **fields: SimpleNamespace(**fields)},
        "vllm.sampling_params": {"RequestOutputKind": fields},
        "vllm.v1.engine.exceptions": {"EngineDeadError": EngineDeadError},
    }.items():
        module = ModuleType(name)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(vllm, "_start", lambda folder, codec, settings: made)
    return made


@pytest.fixture
def sampler(engine, folder) -> Iterator[VllmSampler]:
    made = VllmSampler(folder, Codec.load(folder), VllmSettings(VllmSection(max_prompt=20, timeout_s=WAIT_S)))
    made.refresh([], 3)
    yield made
    made.close()
    assert not engine.alive


def asked(tokens: int = 8) -> Request:
    return Request((30, 30, 30), (), Sampling(1.0, tokens))


def test_requests_keep_the_weights_they_began_with(sampler, engine):
    first = sampler.submit(asked())
    while not engine.salts:
        time.sleep(0.001)
    refreshing = threading.Thread(target=sampler.refresh, args=([], 4))
    refreshing.start()
    time.sleep(0.05)
    later = sampler.submit(asked())
    assert isinstance(later, Future) and engine.loaded == 3 and len(engine.salts) == 1
    engine.go.set()
    refreshing.join(WAIT_S)
    done = first.result(WAIT_S)
    assert (done.prompt_ids, done.token_ids, done.logprobs, done.version) == ((30, 30, 30), (1, 2), (-0.5, -1.0), 3)
    assert later.result(WAIT_S).version == 4 and len(set(engine.salts)) == 2


def test_a_death_reaches_every_later_request(sampler):
    for tokens in (2, 8):
        with pytest.raises(EngineError, match=r"vLLM died .*--resume"):
            sampler.submit(asked(tokens)).result(WAIT_S)


def test_an_engine_that_does_not_answer_is_an_error(sampler):
    sampler._requests.timeout_s = 0.1
    with pytest.raises(EngineError, match=r"longer than vllm.timeout_s = 0.1 s"):
        sampler.generate([asked()])


def test_rejected_weights_end_vllm(sampler, engine):
    for call in (lambda: sampler.refresh([], 7), lambda: sampler.generate([asked()])):
        with pytest.raises(EngineError, match="weights of version 7 .*lacks 3 weights.*--resume"):
            call()
    assert not engine.alive
