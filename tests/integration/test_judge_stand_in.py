"""A stand-in for an OpenAI-compatible server, which the judge's other tests ask, and what it answers itself."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from openai import OpenAI

SUCCESS, FAILURE, NONSENSE = "Q: x\nA: x\nStatus: success", "Q: x\nA: y\nStatus: failure", "I cannot tell."


@dataclass
class Asked:
    """One request as it came in. `at` is in seconds of time.monotonic."""

    path: str
    key: str
    body: dict[str, Any]
    at: float

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
    trickle_s: float = 0.0
    """Seconds between the bytes of the body."""


def completion(text: str, finish: str = "stop", usage: Any = (100, 20)) -> Raw:
    said = {"role": "assistant", "content": text}
    body: dict[str, Any] = {
        "id": "c-1", "object": "chat.completion", "created": 1, "model": "judge-1",
        "choices": [{"index": 0, "finish_reason": finish, "message": said}],
    }  # fmt: skip
    if usage is not None:
        prompt, replied = usage
        body["usage"] = {"prompt_tokens": prompt, "completion_tokens": replied, "total_tokens": prompt + replied}
    return Raw(body=json.dumps(body).encode())


def error(status: int, message: str, code: str | None = None, **headers: str) -> Raw:
    body = {"error": {"message": message, "type": "error", "param": None, "code": code}}
    return Raw(status, json.dumps(body).encode(), {"Content-Type": "application/json", **headers})


Answer = str | Raw


class StandIn:
    """Answers with `answers` one after another (the last one again when they run out), or with what `answer` returns.

    An answer that is a text becomes a chat completion.
    """

    def __init__(self) -> None:
        self.answers: Sequence[Answer] = (SUCCESS,)
        self.answer: Callable[[Asked], Answer] | None = None
        self.asked: list[Asked] = []
        self.at_once = self.most_at_once = 0
        self._lock = threading.Lock()
        self.released = threading.Event()
        """Set at the end: an answer that hangs waits for it."""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def close(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()

    def hang(self, asked: Asked) -> Answer:
        self.released.wait(60)
        return SUCCESS

    def _respond(self, asked: Asked) -> Raw:
        with self._lock:
            self.asked.append(asked)
            position = len(self.asked) - 1
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            answer = self.answer(asked) if self.answer else self.answers[min(position, len(self.answers) - 1)]
        finally:
            with self._lock:
                self.at_once -= 1
        return completion(answer) if isinstance(answer, str) else answer

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        stand_in = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                at = time.monotonic()
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                key = self.headers.get("Authorization", "").removeprefix("Bearer ")
                raw = stand_in._respond(Asked(self.path, key, body, at))
                try:
                    self._send(raw)
                except ConnectionError:
                    self.close_connection = True  # who asked has given up

            def _send(self, raw: Raw) -> None:
                self.send_response(raw.status)
                for name, value in ({"Content-Length": str(len(raw.body))} | raw.headers).items():
                    self.send_header(name.replace("_", "-"), value)
                self.end_headers()
                step = 1 if raw.trickle_s else max(1, len(raw.body))
                for i in range(0, len(raw.body), step):
                    self.wfile.write(raw.body[i : i + step])
                    self.wfile.flush()
                    if raw.trickle_s and stand_in.released.wait(raw.trickle_s):
                        return

            def log_message(self, *_: object) -> None:
                pass

        return Handler


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    server = StandIn()
    yield server
    server.close()


def test_the_client_library_takes_the_stand_in_for_a_real_server(stand_in):
    stand_in.answers = (SUCCESS, error(404, "no such model"))
    client = OpenAI(base_url=stand_in.url, api_key="k", max_retries=0)
    reply = client.chat.completions.create(model="judge-1", messages=[{"role": "user", "content": "hello"}])
    assert reply.choices[0].message.content == SUCCESS and reply.usage.total_tokens == 120
    with pytest.raises(Exception, match="no such model") as caught:
        client.chat.completions.create(model="judge-2", messages=[{"role": "user", "content": "hello"}])
    assert caught.value.status_code == 404
    assert [(a.path, a.key, a.body["model"]) for a in stand_in.asked] == [
        ("/v1/chat/completions", "k", "judge-1"),
        ("/v1/chat/completions", "k", "judge-2"),
    ]
