"""docker/androidworld/server.py as a process of its own, on a made-up package `android_world` and a made-up adb.

The package here has the shape that the real one is documented to have; the real one has not been met.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from PIL import Image
from ports import free_port, listens

from envs.androidworld.client import AndroidWorldClient, ServerInfo
from envs.androidworld.faults import EnvironmentFault, NanScore, ServerFault, Unreachable

pytest.importorskip("fastapi")  # which AndroidWorld's image has
SERVER = Path(__file__).parents[2] / "docker" / "androidworld" / "server.py"
PACKAGE = {
    "__init__.py": "",
    "env/__init__.py": "",
    "env/env_launcher.py": """
import os, pathlib, time

class Env:
    interaction_cache = ""
    def reset(self, go_home): self.interaction_cache = ""
    def execute_action(self, action): self.interaction_cache = action.text

def load_and_setup_env(console_port, emulator_setup, freeze_datetime, adb_path, grpc_port):
    while not pathlib.Path(os.environ["BOOTED"]).exists():
        time.sleep(0.02)
    if pathlib.Path(os.environ["BOOTED"]).read_text() == "broken":
        raise RuntimeError("no emulator at all")
    assert emulator_setup and freeze_datetime
    return Env()
""",
    "env/json_action.py": """
import dataclasses

@dataclasses.dataclass
class JSONAction:
    action_type: str
    text: str = ""
""",
    "registry.py": """
import os, pathlib, time

class Base:
    complexity, template = 1.25, "Say {word}."
    def __init__(self, word): self.goal, self.initialized = f"Say {word}.", False
    def initialize_task(self, env):
        env.interaction_cache = ""
        if self.initialized: raise RuntimeError("is already called")
        self.initialized = True
    def tear_down(self, env): self.initialized = False
    def is_successful(self, env):
        if not self.initialized: raise RuntimeError("must be called before")
        return int(f"Say {env.interaction_cache}." == self.goal)

class Echo(Base): pass
class Nan(Base):
    def is_successful(self, env): return float("nan")
class Slow(Base):
    def initialize_task(self, env):
        here = pathlib.Path(os.environ["BOOTED"]).parent
        (here / "begun").touch()
        while not (here / "go").exists():
            time.sleep(0.02)
        super().initialize_task(env)

class TaskRegistry:
    def get_registry(self, family):
        if family != "android_world": raise ValueError(family)
        return {"Echo": Echo, "Nan": Nan, "Slow": Slow}
""",
    "suite_utils.py": """
def create_suite(task_registry, n_task_combinations, seed):
    return {name: [kind(f"{name}{seed}{i}") for i in range(n_task_combinations)]
            for name, kind in sorted(task_registry.items())}
""",
}
ADB = """#!/bin/sh
case "$3" in
    get-state) [ -e "$BOOTED" ] && echo device || { echo "error: device offline" >&2; exit 1; } ;;
    exec-out) printf '[Warning] Multiple displays\\n'; cat "$SCREEN" ;;
