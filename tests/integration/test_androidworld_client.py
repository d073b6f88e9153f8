"""The client against the stand-in, and the stand-in's habits against what is documented of the real server."""

from __future__ import annotations

import asyncio
import functools
import http.client
import http.server
import io
import json
import threading
import time

import pytest
from androidworld_server import StandIn, in_process
from PIL import Image

from envs.androidworld.client import OWN_TIME_S, AndroidWorldClient
from envs.androidworld.faults import EnvironmentFault, NanScore, ServerFault, Unreachable, WrongServer
from envs.androidworld.tasks import ANSWER_TASKS, FACTS
from envs.base import InfraError, NoScore

TASK = "ContactsAddContact"


@pytest.fixture
def stand_in():
    server = StandIn(in_process()).start()
    yield server
    server.stop()


def ask(stand_in: StandIn, work, longest_init_s: float = 20.0):
    """What `work(client)` returns, with a client whose limits are `longest_init_s` and the routes' own."""

    async def main():
        client = AndroidWorldClient(stand_in.url, longest_init_s)
        try:
            return await work(client)
        finally:
            await client.close()

    return asyncio.run(main())


# --- the stand-in is as the reference says -----------------------------------------------------------------------


def raw(connection, method, path):
    connection.request(method, path)
    reply = connection.getresponse()
    return reply.status, reply.getheader("Content-Type"), reply.read()


def test_the_stand_in_answers_as_documented(stand_in):
    connection = http.client.HTTPConnection("127.0.0.1", stand_in.port)
    status, kind, body = raw(connection, "POST", "/reset")
    assert (status, kind) == (422, "application/json")
    fault = {"type": "missing", "loc": ["query", "go_home"], "msg": "Field required", "input": None}
    assert json.loads(body) == {"detail": [fault]}
    assert raw(connection, "GET", "/suite/reinitialize?task_family=nope")[::2] == (
        400, b'{"detail": "Invalid task family: nope"}',
    )  # fmt: skip
    assert raw(connection, "GET", "/suite/task_list?max_index=0")[2] == b'{"task_list": []}'
    assert raw(connection, "GET", "/suite/reinitialize?n_task_combinations=1&seed=30")[2] == (
        b'{"status": "success", "message": "Task suite re-initialized with n_task_combinations=1, seed=30."}'
    )
    assert raw(connection, "GET", f"/suite/task_length?task_type={TASK}")[2] == b'{"length": 1}'
    status, kind, body = raw(connection, "GET", f"/task/score?task_type={TASK}&task_idx=0")  # before its set-up
    assert (status, kind, body) == (500, "text/plain; charset=utf-8", b"Internal Server Error")


def test_after_a_500_a_kept_connection_is_dead(stand_in):
    connection = http.client.HTTPConnection("127.0.0.1", stand_in.port)
    connection.auto_open = 0
    connection.connect()
    assert raw(connection, "GET", "/health")[0] == 200
    assert raw(connection, "GET", "/health")[0] == 200
    assert raw(connection, "GET", "/task/goal?task_type=Nope&task_idx=0")[0] == 500
    time.sleep(0.05)
    with pytest.raises((http.client.RemoteDisconnected, ConnectionError)):
        raw(connection, "POST", "/reset?go_home=true")


def test_a_second_set_up_is_refused_after_it_did_its_work(stand_in):
    async def work(client):
        await client.initialize(TASK, 0)
        await client.execute(action_type="answer", text="kept?")
        with pytest.raises(EnvironmentFault, match="POST /task/initialize answered 500"):
            await client.initialize(TASK, 0)
        assert stand_in.answer == ""
        await client.tear_down(TASK, 0)
        await client.tear_down(TASK, 0)
        await client.initialize(TASK, 0)

    ask(stand_in, work)


# --- the client --------------------------------------------------------------------------------------------------


def test_every_route(stand_in):
    async def work(client):
        await client.health()
        await client.reinitialize(3, 30, "information_retrieval")
        assert set(await client.task_list()) == ANSWER_TASKS
        await client.reinitialize(3, 30)
        assert await client.task_list() == sorted(FACTS) and await client.task_length(TASK) == 3
        goals = {await client.goal(TASK, i) for i in range(3)}
        assert len(goals) == 3
        await client.initialize(TASK, 1)
        assert await client.score(TASK, 1) == 0.0
        await client.reset(go_home=True)
        picture = Image.open(io.BytesIO(await client.screenshot()))
        assert picture.size == (180, 360) and len(picture.getcolors(1 << 20)) > 10
        await client.tear_down(TASK, 1)
        assert await client.info() == {}

    ask(stand_in, work)


