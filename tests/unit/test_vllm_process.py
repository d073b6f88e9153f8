"""vLLM as a sampler without vLLM: prompts, weights, settings, and a process that dies, hangs or refuses."""

from __future__ import annotations

import io
import os
import re
import shutil
import signal
import tempfile
import textwrap
import time
import tomllib
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file

from mobilerl import tiny
from mobilerl.config import ConfigError
from mobilerl.engines.base import EngineError, Request, Sampling
from mobilerl.engines.codec import Codec
from mobilerl.engines.loading import add_lora, load_model
from mobilerl.engines.local import LocalEngine, LocalSettings
from mobilerl.engines.vllm import installed, process, sampler
from mobilerl.engines.vllm.process import VllmProcess
from mobilerl.engines.vllm.prompts import collapse
from mobilerl.engines.vllm.sampler import VllmSampler
from mobilerl.engines.vllm.settings import VllmSettings, picture_limits
from mobilerl.engines.vllm.weights import checkpoint_weights, write_shards

ROOT = Path(__file__).parents[2]
STAND_IN = """
    import os, signal, sys, time
    from mobilerl.engines.vllm.channel import Channel

    channel = Channel(int(sys.argv[1]))
    start, _ = channel.receive()
    if start.get("broken"):
        raise SystemExit("RuntimeError: no room on the GPU")
    with open(start["folder"] + "/starts", "a+") as starts:
        starts.write(".")
        if starts.tell() <= start.get("taken", 0):
            raise SystemExit("DistNetworkError: port: 33269, code: -98, name: EADDRINUSE, message: address in use")
    channel.send({"ready": True})
    held = []
    while True:
        message, blobs = channel.receive()
        if message["op"] == "refresh" and "bad" in message["paths"][0]:
            channel.send({"id": message["id"], "error": "ValueError: torn"})
        elif message["op"] == "refresh":
            held.append(message["id"])
            for name in reversed(held):  # in another order than asked
                channel.send({"id": name, "token_ids": [1, 2], "logprobs": [-0.5, -1.0], "version": 3, "name": name})
            held.clear()
        elif message.get("max_tokens") == 2:
            print("ValueError: the GPU fell off", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        elif message.get("max_tokens") == 4:
            channel.send({"id": message["id"], "error": "ValueError: too many images"})
        else:
            held.append(message["id"])
"""
"""Dies at 2 tokens, refuses at 4, and answers all others when it is given weights."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("tiny")
    torch.manual_seed(0)
    tiny.create(path, ("Open the Settings app",), hidden=32, layers=2, heads=2, vision_hidden=16)
    return path


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """Has the stand-in started in vLLM's place; returns its start."""
    (tmp_path / "stand_in.py").write_text(textwrap.dedent(STAND_IN))
    monkeypatch.setattr(process, "MODULE", "stand_in")
    made: list[VllmProcess] = []

    def start(timeout_s: float = 20.0, **message: object) -> VllmProcess:
        environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
        made.append(VllmProcess(message, environment, tmp_path, timeout_s))
        return made[-1]

    yield start
    for one in made:
        one.close()


