"""What servers answer: AndroidWorld's, model servers', judges'. Over the real client libraries, without a network."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import httpx
from damage import damaged_json, damaged_json_text
from fuzzing import Target
from hypothesis import strategies as st
from openai import AsyncOpenAI
from phone_targets import PNGS

from mobilerl.config import ConfigError
from mobilerl.envs.androidworld.access import HttpAccess
from mobilerl.envs.androidworld.client import AndroidWorldClient
from mobilerl.envs.base import InfraError, Tap
from mobilerl.inference.server import ServerPolicy
from mobilerl.records import Completion
from mobilerl.records.engine import Sampling

RUNNER = asyncio.Runner()
"""One event loop for all: clients belong to one, and are slow to make."""
STATUS = st.sampled_from([200] * 12 + [201, 204, 301, 400, 401, 404, 422, 429, 500, 503])


def _answer(status: int, body: bytes) -> httpx.MockTransport:
    headers = {"content-type": "application/json", "retry-after": "0.001"}

    async def parts() -> AsyncIterator[bytes]:
        yield body

    return httpx.MockTransport(lambda request: httpx.Response(status, content=parts(), headers=headers))


# --- AndroidWorld ------------------------------------------------------------------------------------------------

WORLD = [
    {"status": "success"},
    {"pixels": [[[1, 2, 3], [4, 5, 6]]]},
    {"task_list": ["a", "b"]},
    {"length": 3},
    {"score": 0.5},
    {"goal": "do it"},
]


async def _world(status: int, body: bytes) -> None:
    client = AndroidWorldClient("http://hostile")
    client._http = httpx.AsyncClient(base_url=client.url, transport=_answer(status, body))
    access = HttpAccess(client, {})
    for ask in (
        client.health,
        client.reset,
        client.task_list,
        lambda: client.score("a", 0),
        lambda: client.goal("a", 0),
        lambda: access.observe(0),
        lambda: access.act(Tap(999, 999)),
    ):
        try:
            await ask()
        except InfraError as fault:
            assert len(str(fault)) < 1000 and "\n" not in str(fault)
    await client.close()


# --- OpenAI-compatible servers -----------------------------------------------------------------------------------

CHAT = [
    {
        "id": "1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "prompt_token_ids": [1, 2],
        "choices": [
            {
                "index": 0,
                "finish_reason": "stop",
                "message": {"role": "assistant", "content": "Status: success"},
                "token_ids": [5, 6],
                "logprobs": {"content": [{"token": "x", "logprob": -0.5, "top_logprobs": []}] * 2},
            }
        ],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
    },
    {"error": {"message": "no", "code": "insufficient_quota"}},
]
ASKED = [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]


async def _model(status: int, body: bytes) -> None:
    policy = ServerPolicy("http://hostile/v1", "m", retries=0)
    policy.client._here()
    http = httpx.AsyncClient(transport=_answer(status, body))
    policy.client._client = AsyncOpenAI(base_url=policy.client.url, api_key="none", max_retries=0, http_client=http)
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


def _body(seeds: list) -> st.SearchStrategy[bytes]:
    value = damaged_json(seeds).map(lambda v: json.dumps(v).encode())
    return value | value | damaged_json_text(seeds).map(lambda t: t.encode(errors="replace"))


TARGETS = [
    Target(
        "androidworld server",
        st.tuples(STATUS, _body(WORLD) | st.sampled_from(PNGS)),
        lambda answer: RUNNER.run(_world(*answer)),
    ),
    Target("model server", st.tuples(STATUS, _body(CHAT)), lambda answer: RUNNER.run(_model(*answer))),
]
