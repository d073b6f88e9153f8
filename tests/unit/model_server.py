"""Stand-ins for OpenAI-compatible model servers, which speak HTTP and know no model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from http_stand_in import Handler, Server

from mobilerl.inference.server import ServerPolicy
from mobilerl.records.engine import Sampling

OPENAI_FIELDS = {"model", "messages", "temperature", "max_tokens", "max_completion_tokens", "stop", "logprobs", "top_p"}
VLLM_FIELDS = {"return_token_ids", "top_k", "min_p", "repetition_penalty"}
RESPONSE = '<think>so</think><answer>do(action="Back")'
ASKED = [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]


class StandIn(Server):
    """Answers as `answer(body)` says: a dict is a chat completion, a number a status, a str a body as it is."""

    def __init__(self, answer: Callable[[dict[str, Any]], Any], models: Any = ("vlm",)) -> None:
        self.answer, self.models = answer, models
        self.bodies: list[dict[str, Any]] = []
        self.prompt: list[str] | None = None
        """What /tokenize says of a prompt; None: there is no such page."""
        super().__init__(_Handler)

    @property
    def url(self) -> str:
        return f"{super().url}/v1"


class _Handler(Handler):
    text_type = "text/html"
    server: StandIn

    def do_GET(self) -> None:
        models = self.server.models
        if self.path != "/v1/models" or isinstance(models, int):
            self._send(models if isinstance(models, int) else 404, {"error": {"message": "no such page"}})
        elif isinstance(models, str):
            self._send(200, models)
        else:
            self._send(200, {"object": "list", "data": [{"id": name, "object": "model"} for name in models]})

    def do_POST(self) -> None:
        body = self.body()
        if self.path == "/tokenize" and self.server.prompt is not None:
            return self._send(200, {"count": 1, "token_strs": self.server.prompt})
        if self.path == "/tokenize":
            return self._send(404, {"detail": "Not Found"})
        self.server.bodies.append(body)
        if self.path != "/v1/chat/completions":
            return self._send(404, {"error": {"message": "no such page"}})
        answer = self.server.answer(body)
        if isinstance(answer, int):
            return self._send(answer, {"error": {"message": f"status {answer}"}})
        if isinstance(answer, tuple):
            return self._send(answer[0], {"error": {"message": answer[1]}})
        return self._send(200, answer)

    def _send(self, status: int, content: Any) -> None:
        self.respond(content, status)


def completion(
    text: str | None = RESPONSE, ids: tuple[int, ...] = (), logprobs: tuple[float, ...] = (), **message: Any
):
    choice: dict[str, Any] = {
        "index": 0,
        "finish_reason": message.pop("finish_reason", "stop"),
        "message": {"role": "assistant", "content": text, **message},
    }
    if ids:
        choice["token_ids"] = list(ids)
    if logprobs:
        choice["logprobs"] = {"content": [{"token": "x", "logprob": p, "top_logprobs": []} for p in logprobs]}
    response = {"id": "1", "object": "chat.completion", "created": 0, "model": "vlm", "choices": [choice]}
    return response | ({"prompt_token_ids": [7, 8, 9]} if ids else {})


def like_vllm(body: dict[str, Any]) -> Any:
    if body.get("return_token_ids"):
        return completion(ids=(5, 6), logprobs=(-0.5, -0.25) if body.get("logprobs") else ())
    return completion(logprobs=(-0.5, -0.25) if body.get("logprobs") else ())


def strict(body: dict[str, Any]) -> Any:
    """As OpenAI's own endpoint: a field it does not know is an error."""
    wrong = [name for name in body if name not in OPENAI_FIELDS]
    return (400, f"Unrecognized request argument supplied: {wrong[0]}") if wrong else like_vllm(body)


@pytest.fixture(name="stand_in")
def stand_in_fixture() -> Iterator[Callable[..., StandIn]]:
    made: list[StandIn] = []

    def make(answer: Callable[[dict[str, Any]], Any] = like_vllm, **options: Any) -> StandIn:
        made.append(StandIn(answer, **options))
        return made[-1]

    yield make
    for server in made:
        server.stop()


def act(policy: ServerPolicy, messages=ASKED, images=(), temperature: float = 1.0):
    async def once():
        try:
            return await policy.act(messages, images, Sampling(temperature, 32))
        finally:
            await policy.close()

    return asyncio.run(once())
