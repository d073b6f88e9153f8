"""A Docker engine whose containers are labels only: it makes, lists and removes them, over the real API."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from mobilerl.envs.docker_avd.engine import NETWORK, PLACE

IMAGE = "phone"


class StandInEngine(ThreadingHTTPServer):
    """`containers` are labels by id; those in `stuck` cannot be removed. New ones wait for `may_start`."""

    daemon_threads = True

    def __init__(self, containers: Mapping[str, Mapping[str, str]] | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.containers = {name: dict(labels) for name, labels in (containers or {}).items()}
        self.stuck: set[str] = set()
        self.asked, self.may_start = threading.Event(), threading.Event()
        self.connected = 0
        """Connections that clients hold open."""
        self.served = 0
        self.first_port = 0
        """Of the containers, which have one each, by place; 0: none has any."""
        self.version = "27.1.0"
        self.info: dict[str, object] = {}
        """What it says of its host."""
        self.labels: dict[str, str] | None = None
        """The image's labels."""
        self.said = ""
        """What each container has said."""
        self.counting = threading.Lock()

    @property
    def host(self) -> str:
        return f"tcp://127.0.0.1:{self.server_port}"

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, object]:
        url = urlsplit(path)
        match [method, *[part for part in url.path.split("/")[1:] if not part.startswith("v1.")]]:
            case ["GET", "version"]:
                return 200, {"ApiVersion": "1.43", "Version": self.version}
            case ["GET", "info"]:
                return 200, {"ID": self.host, **self.info}
            case ["GET", "_ping"]:
                return 200, "OK"
            case ["GET", "images", "json"]:
                return 200, [{"Id": IMAGE}] if f'"{IMAGE}"' in parse_qs(url.query)["filters"][0] else []
            case ["GET", "images", name, "json"] if name == IMAGE:
                return 200, {"Id": IMAGE, "Config": {"Labels": self.labels}}
            case ["GET", "images", name, "json"]:
                return 404, {"message": f"No such image: {name}"}
            case ["GET", "networks"]:
                return 200, [{"Id": "n", "Name": NETWORK}]
            case ["GET", "containers", "json"]:
                wanted = json.loads(parse_qs(url.query)["filters"][0])["label"]
                return 200, [{"Id": name} for name, labels in self.containers.items() if _has(labels, wanted)]
            case ["GET", "containers", name, "json"] if name in self.containers:
                return 200, _described(name, self.containers[name], self.first_port)
            case ["POST", "containers", "create"]:
                self.asked.set()
                self.may_start.wait(10)
                name = f"new{len(self.containers)}"
                self.containers[name] = json.loads(body)["Labels"]
                return 201, {"Id": name}
            case ["GET", "containers", name, "logs"] if name in self.containers:
                return 200, self.said
            case ["POST", "containers", _, "start"]:
                return 204, None
            case ["DELETE", "containers", name] if name in self.stuck:
                return 500, {"message": f"{name} is busy"}
            case ["DELETE", "containers", name] if name in self.containers:
                del self.containers[name]
                return 204, None
        return 404, {"message": f"no {path}"}


def _has(labels: Mapping[str, str], wanted: list[str]) -> bool:
    return all(
        labels.get(name) == value if sign else name in labels
        for name, sign, value in (label.partition("=") for label in wanted)
    )


def _described(name: str, labels: Mapping[str, str], first_port: int) -> dict[str, object]:
    ports = {"5555/tcp": [{"HostPort": str(first_port + int(labels[PLACE]))}]} if first_port else {}
    return {
        "Id": name,
        "Name": f"/{name}",
        "State": {"Status": "running"},
        "NetworkSettings": {"Ports": ports},
        "Config": {"Labels": labels, "Image": IMAGE, "Tty": True},
    }


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # or the second half of each answer waits 40 ms
    server: StandInEngine

    def setup(self) -> None:
        super().setup()
        with self.server.counting:
            self.server.connected += 1
            self.server.served += 1

    def finish(self) -> None:
        super().finish()
        with self.server.counting:
            self.server.connected -= 1

    def do_GET(self) -> None:
        asked = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        status, said = self.server.answer(self.command, self.path, asked)
        body = b"" if said is None else said.encode() if isinstance(said, str) else json.dumps(said).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(body)

    do_DELETE = do_POST = do_GET

    def log_message(self, *_: object) -> None:
        """The tests' output is no log."""


@contextmanager
def served(containers: Mapping[str, Mapping[str, str]] | None = None) -> Iterator[StandInEngine]:
    engine = StandInEngine(containers)
    serving = threading.Thread(target=engine.serve_forever, args=(0.02,), daemon=True)
    serving.start()
    try:
        yield engine
    finally:
        engine.shutdown()
        serving.join()
        engine.server_close()
