"""Requests to a sampler while its weights change: whoever asks gets an answer of one version, or one error."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mobilerl.inference.requests import RequestLoop
from mobilerl.records import Completion
from mobilerl.records.engine import EngineError, Request, Sampling

WAIT_S = 20.0
"""For what must happen at all, however busy the machine is."""
CODEC = SimpleNamespace(images=SimpleNamespace(scaled=lambda png: png))


class Sampler:
    """Answers (n,) with (n + 1,), those in `held` only once they are released."""

    def __init__(self) -> None:
        self.version = 0
        self.held: set[int] = set()
        self.asked: list[int] = []
        self.requests = RequestLoop(self._sample, CODEC, WAIT_S)
        self.requests.resume()

    async def _sample(self, request: Request, images: object) -> Completion:
        version, number = self.version, request.prompt_ids[0]
        self.asked.append(number)
        while number in self.held:
            await asyncio.sleep(0.001)
        assert version == self.version, "weights changed under a response"
        return Completion(request.prompt_ids, (number + 1,), (0.0,), version, "")

    def submit(self, number: int) -> Future[Completion]:
        return self.requests.submit(Request((number,), (), Sampling()))

    def publish(self) -> None:
        self.requests.pause()
        self.version += 1
        self.requests.resume()


@pytest.fixture
def sampler() -> Iterator[Sampler]:
    made = Sampler()
    yield made
    made.held.clear()
    made.requests.close()


def eventually(true: Callable[[], object]) -> None:
    until = time.monotonic() + WAIT_S
    while not true():
        assert time.monotonic() < until
        time.sleep(0.002)


@given(st.lists(st.sampled_from(["submit", "hold", "cancel", "publish"]), max_size=12))
@settings(max_examples=20, deadline=None)
def test_every_request_is_answered_from_one_version_of_the_weights(actions):
    sampler, asked = Sampler(), []
    for number, action in enumerate(actions):
        if action == "hold":
            sampler.held.add(number)
        if action in ("submit", "hold"):
            asked.append((number, sampler.version, sampler.submit(number)))
        elif action == "cancel" and asked:
            asked[-1][2].cancel()
        elif action == "publish":
            threading.Timer(0.002, sampler.held.clear).start()
            sampler.publish()
    sampler.held.clear()
    for number, version, answer in asked:
        try:
            done = answer.result(WAIT_S)
        except CancelledError:
            continue
        assert done.token_ids == (number + 1,) and done.version >= version
    sampler.requests.close()
    assert not sampler.requests.running


def test_a_change_of_weights_waits_for_responses_and_later_requests_wait_for_it(sampler):
    sampler.held.add(1)
    running, given_up = sampler.submit(1), sampler.submit(1)
    eventually(lambda: sampler.asked == [1, 1])
    given_up.cancel()  # an episode missed its deadline; the sampler cannot be told
    publishing = threading.Thread(target=sampler.publish)
    publishing.start()
    eventually(lambda: not sampler.requests._open.is_set())
    later, never = sampler.submit(2), sampler.submit(3)
    assert never.cancel()
    time.sleep(0.05)
    assert publishing.is_alive() and sampler.requests.running == 2 and sampler.asked == [1, 1]
    sampler.held.clear()
    publishing.join(WAIT_S)
    assert (running.result(WAIT_S).version, later.result(WAIT_S).version) == (0, 1)
    assert sampler.asked == [1, 1, 2], "a request was sent that had been given up before"


def test_closing_ends_running_and_waiting_requests(sampler):
    sampler.held.add(1)
    running = sampler.submit(1)
    eventually(lambda: sampler.asked)
    sampler.requests._loop.call_soon_threadsafe(sampler.requests._open.clear)
    waiting = sampler.submit(2)
    sampler.requests.close()
    for call in (running.result, waiting.result, lambda: sampler.submit(3)):
        with pytest.raises(EngineError, match="the engine was closed"):
            call()
    assert sampler.asked == [1]


def test_a_sampler_that_died_or_does_not_answer_is_an_error_for_everybody(sampler):
    sampler.requests.timeout_s = 0.1
    sampler.held.add(1)
    with pytest.raises(EngineError, match=r"longer than 0.1 s; .*--resume"):
        sampler.submit(1).result(WAIT_S)
    sampler.requests.timeout_s = WAIT_S
    waiting = sampler.submit(1)
    eventually(lambda: sampler.requests.running)
    sampler.requests.timeout_s = 0.1
    with pytest.raises(EngineError, match="model calls took longer"):
        sampler.requests.pause()
    sampler.held.clear()
    waiting.result(WAIT_S)
    for call in (lambda: sampler.submit(2), sampler.requests.pause):
        with pytest.raises(EngineError, match="model calls took longer"):
            call()
