"""Servers and devices that mean harm: answers without end, packed bombs, claims of gigabytes, bytes that trickle."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache

import pytest

import envs.adb
import envs.androidworld.client as world
import mobilerl.model_servers as model_servers
from envs.adb import AdbTransport
from envs.androidworld.client import AndroidWorldClient
from envs.androidworld.faults import ServerFault, WrongServer
from envs.base import InfraError
from mobilerl.agent import server_check
from mobilerl.agent.server import ServerPolicy
from mobilerl.config import ConfigError, JudgeSection
from mobilerl.engines.base import Sampling
from mobilerl.judge.client import ChatClient, Unreachable
from mobilerl.records import Completion

LIMIT = 4 << 20
ASKED = [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]
MEGABYTE = b"a" * (1 << 20)


class Peer:
    """Gives everybody who connects what `talk(connection)` sends; counts the bytes that went out."""

    def __init__(self, talk: Callable[[Peer, socket.socket], None]) -> None:
        self.sent = 0
        self._talk = talk
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._one, args=(connection,), daemon=True).start()

    def _one(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.settimeout(20)
            self._talk(self, connection)

    def send(self, connection: socket.socket, data: bytes) -> None:
        connection.sendall(data)
        self.sent += len(data)

    def stop(self) -> None:
        self._socket.close()


@pytest.fixture
def peer() -> Iterator[Callable[[Callable[[Peer, socket.socket], None]], Peer]]:
    made: list[Peer] = []

    def make(talk: Callable[[Peer, socket.socket], None]) -> Peer:
        made.append(Peer(talk))
        return made[-1]

    yield make
    for one in made:
        one.stop()


@pytest.fixture(autouse=True)
def small_limits(monkeypatch):
    """The limits that users have are a few hundred times as high; the code under test is the same."""
    monkeypatch.setattr(model_servers, "MAX_ANSWER", LIMIT)
    monkeypatch.setattr(world, "MAX_ANSWER", LIMIT)
    monkeypatch.setattr(envs.adb, "MAX_ANSWER", LIMIT)


# --- over HTTP ---------------------------------------------------------------------------------------------------


def head(*more: str, status: str = "200 OK") -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", "Content-Type: application/json", *more, "", ""]).encode()


def endless(peer: Peer, connection: socket.socket) -> None:
    connection.recv(1 << 16)
    peer.send(connection, head("Transfer-Encoding: chunked"))
    while True:
        peer.send(connection, b"100000\r\n" + MEGABYTE + b"\r\n")


def claims_gigabytes(peer: Peer, connection: socket.socket) -> None:
    connection.recv(1 << 16)
    peer.send(connection, head(f"Content-Length: {1 << 40}"))
    while True:
        peer.send(connection, MEGABYTE)


@cache
def bomb() -> bytes:
    """About 200 kB that unpack to 200 MB."""
    return gzip.compress(bytes(200 << 20), 6)


def packed_bomb(peer: Peer, connection: socket.socket) -> None:
    connection.recv(1 << 16)
    body = bomb()
    peer.send(connection, head("Content-Encoding: gzip", f"Content-Length: {len(body)}") + body)


def trickle(peer: Peer, connection: socket.socket) -> None:
    connection.recv(1 << 16)
    peer.send(connection, head("Content-Length: 100000"))
    while True:
        peer.send(connection, b" ")
        time.sleep(0.05)


def endless_head(peer: Peer, connection: socket.socket) -> None:
    connection.recv(1 << 16)
    peer.send(connection, b"HTTP/1.1 200 OK\r\n")
    while True:
        peer.send(connection, b"X-More: " + MEGABYTE[:60_000] + b"\r\n")


def nested(peer: Peer, connection: socket.socket) -> None:
    connection.recv(1 << 16)
    body = b"[" * 200_000
    peer.send(connection, head(f"Content-Length: {len(body)}") + body)


ATTACKS = {
    "nested": nested,
    "endless": endless,
    "gigabytes": claims_gigabytes,
    "bomb": packed_bomb,
    "trickle": trickle,
    "head": endless_head,
}
attacks = pytest.mark.parametrize("attack", ATTACKS)


def patience(attack: str) -> float:
    """Seconds that are waited: the deadline is what ends a trickle; on a busy machine the others take their time."""
    return 2.0 if attack == "trickle" else 15.0


def model(url: str, seconds: float = 15.0) -> str:
    async def ask() -> None:
        policy = ServerPolicy(f"{url}/v1", "m", timeout_s=seconds, retries=0)
        try:
            await policy.act(ASKED, (), Sampling(1.0, 8))
        finally:
            await policy.close()

    with pytest.raises(ConfigError) as fault:
        asyncio.run(ask())
    return str(fault.value)


def judge(url: str, seconds: float) -> str:
    async def ask() -> None:
        client = ChatClient(JudgeSection(url=f"{url}/v1", model="m", timeout_s=seconds, retries=0))
        try:
            await client.ask(ASKED)
        finally:
            await client.close()

    with pytest.raises(Unreachable) as fault:
        asyncio.run(ask())
    return str(fault.value)


def androidworld(url: str, seconds: float = 2.0) -> str:
    async def ask() -> None:
        client = AndroidWorldClient(url, longest_init_s=seconds / 2)
        try:
            await client.task_list()
        finally:
            await client.close()

    with pytest.raises(ServerFault) as fault:
        asyncio.run(ask())
    return str(fault.value)


def looked_at(url: str, seconds: float = 15.0) -> str:
    with pytest.raises(ConfigError) as fault:
        server_check.connect(f"{url}/v1", "m", timeout_s=seconds)
    return str(fault.value)


@pytest.mark.parametrize("first", ["list of models", "completion"])
@attacks
def test_a_model_server_is_not_waited_for_at_the_start_either(peer, monkeypatch, attack, first):
    monkeypatch.setattr(server_check, "MODELS_TIMEOUT_S", patience(attack))
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.01)

    def talk(peer: Peer, connection: socket.socket) -> None:
        if first == "completion" and b"/models" in connection.recv(1 << 16, socket.MSG_PEEK):
            answering({"object": "list", "data": [{"id": "m", "object": "model"}]})(peer, connection)
        else:
            ATTACKS[attack](peer, connection)

    server = peer(talk)
    began = time.monotonic()
    said = looked_at(server.url, patience(attack))
    assert "\n" not in said and len(said) < 500
    assert time.monotonic() - began < 25
    assert server.sent < (1 + server_check.RETRIES) * (LIMIT + (24 << 20))
    if attack in ("endless", "gigabytes", "bomb"):
        assert "more than 4 MB" in said
    if attack == "trickle":
        assert "no answer within 2 s" in said


def test_names_of_models_are_not_quoted_at_any_length(peer):
    names = [{"id": f"{i}\n" + "x" * 100_000} for i in range(20)]
    said = looked_at(peer(answering({"object": "list", "data": names})).url)
    assert "\n" not in said and len(said) < 1500 and said.endswith("and others")


@pytest.mark.parametrize("client", [model, judge, androidworld])
@attacks
def test_an_answer_without_end_is_given_up(peer, monkeypatch, client, attack):
    monkeypatch.setattr(world, "QUICK_S", patience(attack) / 2)
    server = peer(ATTACKS[attack])
    began = time.monotonic()
    said = client(server.url, patience(attack))
    assert "\n" not in said and len(said) < 500
    assert time.monotonic() - began < 25
    assert server.sent < LIMIT + (24 << 20)  # what stands in the sockets' buffers is read by nobody
    if attack in ("endless", "gigabytes", "bomb"):
        assert "more than 4 MB" in said


def answering(value: object) -> Callable[[Peer, socket.socket], None]:
    def talk(peer: Peer, connection: socket.socket) -> None:
        connection.recv(1 << 16)
        body = json.dumps(value).encode()
        peer.send(connection, head(f"Content-Length: {len(body)}") + body)

    return talk


def chat(**choice: object) -> dict[str, object]:
    message = {"role": "assistant", "content": "hi"}
    return {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "prompt_token_ids": [None, 2],
            "choices": [{"index": 0, "finish_reason": "stop", "message": message, **choice}],
            "usage": {"prompt_tokens": -5, "completion_tokens": -7, "total_tokens": 0}}  # fmt: skip


WRONG = [
    {"token_ids": [1, "2"], "logprobs": {"content": [{"logprob": -1.0}, {"logprob": -1.0}]}},
    {"token_ids": [1, -2], "logprobs": {"content": [{"logprob": -1.0}, {"logprob": -1.0}]}},
    {"token_ids": "ab", "logprobs": {"content": [{"logprob": -1.0}, {"logprob": -1.0}]}},
    {"token_ids": [1], "logprobs": {"content": [{"logprob": float("nan")}]}},
    {"token_ids": [1], "logprobs": {"content": [3]}},
    {"token_ids": [1], "logprobs": {"content": "x"}},
]


@pytest.mark.parametrize("choice", WRONG)
def test_token_ids_and_log_probabilities_that_are_none_are_left_out(peer, choice):
    async def ask() -> Completion:
        policy = ServerPolicy(f"{peer(answering(chat(**choice))).url}/v1", "m", retries=0)
        try:
            return await policy.act(ASKED, (), Sampling(1.0, 8))
        finally:
            await policy.close()

    assert asyncio.run(ask()) == Completion((), (), (), 0, "hi")


def test_a_message_that_is_none_is_no_completion(peer):
    assert "not a chat completion" in model(peer(answering(chat(message=None))).url)


def test_nobody_earns_money_by_asking(peer):
    async def ask() -> float:
        url = f"{peer(answering(chat())).url}/v1"
        client = ChatClient(JudgeSection(url=url, model="m", retries=0, prompt_price=1.0, completion_price=1.0))
        try:
            assert (await client.ask(ASKED)).text == "hi"
        finally:
            await client.close()
        assert client.usage.unmetered == 1
        return client.money

    assert asyncio.run(ask()) == 0.0


def test_a_packed_answer_of_an_ordinary_size_is_read(peer):
    def talk(peer: Peer, connection: socket.socket) -> None:
        connection.recv(1 << 16)
        body = gzip.compress(b'{"task_list": ["a"]}')
        peer.send(connection, head("Content-Encoding: gzip", f"Content-Length: {len(body)}") + body)

    async def ask() -> list[str]:
        return await AndroidWorldClient(peer(talk).url).task_list()

    assert asyncio.run(ask()) == ["a"]


def test_a_screenshot_that_is_none_is_the_servers_fault(peer):
    def talk(peer: Peer, connection: socket.socket) -> None:
        asked = connection.recv(1 << 16)
        body = b'{"screenshots": "png"}' if b"/info" in asked else b"\x89PNG\r\n\x1a\nno picture"
        peer.send(connection, head(f"Content-Length: {len(body)}") + body)

    async def ask() -> bytes:
        return await AndroidWorldClient(peer(talk).url).screenshot()

    with pytest.raises(WrongServer, match="GET /screenshot.png gives no PNG"):
        asyncio.run(ask())


def test_androidworld_is_not_followed_elsewhere(peer):
    def talk(peer: Peer, connection: socket.socket) -> None:
        connection.recv(1 << 16)
        peer.send(connection, head("Location: http://169.254.169.254/secret", "Content-Length: 0", status="302 Found"))

    assert "answered 302" in androidworld(peer(talk).url)


# --- adb ---------------------------------------------------------------------------------------------------------


def opened(connection: socket.socket) -> None:
    """An adb server up to where the device's service has begun."""
    for _ in range(2):
        length = int(connection.recv(4, socket.MSG_WAITALL), 16)
        connection.recv(length, socket.MSG_WAITALL)
        connection.sendall(b"OKAY")