esac
"""


@pytest.fixture
def server(tmp_path):
    """(url, the file whose existence means that the emulator has booted, the adb port that is handed on)."""
    for name, text in PACKAGE.items():
        path = tmp_path / "android_world" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    adb = tmp_path / "adb"
    adb.write_text(ADB)
    adb.chmod(0o755)
    Image.new("RGB", (90, 180), "teal").save(tmp_path / "screen.png")
    booted, port, adb_port, console = tmp_path / "booted", free_port(), free_port(), free_port() - 1
    (tmp_path / "console").write_text(str(console))
    ports = ("--port", port, "--adb-forward", adb_port, "--console-port", console)
    process = subprocess.Popen(
        [sys.executable, SERVER, "--adb", adb, *map(str, ports)],
        env={
            **os.environ,
            "PYTHONPATH": str(tmp_path),
            "BOOTED": str(booted),
            "ANDROIDWORLD_COMMIT": "d9c569f",
            "SCREEN": str(tmp_path / "screen.png"),
        },
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    try:
        until(lambda: listens(port))
        yield f"http://127.0.0.1:{port}", booted, adb_port
    finally:
        process.kill()
        process.wait()


def until(condition, seconds=20.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def healthy(url) -> bool:
    try:
        return urllib.request.urlopen(f"{url}/health", timeout=5).status == 200
    except OSError:  # an answer such as 503 is one too
        return False


@pytest.fixture
async def client(server):
    client = AndroidWorldClient(server[0], 20.0)
    yield client
    await client.close()


async def test_it_says_that_it_is_starting_and_then_serves_the_documented_routes(server, client):
    url, booted, _ = server
    with pytest.raises(Unreachable, match="503: .*starting: the emulator is being set up"):
        await client.health()
    with pytest.raises(Unreachable):
        await client.task_list()
    booted.touch()
    await asyncio.to_thread(until, lambda: healthy(url))

    assert await client.task_list() == ["Echo", "Nan", "Slow"] and await client.task_length("Echo") == 2
    await client.reinitialize(1, 30)
    assert await client.task_length("Echo") == 1 and await client.goal("Echo", 0) == "Say Echo300."
    with pytest.raises(EnvironmentFault, match="500: .*must be called before"):
        await client.score("Echo", 0)
    await client.initialize("Echo", 0)
    assert await client.score("Echo", 0) == 0.0
    await client.execute(action_type="answer", text="Echo300")
    assert await client.score("Echo", 0) == 1.0
    await client.reset()
    assert await client.score("Echo", 0) == 0.0
    with pytest.raises(EnvironmentFault, match="already called"):
        await client.initialize("Echo", 0)
    await client.tear_down("Echo", 0)
    await client.initialize("Echo", 0)
    with pytest.raises(NanScore):
        await client.score("Nan", 0)
    budgets = dict.fromkeys(("Echo", "Nan", "Slow"), 12)
    assert await client.info() == ServerInfo(commit="d9c569f", budgets=budgets, screenshots="png")
    shown = booted.with_name("screen.png").read_bytes()
    assert await client.screenshot() == shown, "the warning that adb prints before the picture is cut off"


async def test_health_does_not_wait_for_a_set_up(server, client):
    url, booted, _ = server
    booted.touch()
    await asyncio.to_thread(until, lambda: healthy(url))
    setting_up = asyncio.create_task(client.initialize("Slow", 0))
    while not booted.with_name("begun").exists():
        assert not setting_up.done()
        await asyncio.sleep(0.02)
    await client.health()
    assert not setting_up.done()
    booted.with_name("go").touch()
    await setting_up


async def test_an_emulator_that_cannot_start_is_reported(server, client):
    _, booted, _ = server
    booted.with_name("new").write_text("broken")
    booted.with_name("new").rename(booted)
    with pytest.raises(ServerFault, match="500: .*could not start: RuntimeError: no emulator at all"):
        async with asyncio.timeout(20):
            while True:
                try:
                    await client.health()
                except Unreachable:
                    await asyncio.sleep(0.05)


def test_the_adb_port_is_forwarded(server):
    _, booted, adb_port = server
    [port] = map(int, booted.with_name("console").read_text().split())
    with socket.create_server(("127.0.0.1", port + 1)) as emulator:

        def answer():
            connection, _ = emulator.accept()
            with connection:
                while data := connection.recv(1 << 16):
                    connection.sendall(data.upper())

        threading.Thread(target=answer, daemon=True).start()
        with socket.create_connection(("127.0.0.1", adb_port)) as near:
            sent = b"abc" * 100_000
            sender = threading.Thread(target=lambda: (near.sendall(sent), near.shutdown(socket.SHUT_WR)))
            sender.start()
            got = b""
            while data := near.recv(1 << 16):
                got += data
    assert got == sent.upper()
    with socket.create_connection(("127.0.0.1", adb_port)) as near:
        assert near.recv(1) == b"", "nothing listens there any more"
