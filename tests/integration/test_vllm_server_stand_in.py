"""A stand-in for vLLM's server around a real checkpoint: behind it, a model plays as it does in this process."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from http_stand_in import Handler, Server

from envs.phone.env import PhoneEnv
from envs.phone.tasks import suite
from mobilerl import tiny
from mobilerl.agent.policy import EnginePolicy
from mobilerl.agent.server_check import connect
from mobilerl.cli import main
from mobilerl.config import AgentSection
from mobilerl.engines.base import MicroBatch, Request, Sampling
from mobilerl.engines.local import LocalEngine, LocalSettings
from mobilerl.records import Batch, Row
from mobilerl.setup import make_context, save_agent
from sft.demonstrations import demonstrations
from sft.samples import encode

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread")]
NAMES = ("TodoDue", "ClockAlarmMissing", "MapsNoteDistance")
AGENT = AgentSection(max_new_tokens=24)
FLAGS = [f"--agent.{name}={'null' if value is None else value}" for name, value in AGENT.model_dump().items()]
SCREEN = ["--phone.width", "180", "--phone.height", "360"]
STOP = "</answer>"


class StandIn(Server):
    """Answers chat completions as vLLM documents them: greedy or sampled, with token ids and log-probabilities.

    The stop string ends a reply and is not in its text; the ids that came before it was complete are all there.
    """

    def __init__(self, engine: LocalEngine, name: str) -> None:
        self.engine, self.name = engine, name
        self.sent: list[dict[str, Any]] = []
        self.lock = threading.Lock()
        super().__init__(_Handler)

    @property
    def url(self) -> str:
        return f"{super().url}/v1"

    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        images: list[bytes] = []
        messages = [{**m, "content": _parts(m["content"], images)} for m in body["messages"]]
        codec = self.engine.codec
        prompt = codec.encode(messages, images)
        with self.lock:
            self.sent.append(body)
            (done,) = self.engine.generate(
                [Request(prompt, tuple(images), Sampling(body["temperature"], body["max_tokens"]))]
            )
        ids = list(done.token_ids)
        cut = [n for n in range(1, len(ids) + 1) if STOP in codec.decode(ids[:n])]
        ids = ids[: cut[0]] if cut else ids
        text = codec.decode(ids).split(STOP)[0]
        ended = bool(cut) or ids[-1] in codec.end_ids
        choice = {
            "index": 0, "finish_reason": "stop" if ended else "length", "stop_reason": STOP if cut else None,
            "message": {"role": "assistant", "content": text}, "token_ids": ids,
            "logprobs": {"content": [{"token": "?", "logprob": p} for p in done.logprobs[: len(ids)]]},
        }  # fmt: skip
        return {"id": "1", "object": "chat.completion", "created": 0, "model": self.name, "choices": [choice],
                "prompt_token_ids": list(prompt)}  # fmt: skip


def _parts(content: Any, images: list[bytes]) -> Any:
    if isinstance(content, str):
        return content
    made = []
    for part in content:
        if part["type"] == "image_url":
            images.append(base64.b64decode(part["image_url"]["url"].partition(",")[2]))
            part = {"type": "image"}
        made.append(part)
    return made


class _Handler(Handler):
    server: StandIn

    def do_GET(self) -> None:
        self.reply({"object": "list", "data": [{"id": self.server.name, "object": "model"}]})

    def do_POST(self) -> None:
        body = self.body()
        if self.path == "/tokenize":
            codec = self.server.engine.codec
            tokens = codec.tokenizer.convert_ids_to_tokens(codec.encode(body["messages"], ()))
            return self.reply({"count": len(tokens), "token_strs": tokens})
        return self.reply(self.server.answer(body))


@pytest.fixture(scope="module")
def steps():
    tasks = [suite.make_task(name, suite.HELD_OUT_SEEDS) for name in NAMES]
    return demonstrations(PhoneEnv("sim-0", 180, 360, 0.0), tasks)


@pytest.fixture(scope="module")
def folder(steps, tmp_path_factory) -> Path:
    """A tiny model that has learned to write replies, of whatever use: an episode of its takes all its steps."""
    path = tmp_path_factory.mktemp("served")
    context = make_context(AGENT)
    texts = [part["text"] for s in steps for m in s.messages(context)[0] for part in m["content"] if "text" in part]
    torch.manual_seed(0)
    tiny.create(path, texts, hidden=32, layers=2, heads=2, vision_hidden=16)
    engine = LocalEngine(path, LocalSettings(learning_rate=1e-2))
    samples = [encode(step, context, engine.codec) for step in steps]
    rows = [Row(f"{i}", 0, s.prompt_ids, s.response_ids, (0.0,) * len(s.response_ids), s.images, 0)
            for i, s in enumerate(samples)]  # fmt: skip
    for _ in range(25):
        engine.update(Batch(rows, [1.0] * len(rows), [False] * len(rows)), _imitate, "token-mean")
    engine.save(path)
    save_agent(AGENT, path)
    return path


def _imitate(micro: MicroBatch):
    return -(micro.weights * micro.logp).sum(), {}


@pytest.fixture(scope="module")
def server(folder) -> Iterator[StandIn]:
    stand_in = StandIn(LocalEngine(folder, LocalSettings()), "tiny")
    yield stand_in
    stand_in.shutdown()
    stand_in.server_close()


def test_a_completion_of_the_server_is_that_of_the_engine(folder, server, steps):
    """Prompt ids show that pictures and texts arrived as they were; the rest that nothing was changed on the way."""
    context, sampling = make_context(AGENT), Sampling(0.0, AGENT.max_new_tokens)
    here = EnginePolicy(LocalEngine(folder, LocalSettings()))
    there = connect(server.url, "tiny", images=AGENT.screenshots)
    assert there.dialect.token_ids

    async def both(messages, images):
        return await here.act(messages, images, sampling), await there.act(messages, images, sampling)

    for step in steps:
        one, other = asyncio.run(both(*step.messages(context)))
        assert other.prompt_ids == one.prompt_ids and other.text == one.text
        # The engine ends a reply with its end token, the server with the stop string before it.
        assert other.token_ids == one.token_ids[: len(other.token_ids)]
        assert one.text.endswith(STOP) and len(other.token_ids) == len(one.token_ids) - 1
        assert other.logprobs == pytest.approx(one.logprobs[: len(other.logprobs)], abs=1e-5)


def evaluated(out: Path, *words: str) -> dict[str, Any]:
    names = [w for name in NAMES for w in ("--template", name)]
    assert main(["eval", "sim", "--instances", "2", *names, *SCREEN, "--out", str(out), *words]) == 0
    return json.loads((out / "results.json").read_text())


def test_an_evaluation_of_the_server_is_that_of_the_checkpoint(folder, server, tmp_path):
    before = len(server.sent)
    local = evaluated(tmp_path / "local", "--model", str(folder))
    served = evaluated(
        tmp_path / "served", "--model", server.url, "--model-name", "tiny", *FLAGS, "--engine.max_pixels=null"
    )
    assert served["instances"] == local["instances"] and served["per_task"] == local["per_task"]
    rows = served["per_task"].values()
    taken = sum(row["mean_steps"] * row["trials"] for row in rows)
    assert taken > 3 * len(NAMES) and sum(row["errors"] for row in rows) == 0
    assert len(server.sent) - before == taken + 1  # one to find out what it accepts

    protocol = served["protocol"]
    assert (protocol["model"], protocol["model_server"]) == ("tiny", server.url)
    assert protocol["sampling"] == "temperature alone" and "weights_sha256" not in protocol
    same = set(local["protocol"]) - {"model", "weights_sha256"}
    assert {k: protocol[k] for k in same} == {k: local["protocol"][k] for k in same}


def test_without_a_recipe_a_server_is_asked_in_mobilerls_format(server, tmp_path):
    results = evaluated(tmp_path, "--model", server.url, "--model-name", "tiny", "--agent.max_new_tokens", "4",
                        "--template", "TodoDue", "--instances", "1")  # fmt: skip
    protocol = results["protocol"]
    assert (protocol["agent.layout"], protocol["agent.grounding"], protocol["agent.screenshots"]) == ("chat", "box", 2)
    assert (protocol["agent.screen_style"], protocol["max_pixels"]) == ("mobilerl", 500000)
    assert protocol["agent.max_new_tokens"] == 4 and protocol["deadline_s"] == 3600
    assert server.sent[-1]["messages"][0]["role"] == "system"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--model-name", "other"), "has no model 'other'; it has tiny"),
        ((), "--model-name is missing"),
        (("--model-name", "tiny", "--reuse"), "--reuse cannot tell"),
        (("--model-name", "tiny", "--agent", "noop"), "plays without a model"),
    ],
)
def test_what_cannot_be_played_is_one_line_before_anything_is(server, tmp_path, capsys, words, says):
    out = tmp_path / "never"
    assert main(["eval", "sim", "--model", server.url, "--out", str(out), *words]) == 2
    said = capsys.readouterr().err
    assert says in said and said.count("\n") == 1 and not out.exists()


def test_a_name_for_a_checkpoint_is_refused(folder, tmp_path, capsys):
    assert main(["eval", "sim", "--model", str(folder), "--model-name", "x", "--out", str(tmp_path / "never")]) == 2
    assert "--model-name belongs to a --model that is a server's address" in capsys.readouterr().err