def shouts(peer: Peer, connection: socket.socket) -> None:
    opened(connection)
    while True:
        peer.send(connection, struct.pack("<BI", 1, len(MEGABYTE)) + MEGABYTE)


def one_huge_packet(peer: Peer, connection: socket.socket) -> None:
    opened(connection)
    peer.send(connection, struct.pack("<BI", 1, 0xFFFFFFFF))
    while True:
        peer.send(connection, MEGABYTE)


def one_huge_file(peer: Peer, connection: socket.socket) -> None:
    opened(connection)
    peer.send(connection, b"DATA" + struct.pack("<I", 0xFFFFFFFF))
    while True:
        peer.send(connection, MEGABYTE)


def file_without_end(peer: Peer, connection: socket.socket) -> None:
    opened(connection)
    while True:
        peer.send(connection, b"DATA" + struct.pack("<I", len(MEGABYTE)) + MEGABYTE)


def long_refusal(peer: Peer, connection: socket.socket) -> None:
    opened(connection)
    peer.send(connection, b"FAIL" + struct.pack("<I", 0xFFFFFFFF))
    while True:
        peer.send(connection, MEGABYTE)


def whispers(peer: Peer, connection: socket.socket) -> None:
    opened(connection)
    while True:
        peer.send(connection, struct.pack("<BI", 1, 1) + b"a")
        time.sleep(0.05)


