"""What the tests' stand-in HTTP servers share: reading a JSON body, and answering."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Handler(BaseHTTPRequestHandler):
    """One connection. Subclasses have do_GET and do_POST; nothing is logged."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # or every answer waits 40 ms for the acknowledgment of its head
    text_type = "text/plain; charset=utf-8"

    def body(self) -> Any:
        """The request's JSON; None when it has no body."""
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        return json.loads(data) if data else None

    def respond(self, content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        """Text goes out as it is, anything else as JSON."""
        text = isinstance(content, str)
        data = (content if text else json.dumps(content)).encode()
        self.send_response(status)
        self.send_header("Content-Type", self.text_type if text else "application/json")
        self.send_header("Content-Length", str(len(data)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    """Answers in threads of this process, from the start until `stop`."""

    daemon_threads = True

    def __init__(self, handler: type[Handler], port: int = 0, host: str = "127.0.0.1") -> None:
        super().__init__((host, port), handler)
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def stop(self) -> None:
        """New connections are refused after this."""
        self.shutdown()
        self.server_close()


def completion(text: str, model: str = "vlm") -> dict[str, Any]:
    """A chat completion, as OpenAI's API gives it."""
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    return {"id": "1", "object": "chat.completion", "created": 1, "model": model, "choices": [choice]}


def text_of(message: dict[str, Any]) -> str:
    """The text of a chat message, without its images."""
    content = message["content"]
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


class ChatServer(Server):
    """An OpenAI-compatible server. `answer(request)` gives a text, or None for 404; `asked` has the requests."""

    def __init__(self, answer: Callable[[dict[str, Any]], str | None], models: Sequence[str] = ("vlm",)) -> None:
        self.answer, self.models = answer, models
        self.asked: list[dict[str, Any]] = []
        super().__init__(_Chat)

    @property
    def url(self) -> str:
        return f"{super().url}/v1"


class _Chat(Handler):
    server: ChatServer

    def do_GET(self) -> None:
        self.respond({"object": "list", "data": [{"id": name} for name in self.server.models]})

    def do_POST(self) -> None:
        request = self.body()
        self.server.asked.append(request)
        text = self.server.answer(request)
        self.respond("no answer", 404) if text is None else self.respond(completion(text, request["model"]))
