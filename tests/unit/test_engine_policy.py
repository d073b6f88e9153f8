"""EnginePolicy: who is batched with whom, who is told what went wrong, and that nobody waits for ever."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mobilerl.agent.policy import EnginePolicy
from mobilerl.engines.base import Request, Sampling
from mobilerl.records import Completion

SAMPLING = Sampling()


class FakeCodec:
    def encode(self, messages, images) -> tuple[int, ...]:
        return tuple(messages)


class FakeEngine:
    """Records its batches; answers a prompt (n, ...) with (n + 1,). Fails in the calls named in `failing`."""

    version = 0

    def __init__(self, failing: tuple[int, ...] = (), delay_s: float = 0.0) -> None:
        self.codec = FakeCodec()
        self.batches: list[list[tuple[int, ...]]] = []
        self.failing, self.delay_s = failing, delay_s
        self.running = 0

    def generate(self, requests: list[Request]) -> list[Completion]:
        self.running += 1
        assert self.running == 1, "two calls of the engine at once"
        self.batches.append([r.prompt_ids for r in requests])
        time.sleep(self.delay_s)
        self.running -= 1
        if len(self.batches) - 1 in self.failing:
            raise RuntimeError("the engine broke")
        return [Completion(r.prompt_ids, (r.prompt_ids[0] + 1,), (0.0,), 0, "") for r in requests]


def run(coroutine, timeout: float = 10.0):
    async def bounded():
        async with asyncio.timeout(timeout):
            return await coroutine

    return asyncio.run(bounded())


async def ask(policy: EnginePolicy, number: int, key: str | None = None, sampling: Sampling = SAMPLING) -> int:
    completion = await policy.act((number,), (), sampling, key if key is not None else f"{number:03d}")
    assert completion.prompt_ids == (number,)
    return completion.token_ids[0]


@given(st.permutations(range(6)))
@settings(max_examples=20)
def test_a_batch_does_not_depend_on_the_order_of_arrival(order):
    engine = FakeEngine()

    async def main():
        policy = EnginePolicy(engine)
        policy.expected = lambda: 6
        return await asyncio.gather(*(ask(policy, i) for i in order))

    assert run(main()) == [i + 1 for i in order]
    assert engine.batches == [[(i,) for i in range(6)]]


class Players:
    """Episodes of given lengths; each begins `delay` event loop turns late at every step."""

    def __init__(self, policy: EnginePolicy, lengths: dict[int, int], delays: dict[int, int]) -> None:
        self.policy, self.lengths, self.delays = policy, lengths, delays
        self.playing = len(lengths)
        policy.expected = lambda: self.playing

    async def play(self, i: int) -> int:
        for step in range(self.lengths[i]):
            for _ in range(self.delays[i]):
                await asyncio.sleep(0)
            assert await self.policy_says(i, step) == 100 * i + step + 1
        self.playing -= 1
        self.policy.poke()
        return self.lengths[i]

    def policy_says(self, i: int, step: int):
        return ask(self.policy, 100 * i + step, key=f"{i:03d}")

    async def all(self) -> list[int]:
        return await asyncio.gather(*(self.play(i) for i in self.lengths))


@given(st.lists(st.integers(0, 4), min_size=1, max_size=5), st.data())
@settings(max_examples=30)
def test_episodes_of_any_lengths_end_in_as_many_batches_as_the_longest_has_steps(lengths, data):
    delays = data.draw(st.lists(st.integers(0, 3), min_size=len(lengths), max_size=len(lengths)))
    engine = FakeEngine()
    run(Players(EnginePolicy(engine), dict(enumerate(lengths)), dict(enumerate(delays))).all())
    wanted = [[(100 * i + s,) for i, n in enumerate(lengths) if s < n] for s in range(max(lengths))]
    assert engine.batches == wanted


def test_cancelled_requests_are_dropped():
    engine = FakeEngine()

    async def main():
        policy = EnginePolicy(engine)
        policy.expected = lambda: 3
        given_up = asyncio.create_task(ask(policy, 0))
        others = [asyncio.create_task(ask(policy, i)) for i in (1, 2)]
        third = asyncio.create_task(asyncio.sleep(0))
        given_up.cancel()
        await third
        assert not any(t.done() for t in others)
        return await asyncio.gather(*others, ask(policy, 3))

    assert run(main()) == [2, 3, 4]
    assert engine.batches == [[(1,), (2,), (3,)]]


def test_cancelled_requests_are_dropped_when_time_is_up_too():
    engine = FakeEngine()

    async def main():
        policy = EnginePolicy(engine, max_wait_s=0.02)
        policy.expected = lambda: 9
        given_up, kept = asyncio.create_task(ask(policy, 0)), asyncio.create_task(ask(policy, 1))
        await asyncio.sleep(0)
        given_up.cancel()
        return await kept

    assert run(main()) == 2
    assert engine.batches == [[(1,)]]


def test_requests_cancelled_while_the_engine_works_do_not_disturb_the_others():
    async def main():
        policy = EnginePolicy(FakeEngine(delay_s=0.05))
        policy.expected = lambda: 2
        given_up, kept = asyncio.create_task(ask(policy, 0)), asyncio.create_task(ask(policy, 1))
        await asyncio.sleep(0.02)
        given_up.cancel()
        return await kept

    assert run(main()) == 2


def test_a_time_limit_sends_off_those_who_have_asked():
    engine = FakeEngine()

    async def main():
        policy = EnginePolicy(engine, max_wait_s=0.02)
        policy.expected = lambda: 3
        assert await asyncio.gather(ask(policy, 5), ask(policy, 4)) == [6, 5]
        assert await ask(policy, 7) == 8
        return await asyncio.gather(*(ask(policy, i) for i in (1, 2, 3)))

    assert run(main()) == [2, 3, 4]
    assert engine.batches == [[(4,), (5,)], [(7,)], [(1,), (2,), (3,)]]


def test_with_a_time_limit_what_came_during_a_call_is_the_next_batch():
    engine = FakeEngine(delay_s=0.05)

    async def main():
        policy = EnginePolicy(engine, max_wait_s=0.01)
        policy.expected = lambda: 9
        first = asyncio.create_task(ask(policy, 1))
        await asyncio.sleep(0.03)
        return await asyncio.gather(first, ask(policy, 3), ask(policy, 2))

    assert run(main()) == [2, 4, 3]
    assert engine.batches == [[(1,)], [(2,), (3,)]]


def test_a_failure_of_the_engine_reaches_everybody_and_the_policy_goes_on():
    engine = FakeEngine(failing=(0,))

    async def main():
        policy = EnginePolicy(engine)
        policy.expected = lambda: 3
        results = await asyncio.gather(*(ask(policy, i) for i in range(3)), return_exceptions=True)
        assert [str(r) for r in results] == ["the engine broke"] * 3
        return await asyncio.gather(*(ask(policy, i) for i in range(3)))

    assert run(main()) == [1, 2, 3]


def test_an_engine_that_loses_a_completion_is_an_error_not_a_hang():
    engine = FakeEngine()
    engine.generate = lambda requests: []

    async def main():
        await ask(EnginePolicy(engine), 1)

    with pytest.raises(ValueError, match="shorter"):
        run(main())


def test_different_sampling_settings_are_different_calls():
    engine = FakeEngine(failing=(0,))

    async def main():
        policy = EnginePolicy(engine)
        policy.expected = lambda: 4
        asked = [ask(policy, i, sampling=Sampling(float(i % 2 + 1))) for i in range(4)]
        return await asyncio.gather(*asked, return_exceptions=True)

    results = run(main())
    assert engine.batches == [[(0,), (2,)], [(1,), (3,)]]
    assert [str(r) for r in results] == ["the engine broke", "2", "the engine broke", "4"]


def test_the_event_loop_is_free_while_the_engine_works():
    threads, ticked = [], threading.Event()

    async def main():
        engine = FakeEngine()
        generate = engine.generate

        def generate_late(requests):
            threads.append(threading.current_thread())
            assert ticked.wait(10), "the event loop waits for the engine"
            return generate(requests)

        engine.generate = generate_late
        asked = asyncio.create_task(ask(EnginePolicy(engine), 1))
        while not threads:
            await asyncio.sleep(0.01)
        ticked.set()
        return await asked

    run(main())
    assert threads[0] is not threading.main_thread()
