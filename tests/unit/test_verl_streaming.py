"""Requests to verl's servers one by one, as episodes make them, while the weights move. No Ray, verl or vLLM is needed.

tests/integration/test_verl_engine.py asks some of it of the real ones.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from verl_stand_ins import RayError, RayTaskError, World, make_engine

from envs.phone.tasks import suite
from mobilerl.agent.policy import StreamPolicy
from mobilerl.engines.base import EngineError, Request, Sampling, StreamingEngine
from mobilerl.records import Row
from mobilerl.setup import make_collector, make_phones
from mobilerl.train.checkpoint import CheckpointError, load_engine

SAMPLING = Sampling()
SLOW, QUICK, LATER = 10, 20, 30
ROWS = [Row("t", 0, (1,), (2,), (0.0,), (), 0)]
WAIT_S = 30.0
"""For what must happen at all, however busy the machine is."""


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def start(monkeypatch, world):
    """Makes engines and closes them."""
    made = []

    def make(*settings: str):
        made.append(make_engine(monkeypatch, world, *settings))
        return made[-1]

    yield make
    world.held.clear()
    for engine in made:
        if "leave" not in world.calls:
            engine.close()


def request(number: int, images: tuple[bytes, ...] = ()) -> Request:
    return Request((number,), images, SAMPLING)


def eventually(true: Callable[[], object]) -> None:
    until = time.monotonic() + WAIT_S
    while not true():
        assert time.monotonic() < until
        time.sleep(0.002)


def test_the_engine_is_streamed_to_and_no_reply_waits_for_a_slower_one(start, world):
    engine = start()
    assert isinstance(engine, StreamingEngine)
    collector = make_collector(engine.recipe, engine, make_phones(engine.recipe.phone))
    policy = collector.actor.policy
    assert isinstance(policy, StreamPolicy)
    world.held.add(SLOW)

    async def main() -> bool:
        slow = asyncio.create_task(policy.act((SLOW,), (), SAMPLING))
        quick = await asyncio.wait_for(policy.act((QUICK,), (), SAMPLING), WAIT_S)
        assert quick.token_ids == (QUICK + 1,) and not slow.done()
        world.held.clear()
        return (await slow).token_ids == (SLOW + 1,)

    assert asyncio.run(main())


def test_pictures_are_made_in_neither_event_loop(start):
    engine = start()
    asyncio.run(StreamPolicy(engine).act((QUICK,), (b"png",), SAMPLING))
    assert engine.codec.threads and not engine.codec.threads & {"MainThread", "vllm-requests"}


def test_weights_are_sent_once_however_many_ask_first(start, world):
    engine = start()
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda n: engine.submit(request(n)).result(WAIT_S), range(8)))
    assert {a.version for a in answers} == {0} and world.calls.count("update_weights") == 1


@pytest.mark.parametrize("handover", [True, False])
def test_learning_waits_for_replies_and_requests_wait_for_the_learned_weights(start, world, handover):
    world.handover = handover
    engine = start()
    world.held.add(SLOW)
    running = engine.submit(request(SLOW))
    eventually(lambda: world.busy)
    learning = threading.Thread(target=engine.logprobs, args=(ROWS,))
    learning.start()
    eventually(lambda: not engine.servers._open.is_set())
    waiting = engine.submit(request(LATER))
    assert "score" not in world.calls and not waiting.done()
    world.held.clear()
    learning.join(WAIT_S)
    assert running.result(WAIT_S).version == 0 and world.asked == [SLOW]
    assert engine.publish() == 1
    assert waiting.result(WAIT_S).version == 1
    sleep = ["sleep"] if handover else []
    assert [c for c in world.calls if c != "init_model"] == [
        *sleep, "update_weights", *sleep, "score", "update_weights",
    ]  # fmt: skip
    assert not world.disturbed


def test_servers_of_their_own_go_on_answering_until_weights_are_published(start, world):
    engine = start("--cluster.rollout_nodes", "1")
    engine.generate([request(QUICK)])
    engine.logprobs(ROWS)
    assert engine.submit(request(QUICK)).result(WAIT_S).version == 0
    world.held.add(SLOW)
    running = engine.submit(request(SLOW))
    eventually(lambda: world.busy)
    publishing = threading.Thread(target=engine.publish)
    publishing.start()
    eventually(lambda: not engine.servers._open.is_set())
    waiting = engine.submit(request(LATER))
    world.held.clear()
    publishing.join(WAIT_S)
    assert (running.result(WAIT_S).version, waiting.result(WAIT_S).version) == (0, 1) and not world.disturbed


def test_publishing_without_learning_frees_the_servers_memory_first(start, world):
    """verl moves weights only into servers that are asleep."""
    engine = start()
    engine.generate([request(QUICK)])
    world.calls.clear()
    engine.publish()
    assert world.calls == ["sleep", "update_weights"]
    assert engine.generate([request(QUICK)])[0].version == 1


def test_weights_do_not_move_under_a_reply_that_nobody_waits_for_any_more(start, world):
    """An episode missed its deadline: its request cannot be taken back from the server."""
    engine = start()
    world.held.add(SLOW)

    async def main() -> None:
        asking = asyncio.create_task(StreamPolicy(engine).act((SLOW,), (), SAMPLING))
        await asyncio.to_thread(eventually, lambda: world.busy)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking

    asyncio.run(main())
    learning = threading.Thread(target=engine.logprobs, args=(ROWS,))
    learning.start()
    eventually(lambda: not engine.servers._open.is_set())
    given_up = engine.submit(request(LATER))
    assert given_up.cancel()
    time.sleep(0.05)
    assert learning.is_alive()
    world.held.clear()
    learning.join(WAIT_S)
    engine.publish()
    assert engine.generate([request(QUICK)])[0].version == 1
    assert not world.disturbed
    assert world.asked == [SLOW, QUICK], "a request was sent that had been given up before the servers had it"


def test_a_dead_server_ends_the_collection_with_its_reason(start, world, monkeypatch):
    engine = start()
    world.faults["generate"] = RayError("traceback\nActorDiedError: node 3 is gone")

    async def main() -> None:
        async with make_collector(engine.recipe, engine, make_phones(engine.recipe.phone)) as collector:
            await collector.collect(suite.train_tasks(1)[:1], "i")

    with pytest.raises(EngineError, match=r"^a vLLM server failed \(ActorDiedError: node 3 is gone\).*--resume$"):
        asyncio.run(asyncio.wait_for(main(), WAIT_S))


def test_weights_that_do_not_arrive_are_tried_once_and_everybody_is_told(start, world):
    engine = start()
    world.faults["update_weights"] = RayError("ActorDiedError: worker 1")

    def complaint(number: int) -> str:
        with pytest.raises(EngineError) as caught:
            engine.submit(request(number)).result(WAIT_S)
        return str(caught.value)

    with ThreadPoolExecutor(6) as pool:
        assert len(set(pool.map(complaint, range(6)))) == 1
    assert world.calls.count("update_weights") == 1 and not world.asked
    with pytest.raises(EngineError, match="worker 1"):
        engine.publish()


def test_a_server_that_hangs_ends_learning_and_those_who_wait(start, world):
    engine = start()
    engine.generate([request(QUICK)])
    world.held.add(SLOW)
    engine.servers.timeout_s = 0.1
    hanging = engine.submit(request(SLOW))
    with pytest.raises(EngineError, match="took longer than vllm.timeout_s"):
        hanging.result(WAIT_S)
    engine.servers.timeout_s = 60.0  # the call may take its time, pausing may not
    hanging = engine.submit(request(SLOW))
    eventually(lambda: world.busy)
    engine.servers.timeout_s = 0.1
    with pytest.raises(EngineError, match="model calls took longer"):
        engine.logprobs(ROWS)
    with pytest.raises(EngineError, match="model calls took longer"):
        engine.submit(request(LATER)).result(WAIT_S)


def test_closing_ends_every_request_with_an_error(start, world):
    engine = start()
    engine.generate([request(QUICK)])
    world.held.add(SLOW)
    running = engine.submit(request(SLOW))
    eventually(lambda: world.busy)
    engine.servers._loop.call_soon_threadsafe(engine.servers._open.clear)
    waiting = engine.submit(request(LATER))
    engine.close()
    for answer in (running, waiting):
        with pytest.raises(EngineError, match="the engine was closed"):
            answer.result(WAIT_S)
    with pytest.raises(EngineError, match="the engine was closed"):
        engine.submit(request(LATER))
    assert not world.busy and world.asked == [QUICK, SLOW] and world.calls[-1] == "leave"


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ({"version": 1, "steps": 2}, "verl.json lacks 'processes'"),
        ({"version": 1, "steps": None, "processes": 1}, "verl.json cannot be read"),
        ([1], "verl.json cannot be read"),
        ({"version": 1, "steps": 2, "processes": 4}, "verl.json was written by 4 GPUs but this run has 1"),
    ],
)
def test_a_state_that_cannot_be_used_is_named(start, tmp_path, state, reason):
    (tmp_path / "verl.json").write_text(json.dumps(state))
    with pytest.raises(CheckpointError, match=f"damaged or foreign: {reason}.*delete"):
        load_engine(tmp_path, start())


def test_shards_that_cannot_be_loaded_are_no_failure_of_the_cluster(start, world, tmp_path):
    (tmp_path / "verl.json").write_text('{"version": 4, "steps": 2, "processes": 1}')
    engine = start()
    world.faults["load_checkpoint"] = RayTaskError("traceback\nRuntimeError: not a zip archive")
    with pytest.raises(CheckpointError, match=r"shards cannot be loaded \(RuntimeError: not a zip archive\)"):
        load_engine(tmp_path, engine)


def test_loaded_weights_reach_the_servers_before_the_next_reply(start, world, tmp_path):
    (tmp_path / "verl.json").write_text('{"version": 4, "steps": 2, "processes": 1}')
    engine = start()
    engine.generate([request(QUICK)])
    world.calls.clear()
    load_engine(tmp_path, engine)
    assert engine.generate([request(QUICK)])[0].version == 4
    assert world.calls == ["sleep", "load_checkpoint", "update_weights"]
