"""Requests to verl's servers one by one, as episodes make them, while the weights move. No Ray, verl or vLLM is needed.

tests/integration/test_verl_engine.py asks some of it of the real ones.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from verl_stand_ins import RayError, World, make_engine

from mobilerl.inference.engine_policy import StreamPolicy
from mobilerl.interfaces import EngineError, Request, Sampling
from mobilerl.records import TrainingSample
from mobilerl.train.checkpoint import CheckpointError, load_engine

SAMPLING = Sampling()
SLOW, QUICK, LATER = 10, 20, 30
ROWS = [TrainingSample("t", 0, (1,), (2,), (0.0,), (), 0)]
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


def request(number: int) -> Request:
    return Request((number,), (), SAMPLING)


def eventually(true: Callable[[], object]) -> None:
    until = time.monotonic() + WAIT_S
    while not true():
        assert time.monotonic() < until
        time.sleep(0.002)


def start_waiting(engine, call: Callable[..., object], *arguments: object) -> threading.Thread:
    """A call that waits until the servers have answered everything, in a thread."""
    thread = threading.Thread(target=call, args=arguments)
    thread.start()
    eventually(lambda: not engine.requests._open.is_set())
    return thread


def test_no_reply_waits_for_a_slower_one(start, world):
    policy = StreamPolicy(start())
    world.held.add(SLOW)

    async def main() -> bool:
        slow = asyncio.create_task(policy.act((SLOW,), (), SAMPLING))
        quick = await asyncio.wait_for(policy.act((QUICK,), (), SAMPLING), WAIT_S)
        assert quick.token_ids == (QUICK + 1,) and not slow.done()
        world.held.clear()
        return (await slow).token_ids == (SLOW + 1,)

    assert asyncio.run(main())


@pytest.mark.parametrize("handover", [True, False])
def test_learning_waits_for_replies_and_requests_wait_for_the_learned_weights(start, world, handover):
    world.handover = handover
    engine = start()
    world.held.add(SLOW)
    running = engine.submit(request(SLOW))
    eventually(lambda: world.busy)
    learning = start_waiting(engine, engine.logprobs, ROWS)
    waiting = engine.submit(request(LATER))
    assert "score" not in world.calls and not waiting.done()
    world.held.clear()
    learning.join(WAIT_S)
    assert running.result(WAIT_S).version == 0 and world.asked == [SLOW]
    assert engine.publish() == 1
    assert waiting.result(WAIT_S).version == 1
    sleep = ["sleep"] if handover else []
    calls = [call for call in world.calls if call != "init_model"]
    assert calls == [*sleep, "update_weights", *sleep, "score", "update_weights"]
    assert not world.disturbed


def test_separate_servers_answer_until_weights_are_published(start, world):
    engine = start("--cluster.rollout_nodes", "1")
    engine.generate([request(QUICK)])
    engine.logprobs(ROWS)
    assert engine.submit(request(QUICK)).result(WAIT_S).version == 0
    world.held.add(SLOW)
    running = engine.submit(request(SLOW))
    eventually(lambda: world.busy)
    publishing = start_waiting(engine, engine.publish)
    waiting = engine.submit(request(LATER))
    world.held.clear()
    publishing.join(WAIT_S)
    assert (running.result(WAIT_S).version, waiting.result(WAIT_S).version) == (0, 1) and not world.disturbed


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
    learning = start_waiting(engine, engine.logprobs, ROWS)
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


def test_closing_ends_every_request_with_an_error(start, world):
    engine = start()
    engine.generate([request(QUICK)])
    world.held.add(SLOW)
    running = engine.submit(request(SLOW))
    eventually(lambda: world.busy)
    engine.requests._loop.call_soon_threadsafe(engine.requests._open.clear)
    waiting = engine.submit(request(LATER))
    engine.close()
    for answer in (running, waiting):
        with pytest.raises(EngineError, match="the engine was closed"):
            answer.result(WAIT_S)
    with pytest.raises(EngineError, match="the engine was closed"):
        engine.submit(request(LATER))
    assert not world.busy and world.asked == [QUICK, SLOW] and world.calls[-1] == "leave"


def test_a_checkpoint_of_another_number_of_gpus_is_refused(start, tmp_path):
    (tmp_path / "verl.json").write_text('{"version": 1, "steps": 2, "processes": 4}')
    with pytest.raises(CheckpointError, match="verl.json was written by 4 GPUs but this run has 1"):
        load_engine(tmp_path, start())