@pytest.mark.parametrize(("said", "score"), [(1, 1.0), (0, 0.0), (0.5, 0.5), (1.0, 1.0), (True, 1.0)])
def test_scores_are_ints_or_floats_and_may_be_fractions(stand_in, said, score):
    stand_in.scores[TASK] = said

    async def work(client):
        await client.initialize(TASK, 0)
        return await client.score(TASK, 0)

    found = ask(stand_in, work)
    assert found == score and type(found) is float


@pytest.mark.parametrize(("said", "fault"), [(float("nan"), NanScore), (None, NanScore), ("1.0", WrongServer),
                                             (7, WrongServer), (-0.1, WrongServer)])  # fmt: skip
def test_a_score_that_is_none(stand_in, said, fault):
    stand_in.scores[TASK] = said

    async def work(client):
        await client.initialize(TASK, 0)
        with pytest.raises(fault, match=TASK):
            await client.score(TASK, 0)

    ask(stand_in, work)


def test_requests_after_a_500_get_through(stand_in):
    async def work(client):
        for _ in range(30):
            with pytest.raises(EnvironmentFault) as fault:
                await client.score(TASK, 0)
            assert isinstance(fault.value, NoScore), "a judge may give the reward"
            await client.reset(go_home=False)

    ask(stand_in, work)
    assert [r[1] for r in stand_in.requests].count("/reset") == 30


def test_a_dropped_connection_is_a_fault_and_nothing_is_sent_twice(stand_in):
    stand_in.faults["/task/initialize"] = ["drop"]
    stand_in.faults["/health"] = ["drop"]

    async def work(client):
        with pytest.raises(Unreachable, match="POST /task/initialize: the connection was dropped"):
            await client.initialize(TASK, 0)
        with pytest.raises(Unreachable):
            await client.health()

    ask(stand_in, work)
    assert [r[1] for r in stand_in.requests] == ["/task/initialize", "/health"]


def test_a_blocked_server_is_waited_for_as_long_as_a_set_up_may_take(stand_in):
    stand_in.go = threading.Event()

    async def work(client):
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

    ask(stand_in, work)


def test_a_server_that_hangs_is_given_up(stand_in, monkeypatch):
    monkeypatch.setitem(OWN_TIME_S, "/task/score", 0.1)
    stand_in.faults["/task/score"] = [("hang", 1.0)]

    async def work(client):
        with pytest.raises(ServerFault, match="GET /task/score did not answer within 0.3 s"):
            await client.score(TASK, 0)

    ask(stand_in, work, longest_init_s=0.2)


def test_no_server(stand_in):
    stand_in.stop()

    async def work(client):
        with pytest.raises(Unreachable, match=f"127.0.0.1:{stand_in.port} cannot be reached"):
            await client.health()

    ask(stand_in, work)


def test_another_server_is_not_taken_for_androidworld(tmp_path):
    (tmp_path / "health").write_text("<html>fine</html>")
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=tmp_path)
    handler.func.log_message = lambda *_: None
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()

    async def main():
        client = AndroidWorldClient(f"http://127.0.0.1:{server.server_address[1]}")
        with pytest.raises(WrongServer, match="GET /health answered no JSON object but <html>fine"):
            await client.health()
        with pytest.raises(WrongServer, match="GET /suite/task_list answered 404"):
            await client.task_list()
        with pytest.raises(InfraError, match="POST /task/initialize answered 501"):
            await client.initialize("A", 0)
        await client.close()

    asyncio.run(main())
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("body", [{}, {"task_list": "A,B"}, {"task_list": [1, 2]}, {"task_list": ["A", "A"]}, ["A"]])
def test_a_malformed_task_list(stand_in, body):
    stand_in.faults["/suite/task_list"] = [("answer", body)]
    with pytest.raises(WrongServer, match="task_list"):
        ask(stand_in, lambda client: client.task_list())


@pytest.mark.parametrize("pixels", [None, [], [[1, 2]], [[["x"]]], [[[1, 2, 3, 4]]]])
def test_malformed_pixels(stand_in, pixels):
    stand_in.faults["/screenshot"] = [("answer", {"pixels": pixels})]
    with pytest.raises(WrongServer, match="pixels"):
        ask(stand_in, lambda client: client.screenshot())


def test_one_client_serves_several_event_loops(stand_in):
    client = AndroidWorldClient(stand_in.url)
    for _ in range(3):
        asyncio.run(client.health())
    asyncio.run(client.close())
