"""A stand-in for the OpenAI-compatible server of a judge."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import http_stand_in
import pytest

SUCCESS, FAILURE, NONSENSE = "Q: x\nA: x\nStatus: success", "Q: x\nA: y\nStatus: failure", "I cannot tell."


@dataclass
class Asked:
    """One request."""

    body: dict[str, Any]

    @property
    def texts(self) -> list[str]:
        """The text of every message."""
        contents = [m["content"] for m in self.body["messages"]]
        return [c if isinstance(c, str) else "".join(p.get("text", "") for p in c) for c in contents]

    @property
    def images(self) -> list[bytes]:
        parts = [p for m in self.body["messages"] if isinstance(m["content"], list) for p in m["content"]]
        urls = [p["image_url"]["url"] for p in parts if p["type"] == "image_url"]
        return [base64.b64decode(u.removeprefix("data:image/png;base64,"), validate=True) for u in urls]


@dataclass
class Raw:
    """An answer other than a chat completion."""

    status: int = 200
    body: bytes = b"{}"
    headers: dict[str, str] = field(default_factory=lambda: {"Content-Type": "application/json"})


def completion(text: str, finish: str = "stop", usage: tuple[int, int] = (100, 20)) -> Raw:
    body = http_stand_in.completion(text, "judge-1")
    body["choices"][0]["finish_reason"] = finish
    body["usage"] = {"prompt_tokens": usage[0], "completion_tokens": usage[1], "total_tokens": sum(usage)}
    return Raw(body=json.dumps(body).encode())


def error(status: int, message: str, code: str | None = None, **headers: str) -> Raw:
    body = {"error": {"message": message, "type": "error", "param": None, "code": code}}
    return Raw(status, json.dumps(body).encode(), {"Content-Type": "application/json", **headers})


class StandIn(http_stand_in.Server):
    """Answers with `answers` one after another, repeating the last, or with the result of `answer`.

    An answer that is a text becomes a chat completion.
    """

    def __init__(self) -> None:
        self.answers: Sequence[str | Raw] = (SUCCESS,)
        self.answer: Callable[[Asked], str] | None = None
        self.asked: list[Asked] = []
        self.lock = threading.Lock()
        super().__init__(_Handler)

    @property
    def url(self) -> str:
        return f"{super().url}/v1"

    def respond(self, asked: Asked) -> Raw:
        with self.lock:
            position = len(self.asked)
            self.asked.append(asked)
        answer = self.answer(asked) if self.answer else self.answers[min(position, len(self.answers) - 1)]
        return completion(answer) if isinstance(answer, str) else answer


class _Handler(http_stand_in.Handler):
    server: StandIn

    def do_POST(self) -> None:
        raw = self.server.respond(Asked(self.body()))
        self.send_response(raw.status)
        for name, value in ({"Content-Length": str(len(raw.body))} | raw.headers).items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(raw.body)


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    server = StandIn()
    yield server
    server.stop()