def png(width: int, height: int) -> bytes:
    out = io.BytesIO()
    pixels = np.random.default_rng(width).integers(0, 256, (height, width, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(out, "PNG")
    return out.getvalue()


def is_gone(pid: int) -> bool:
    try:
        os.killpg(pid, 0)
    except ProcessLookupError:
        return True
    return False


# --- what is sent --------------------------------------------------------------------------------------------------


def test_a_cap_larger_than_the_one_a_checkpoint_was_saved_with_reaches_vllm(folder, tmp_path):
    Codec.load(folder, 2000).save(tmp_path)
    shutil.copy(folder / "config.json", tmp_path)
    codec = Codec.load(tmp_path, 6272)
    shown = codec.picture(png(360, 720))
    assert 2000 < shown.width * shown.height <= picture_limits(codec)["longest_edge"]
    again = codec.image_processor(images=[shown], return_tensors="np", size=picture_limits(codec))
    assert (again["pixel_values"] == codec.pixels(png(360, 720))[0]).all()


def test_a_run_of_placeholders_becomes_one_per_image():
    assert collapse([7, 1, 9, 9, 9, 2, 1, 9, 2, 5], 9) == [7, 1, 9, 2, 1, 9, 2, 5]
    assert collapse([9, 9], 9) == [9] and collapse([1, 1], 9) == [1, 1]


@pytest.mark.parametrize("limit", (None, 2000, 3136, 6272))
def test_a_picture_at_its_final_size_is_within_the_limits_sent_to_vllm(folder, limit):
    """A picture that was cut down to `max_pixels` must not be blown up again to the least that is allowed."""
    codec = Codec.load(folder, limit)
    limits = picture_limits(codec)
    for width, height in ((90, 200), (360, 720), (40, 40)):
        screen = png(width, height)
        shown = codec.picture(screen)
        assert limits["shortest_edge"] <= shown.width * shown.height <= limits["longest_edge"]
        again = codec.image_processor(images=[shown], return_tensors="np", size=limits)
        assert (again["pixel_values"] == codec.pixels(screen)[0]).all()


def test_weights_come_in_files_of_a_bounded_size_and_are_all_there(tmp_path):
    weights = {f"w{i}": torch.randn(100) for i in range(10)}
    paths = write_shards(weights.items(), tmp_path, shard_bytes=1000)
    assert len(paths) == 4  # 400 bytes each: three reach 1000
    found = {name: t for path in paths for name, t in load_file(path).items()}
    assert found.keys() == weights.keys() and all(torch.equal(found[n], weights[n]) for n in weights)


def test_an_adapter_is_added_to_its_base_and_the_base_stays_as_it_is(folder):
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
    changed = [n for n, p in load_model(folder).named_parameters() if not torch.equal(p, sent[n])]
    assert changed and all("proj" in name and "visual" not in name for name in changed)


# --- what is installed ----------------------------------------------------------------------------------------------


def test_the_versions_are_those_of_the_extra():
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["vllm"]
    assert extra == [f"vllm{installed.VERSIONS}"]


@pytest.mark.parametrize(
    "found, version, said",
    [(False, None, "not installed: pip install 'mobilerl"), (True, "0.28.0", "vLLM 0.28.0 is installed, but"),
     (True, "0.23.1+cpu", "works with >=0.24"), (True, None, "does not say its version"), (True, "0.27.1+cu130", None)],
)  # fmt: skip
def test_no_vllm_or_another_one_is_an_error_of_one_line(monkeypatch, found, version, said):
    monkeypatch.setattr(installed.importlib.util, "find_spec", lambda name: object() if found else None)
    monkeypatch.setattr(installed, "_version", lambda name: version if name == "vllm" else None)
    if said is None:
        assert installed.check_installed() == version
        return
    with pytest.raises(ConfigError, match=re.escape(said)) as error:
        installed.check_installed()
    assert "\n" not in str(error.value) and 'engine.sampler = "own"' in str(error.value)


# --- the process ----------------------------------------------------------------------------------------------------


def test_answers_reach_those_who_asked_in_whatever_order_they_come(stand_in):
    vllm = stand_in()
    asked = [vllm.ask("generate", {"max_tokens": 8}, [b"\x00" * 100_000]) for _ in range(20)]
    last = vllm.ask("refresh", {"paths": ["good"]})
    assert [f.result(20)["name"] for f in [*asked, last]] == [str(i + 1) for i in range(21)]
    vllm.close()
    assert is_gone(vllm.pid)
    with pytest.raises(EngineError, match="closed"):
        vllm.ask("generate", {})


def test_one_refused_request_does_not_end_the_others(stand_in):
    vllm = stand_in()
    with pytest.raises(ValueError, match="vLLM refused: ValueError: too many images"):
        vllm.ask("generate", {"max_tokens": 4}).result(20)
    assert vllm.ask("refresh", {"paths": ["good"]}).result(20)["version"] == 3


def test_a_death_reaches_everybody_who_waits_and_everybody_who_asks_later(stand_in):
    vllm = stand_in()
    waiting = vllm.ask("generate", {"max_tokens": 8})
    dying = vllm.ask("generate", {"max_tokens": 2})
    for future in (waiting, dying):
        with pytest.raises(EngineError, match=r"vLLM died \(ValueError: the GPU fell off; log: .*--resume"):
            future.result(20)
    with pytest.raises(EngineError, match="vLLM died"):
        vllm.ask("generate", {"max_tokens": 8})
    assert is_gone(vllm.pid) and not vllm.close()


def test_a_process_that_does_not_answer_is_ended(stand_in):
    vllm = stand_in()
    vllm._timeout_s = 1.0  # from here on: its start may take longer
    began = time.monotonic()
    with pytest.raises(EngineError, match=r"vLLM hangs: no answer to generate in 1 s \(vllm.timeout_s"):
        vllm.ask("generate", {"max_tokens": 8}).result(20)
    assert time.monotonic() - began >= 1 and is_gone(vllm.pid)


def test_a_stopped_process_that_reads_nothing_blocks_nobody_for_longer_than_the_limit(stand_in):
    """The channel fills up, so that sending blocks as well."""
    vllm = stand_in()
    vllm._timeout_s = 1.0
    os.killpg(vllm.pid, signal.SIGSTOP)
    with pytest.raises(EngineError, match="hangs|died"):
        vllm.ask("generate", {"max_tokens": 8}, [b"\x00" * 50_000_000]).result(20)
    assert is_gone(vllm.pid)


def test_a_port_that_was_taken_meanwhile_is_no_reason_to_fail(stand_in, tmp_path):
    vllm = stand_in(taken=2)
    assert vllm.ask("refresh", {"paths": ["good"]}).result(20)["version"] == 3
    (tmp_path / "starts").unlink()
    with pytest.raises(EngineError, match=r"does not start \(DistNetworkError: .*EADDRINUSE"):
        stand_in(taken=9)
    assert (tmp_path / "starts").read_text() == "..."


def test_a_start_that_fails_names_the_reason_the_log_and_a_cure(stand_in, tmp_path):
    with pytest.raises(
        EngineError, match=r"does not start \(RuntimeError: no room on the GPU; log: .*vllm\.log\); set"
    ):
        stand_in(broken=True)
    assert "no room" in (tmp_path / "vllm.log").read_text()


@pytest.fixture
def whole(stand_in, folder, monkeypatch, tmp_path) -> Iterator[VllmSampler]:
    """A sampler on the stand-in."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # the log of one that failed is kept
    monkeypatch.setattr(sampler, "check_installed", lambda: "0.27.1")
    monkeypatch.setattr(sampler, "VllmProcess", lambda start, environment, folder, timeout_s: stand_in(timeout_s))
    made = VllmSampler(folder, Codec.load(folder), VllmSettings(max_prompt=20, timeout_s=20.0))
    yield made
    made.close()


def asked(tokens: int, temperature: float = 1.0, length: int = 3) -> Request:
    return Request((30,) * length, (), Sampling(temperature, tokens))


def test_a_completion_has_what_vllm_said(whole, folder):
    future = whole.submit(asked(8))
    assert isinstance(future, Future) and not future.done()
    whole.refresh(LocalEngine(folder, LocalSettings()).model.named_parameters(), 3)
    done = future.result(20)
    assert (done.prompt_ids, done.token_ids, done.logprobs, done.version) == ((30, 30, 30), (1, 2), (-0.5, -1.0), 3)
    assert not list(whole._folder.glob("*/*.safetensors"))  # sent weights are not kept


def test_weights_that_are_not_taken_end_the_process(whole, tmp_path):
    with pytest.raises(EngineError, match="did not take the weights of version 7 .*torn.*--resume"):
        whole.refresh(tmp_path / "bad.safetensors", 7)
    with pytest.raises(EngineError, match="version 7"):
        whole.generate([asked(8)])


@pytest.mark.parametrize(
    "request_, said",
    [(asked(8, length=21), "21 tokens, more than vllm.max_prompt = 20"), (asked(8, 0.001), "between 0 and 0.01")],
)
def test_what_vllm_would_take_for_something_else_is_refused_here(whole, request_, said):
    with pytest.raises(ConfigError, match=re.escape(said)):
        whole.submit(request_)
