"""What servers answer: AndroidWorld's, model servers', judges'. Over the real client libraries, without a network."""

from __future__ import annotations

import asyncio
import json
from functools import cache

import httpx
from damage import damaged_json, damaged_json_text
from fuzzing import Target
from hypothesis import strategies as st
from openai import AsyncOpenAI
from phone_targets import PNGS

from envs.androidworld.access import HttpAccess
from envs.androidworld.client import AndroidWorldClient
from envs.base import InfraError, Tap
from mobilerl.agent import server_check
from mobilerl.agent.server import ServerPolicy
from mobilerl.config import ConfigError, JudgeSection
from mobilerl.engines.base import Sampling
from mobilerl.judge.client import ChatClient, Refused, Unreachable
from mobilerl.records import Completion

RUNNER = asyncio.Runner()
"""One event loop for all: clients belong to one, and are slow to make."""
STATUS = st.sampled_from([200] * 12 + [201, 204, 301, 400, 401, 404, 422, 429, 500, 503])


def _answer(status: int, body: bytes) -> httpx.MockTransport:
    headers = {"content-type": "application/json", "retry-after": "0.001"}
    return httpx.MockTransport(lambda request: httpx.Response(status, content=body, headers=headers))


# --- AndroidWorld ------------------------------------------------------------------------------------------------

WORLD = [{"status": "success"}, {"pixels": [[[1, 2, 3], [4, 5, 6]]]}, {"task_list": ["a", "b"]}, {"length": 3},
         {"score": 0.5}, {"goal": "do it"}, {"screenshots": "png", "commit": "abc"}]  # fmt: skip


def _world(example: tuple[int, bytes]) -> None:
    RUNNER.run(_ask_world(*example))


async def _ask_world(status: int, body: bytes) -> None:
    client = AndroidWorldClient("http://hostile")
    client._http = httpx.AsyncClient(base_url=client.url, transport=_answer(status, body))
    access = HttpAccess(client, {})
    for ask in (client.health, client.reset, client.info, client.task_list, lambda: client.task_length("a"),
                lambda: client.score("a", 0), lambda: client.goal("a", 0), lambda: access.observe(0),
                lambda: access.act(Tap(999, 999))):  # fmt: skip
        try:
            await ask()
        except InfraError as fault:
            assert len(str(fault)) < 1000 and "\n" not in str(fault)
    await client.close()


# --- OpenAI-compatible servers -----------------------------------------------------------------------------------

CHAT = [
    {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "prompt_token_ids": [1, 2], "choices": [
        {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Status: success"},
         "token_ids": [5, 6], "logprobs": {"content": [{"token": "x", "logprob": -0.5, "top_logprobs": []}] * 2}}],
     "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}},
    {"error": {"message": "no", "code": "insufficient_quota"}},
]  # fmt: skip
ASKED = [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]


def _client(status: int, body: bytes) -> AsyncOpenAI:
    http = httpx.AsyncClient(transport=_answer(status, body))
    return AsyncOpenAI(base_url="http://hostile/v1", api_key="none", max_retries=0, http_client=http)


def _model(example: tuple[int, bytes]) -> None:
    RUNNER.run(_ask_model(*example))


async def _ask_model(status: int, body: bytes) -> None:
    policy = ServerPolicy("http://hostile/v1", "m", retries=0)
    policy._client, policy._loop = _client(status, body), asyncio.get_running_loop()
    try:
        said = await policy.act(ASKED, (), Sampling(1.0, 8))
    except ConfigError as error:
        assert len(str(error)) < 1000 and "\n" not in str(error)
        return
    finally:
        await policy.close()
    assert isinstance(said, Completion) and isinstance(said.text, str)
    said.text.encode()  # the next prompt tells it again
    assert all(type(i) is int for i in (*said.token_ids, *said.prompt_ids))
    assert all(isinstance(p, float) for p in said.logprobs)


START = [{"object": "list", "data": [{"id": "m", "object": "model"}]}, {"count": 1, "token_strs": ["a", "b"]}]


def _start(example: tuple[int, bytes]) -> None:
    RUNNER.run(_try_out(*example))


async def _try_out(status: int, body: bytes) -> None:
    """All that is asked of a model server before a run, whatever was answered before."""
    client, url = _client(status, body), "http://hostile/v1"
    for ask in (server_check.check_model(client, url, "m"), server_check.negotiate(client, url, "m", 1, 5.0),
                server_check.check_template(client, url, "m")):  # fmt: skip
        try:
            await ask
        except ConfigError as error:
            assert len(str(error)) < 1500 and "\n" not in str(error)
    await client.close()


def _judge(example: tuple[int, bytes]) -> None:
    RUNNER.run(_ask_judge(*example))


@cache
def _judge_client() -> ChatClient:
    return ChatClient(JudgeSection(url="http://hostile/v1", model="m", retries=0))


async def _ask_judge(status: int, body: bytes) -> None:
    client = _judge_client()
    client._client = _client(status, body)
    try:
        (await client.ask(ASKED)).text.encode()  # it may be told again
    except (Unreachable, Refused, ConfigError) as error:
        assert len(str(error)) < 1000 and "\n" not in str(error)
    finally:
        await client.close()
    assert client.money >= 0 and client.usage.completion_tokens >= 0


def _body(seeds: list) -> st.SearchStrategy[bytes]:
    value = damaged_json(seeds).map(lambda v: json.dumps(v).encode())
    return value | value | damaged_json_text(seeds).map(lambda t: t.encode(errors="replace"))


TARGETS = [
    Target("androidworld server", st.tuples(STATUS, _body(WORLD) | st.sampled_from(PNGS)), _world),
    Target("model server", st.tuples(STATUS, _body(CHAT)), _model),
    Target("model server's start", st.tuples(STATUS, _body(START + CHAT)), _start),
    Target("judge server", st.tuples(STATUS, _body(CHAT)), _judge),
]