ASKS = {
    shouts: lambda device: device.shell(("id",), 5.0),
    one_huge_packet: lambda device: device.shell(("id",), 5.0),
    whispers: lambda device: device.shell(("id",), 1.0),
    one_huge_file: lambda device: device.pull("/a"),
    file_without_end: lambda device: device.pull("/a"),
    long_refusal: lambda device: device.pull("/a"),
}


@pytest.mark.parametrize("attack", ASKS, ids=lambda attack: attack.__name__)
def test_a_device_that_never_stops_is_given_up(peer, attack):
    server = peer(attack)
    began = time.monotonic()
    with pytest.raises(InfraError, match=r"more than 4 MB|no end after 1 s|timed out") as fault:
        ASKS[attack](AdbTransport("usb", "127.0.0.1", server.port))
    assert "\n" not in str(fault.value) and time.monotonic() - began < 10
    assert server.sent < LIMIT + (24 << 20)


def test_a_pull_brings_the_whole_file_or_says_why_not(peer):
    def talk(peer: Peer, connection: socket.socket) -> None:
        opened(connection)
        asked = connection.recv(1 << 16)
        assert asked == b"RECV" + struct.pack("<I", 7) + b"/s/\xc3\xa9.b"
        peer.send(connection, b"DATA" + struct.pack("<I", 3) + b"abc" + b"DATA" + struct.pack("<I", 2) + b"de")
        peer.send(connection, b"DONE" + struct.pack("<I", 0))

    assert AdbTransport("usb", "127.0.0.1", peer(talk).port).pull("/s/é.b") == b"abcde"

    def refuse(peer: Peer, connection: socket.socket) -> None:
        opened(connection)
        connection.recv(1 << 16)
        peer.send(connection, b"FAIL" + struct.pack("<I", 9) + b"not there")

    with pytest.raises(InfraError, match="usb: pull /a failed: not there"):
        AdbTransport("usb", "127.0.0.1", peer(refuse).port).pull("/a")
