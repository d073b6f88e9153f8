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

import openai
import pytest

import mobilerl.envs.adb
import mobilerl.envs.androidworld.client as world
import mobilerl.inference.client as chat_client
from mobilerl.config import ConfigError, JudgeSection
from mobilerl.envs.adb import AdbTransport
from mobilerl.envs.androidworld.client import AndroidWorldClient
from mobilerl.envs.androidworld.faults import ServerFault
from mobilerl.envs.base import InfraError, Invalid
from mobilerl.inference.client import Unreachable, Usage
from mobilerl.inference.server import PROBE_RETRIES, ServerPolicy
from mobilerl.judge.judge import Judge
from mobilerl.policy.parsing import parse_response
from mobilerl.records import Completion
from mobilerl.records.engine import Sampling

LIMIT = 4 << 20
ASKED = [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]
MEGABYTE = b"a" * (1 << 20)


class Peer:
    """Calls `talk(connection)` for everybody who connects; counts the bytes that went out."""

    def __init__(self, talk: Callable[[Peer, socket.socket], None]) -> None:
        self.sent = 0
        self._talk = talk
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with suppress(OSError):  # closed
            while True:
                threading.Thread(target=self._one, args=self.socket.accept()[:1], daemon=True).start()

    def _one(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.settimeout(60)
            self._talk(self, connection)

    def send(self, connection: socket.socket, data: bytes) -> None:
        connection.sendall(data)
        self.sent += len(data)


@pytest.fixture
def peer() -> Iterator[Callable[[Callable[[Peer, socket.socket], None]], Peer]]:
    made: list[Peer] = []

    def make(talk: Callable[[Peer, socket.socket], None]) -> Peer:
        made.append(Peer(talk))
        return made[-1]

    yield make
    for one in made:
        one.socket.close()


@pytest.fixture(autouse=True)
def small_limits(monkeypatch):
    """The limits that users have are a few hundred times as high; the code under test is the same."""
    monkeypatch.setattr(chat_client, "MAX_ANSWER", LIMIT)
    monkeypatch.setattr(world, "MAX_ANSWER", LIMIT)
    monkeypatch.setattr(mobilerl.envs.adb, "MAX_ANSWER", LIMIT)


# --- over HTTP ---------------------------------------------------------------------------------------------------


def head(*more: str) -> bytes:
    return "\r\n".join(["HTTP/1.1 200 OK", "Content-Type: application/json", *more, "", ""]).encode()


def endless(peer: Peer, connection: socket.socket) -> None:
    connection.recv(1 << 16)
    peer.send(connection, head("Transfer-Encoding: chunked"))
    while True:
        peer.send(connection, b"100000\r\n" + MEGABYTE + b"\r\n")


@cache
def packed() -> bytes:
    return gzip.compress(bytes(200 << 20), 1)


def packed_bomb(peer: Peer, connection: socket.socket) -> None:
    """200 MB packed into about 200 kB."""
    connection.recv(1 << 16)
    body = packed()
    peer.send(connection, head("Content-Encoding: gzip", f"Content-Length: {len(body)}") + body)


def trickle(peer: Peer, connection: socket.socket) -> None:
    connection.recv(1 << 16)
    peer.send(connection, head("Content-Length: 100000"))
    while True:
        peer.send(connection, b" ")
        time.sleep(0.05)


def nested(peer: Peer, connection: socket.socket) -> None:
    connection.recv(1 << 16)
    body = b"[" * 200_000
    peer.send(connection, head(f"Content-Length: {len(body)}") + body)


@cache
def packed_twice() -> bytes:
    return gzip.compress(gzip.compress(bytes(1 << 30), 1), 9)


def layered_bomb(peer: Peer, connection: socket.socket) -> None:
    """1 GB packed twice, into some kB: httpx unpacks a part of it through both layers at once."""
    connection.recv(1 << 16)
    body = packed_twice()
    peer.send(connection, head("Content-Encoding: gzip, gzip", f"Content-Length: {len(body)}") + body)


PACKED = {"bomb": packed, "layers": packed_twice}
"""Bodies that take a while to make, which is not the client's time."""
ATTACKS = {"nested": nested, "endless": endless, "bomb": packed_bomb, "layers": layered_bomb, "trickle": trickle}


async def model(url: str, seconds: float) -> None:
    policy = ServerPolicy(f"{url}/v1", "m", timeout_s=seconds, retries=0)
    try:
        await policy.act(ASKED, (), Sampling(1.0, 8))
    finally:
        await policy.close()


async def androidworld(url: str, seconds: float) -> None:
    client = AndroidWorldClient(url, longest_init_s=seconds / 2)
    try:
        await client.task_list()
    finally:
        await client.close()


@pytest.mark.parametrize("client", [model, androidworld])
@pytest.mark.parametrize("attack", ATTACKS)
def test_an_endless_answer_is_given_up(peer, monkeypatch, client, attack):
    seconds = 1.0 if attack == "trickle" else 30.0  # a trickle is ended by the deadline, the others by the size
    monkeypatch.setattr(world, "QUICK_S", seconds / 2)
    monkeypatch.setattr(chat_client, "MODELS_TIMEOUT_S", seconds)
    monkeypatch.setattr(openai._base_client, "INITIAL_RETRY_DELAY", 0.01)
    if attack in PACKED:
        PACKED[attack]()
    server = peer(ATTACKS[attack])
    began = time.monotonic()
    with pytest.raises((ConfigError, Unreachable, ServerFault)) as fault:
        asyncio.run(client(server.url, seconds))
    said = str(fault.value)
    assert "\n" not in said and len(said) < 500
    assert time.monotonic() - began < 100
    assert server.sent < (1 + PROBE_RETRIES) * (LIMIT + (24 << 20))  # some of it stays in the sockets' buffers
    if attack == "endless":
        assert "more than 4 MB" in said
    if attack in ("bomb", "layers"):
        assert "which was not asked for" in said


def answering(value: object) -> Callable[[Peer, socket.socket], None]:
    def talk(peer: Peer, connection: socket.socket) -> None:
        connection.recv(1 << 16)
        body = json.dumps(value).encode()
        peer.send(connection, head(f"Content-Length: {len(body)}") + body)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(1 << 16):  # closing it with something unread would break the connection
            pass

    return talk


def chat(**choice: object) -> dict[str, object]:
    message = {"role": "assistant", "content": "hi"}
    return {
        "id": "1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "prompt_token_ids": [None, 2],
        "choices": [{"index": 0, "finish_reason": "stop", "message": message, **choice}],
        "usage": {"prompt_tokens": -5, "completion_tokens": -7, "total_tokens": 0},
    }


@pytest.mark.parametrize(
    "choice",
    [
        {"token_ids": [1, "2"], "logprobs": {"content": [{"logprob": -1.0}, {"logprob": -1.0}]}},
        {"token_ids": "ab", "logprobs": {"content": [{"logprob": -1.0}, {"logprob": -1.0}]}},
        {"token_ids": [1], "logprobs": {"content": [{"logprob": float("nan")}]}},
        {"token_ids": [1], "logprobs": {"content": [3]}},
    ],
)
def test_malformed_token_ids_and_log_probabilities_are_left_out(peer, choice):
    async def ask() -> Completion:
        policy = ServerPolicy(f"{peer(answering(chat(**choice))).url}/v1", "m", retries=0)
        try:
            return await policy.act(ASKED, (), Sampling(1.0, 8))
        finally:
            await policy.close()

    assert asyncio.run(ask()) == Completion((), (), (), 0, "hi")


@pytest.mark.parametrize("filler", ["a", "[1,1"])
def test_a_response_longer_than_its_tokens_allow_is_cut_before_it_is_parsed(peer, filler, monkeypatch):
    monkeypatch.setattr(chat_client, "MAX_ANSWER", 32 << 20)
    message = {"role": "assistant", "content": filler * 3_000_000, "reasoning": "b" * 3_000_000}

    async def ask() -> Completion:
        policy = ServerPolicy(f"{peer(answering(chat(message=message, token_ids=[1] * 99))).url}/v1", "m", retries=0)
        try:
            return await policy.act(ASKED, (), Sampling(1.0, 8))
        finally:
            await policy.close()

    done = asyncio.run(ask())
    assert len(done.text) == 8 * chat_client.CHARACTERS and done.token_ids == ()


@pytest.mark.parametrize("code", ["[1" + ",1" * 15_000_000, "do(" * 5_000_000, '"' + "\\\\" * 10_000_000])
def test_a_huge_call_is_refused_at_once(code):
    began = time.process_time()
    action = parse_response(f'<answer>do(action="Tap", element={code}', None, "box", 100, 100).action
    assert isinstance(action, Invalid) and "more than" in action.reason and time.process_time() - began < 5


def test_negative_token_counts_do_not_count(peer):
    async def ask() -> Usage:
        async with Judge(JudgeSection(url=f"{peer(answering(chat())).url}/v1", model="m")) as judge:
            assert (await judge.client.ask(ASKED)).text == "hi"
        return judge.client.usage

    assert asyncio.run(ask()) == Usage(requests=1, responses=1, unmetered=1)


@pytest.mark.parametrize(
    ("route", "value", "said"),
    [
        ("goal", {"goal": "g" * 900_000}, "more than 20000 characters"),
        ("task_list", {"task_list": ["t" * 900_000]}, "not a list of names"),
        ("goal", {"goal": [[]] * 1_500_000}, "more than 4 MB"),
    ],
)
def test_impossible_values_of_androidworld_are_named_shortly(peer, route, value, said):
    async def ask() -> object:
        client = AndroidWorldClient(peer(answering(value)).url)
        try:
            return await (client.goal("A", 0) if route == "goal" else getattr(client, route)())
        finally:
            await client.close()

    with pytest.raises(ServerFault, match=said) as fault:
        asyncio.run(ask())
    assert len(str(fault.value)) < 500 and "\n" not in str(fault.value)


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


def file_without_end(peer: Peer, connection: socket.socket) -> None:
    opened(connection)
    while True:
        peer.send(connection, b"DATA" + struct.pack("<I", len(MEGABYTE)) + MEGABYTE)


def whispers(peer: Peer, connection: socket.socket) -> None:
    opened(connection)
    while True:
        peer.send(connection, struct.pack("<BI", 1, 1) + b"a")
        time.sleep(0.05)


ASKS = {
    shouts: lambda device: device.shell(("id",), 60.0),
    whispers: lambda device: device.shell(("id",), 1.0),
    file_without_end: lambda device: device.pull("/a"),
}


@pytest.mark.parametrize("attack", ASKS, ids=lambda attack: attack.__name__)
def test_a_device_that_never_stops_is_given_up(peer, attack):
    server = peer(attack)
    began = time.monotonic()
    with pytest.raises(InfraError, match=r"more than 4 MB|no end after 1 s|timed out") as fault:
        ASKS[attack](AdbTransport("usb", "127.0.0.1", server.port))
    assert "\n" not in str(fault.value) and time.monotonic() - began < 60
    assert server.sent < LIMIT + (24 << 20)
