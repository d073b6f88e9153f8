"""The client against the stand-in, and against a server of something else."""

from __future__ import annotations

import asyncio
import threading

import pytest
from androidworld_play import stand_ins_fixture  # noqa: F401 - a fixture
from http_stand_in import Handler, Server

from envs.androidworld.client import AndroidWorldClient
from envs.androidworld.faults import EnvironmentFault, NanScore, Unreachable, WrongServer
from envs.base import InfraError, NoScore

TASK = "ContactsAddContact"


@pytest.fixture
def stand_in(stand_ins):
    return stand_ins()


@pytest.fixture
async def client(stand_in):
    client = AndroidWorldClient(stand_in.url, 20.0)
    yield client
    await client.close()


@pytest.mark.parametrize(
    ("said", "fault"),
    [(float("nan"), NanScore), (None, NanScore), ("1.0", WrongServer), (7, WrongServer), (-0.1, WrongServer)],
)
async def test_a_score_that_is_none(stand_in, client, said, fault):
    stand_in.scores[TASK] = said
    await client.initialize(TASK, 0)
    with pytest.raises(fault, match=TASK):
        await client.score(TASK, 0)


async def test_requests_after_a_500_get_through(stand_in, client):
    for _ in range(10):
        with pytest.raises(EnvironmentFault) as fault:
            await client.score(TASK, 0)
        assert isinstance(fault.value, NoScore), "a judge may give the reward"
        await client.reset(go_home=False)
    assert [r[1] for r in stand_in.requests].count("/reset") == 10


async def test_a_dropped_connection_is_a_fault_and_nothing_is_sent_twice(stand_in, client):
    stand_in.drops = {"/task/initialize", "/health"}
    with pytest.raises(Unreachable, match="POST /task/initialize: the connection was dropped"):
        await client.initialize(TASK, 0)
    with pytest.raises(Unreachable):
        await client.health()
    assert [r[1] for r in stand_in.requests] == ["/task/initialize", "/health"]


async def test_a_blocked_server_is_waited_for_as_long_as_a_set_up_may_take(stand_in, client):
    stand_in.go = threading.Event()
    setting_up = asyncio.create_task(client.initialize(TASK, 0))
    while "/task/initialize" not in [route for _, route, _ in stand_in.requests]:
        assert not setting_up.done()
        await asyncio.sleep(0.02)
    health = asyncio.create_task(client.health())
    await asyncio.sleep(0.5)
    assert not health.done() and not setting_up.done()
    stand_in.go.set()
    await health
    await setting_up


async def test_another_server_is_not_taken_for_androidworld():
    class Other(Handler):
        def do_GET(self):
            self.reply("<html>fine</html>", 200 if self.path == "/health" else 404)

    server = Server(Other)
    client = AndroidWorldClient(server.url)
    with pytest.raises(WrongServer, match="GET /health answered no JSON object but <html>fine"):
        await client.health()
    with pytest.raises(WrongServer, match="GET /suite/task_list answered 404"):
        await client.task_list()
    with pytest.raises(InfraError, match="POST /task/initialize answered 501"):
        await client.initialize("A", 0)
    await client.close()
    server.stop()
