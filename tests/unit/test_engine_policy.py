"""EnginePolicy: which requests share a batch, and what happens when one is cancelled or the engine fails."""

from __future__ import annotations

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from mobilerl.inference.engine_policy import EnginePolicy
from mobilerl.records import Completion
from mobilerl.records.engine import Request, Sampling


class FakeCodec:
    def encode(self, messages, images) -> tuple[int, ...]:
        return tuple(messages)


class FakeEngine:
    """Records its batches; answers a prompt (n,) with (n + 1,). Its first call may fail."""

    version = 0

    def __init__(self, fails: bool = False) -> None:
        self.codec = FakeCodec()
        self.batches: list[list[tuple[int, ...]]] = []
        self.fails = fails

    def generate(self, requests: list[Request]) -> list[Completion]:
        self.batches.append([r.prompt_ids for r in requests])
        if self.fails and len(self.batches) == 1:
            raise RuntimeError("the engine broke")
        return [Completion(r.prompt_ids, (r.prompt_ids[0] + 1,), (0.0,), 0, "") for r in requests]


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 60))


async def ask(policy: EnginePolicy, number: int, key: str = "") -> int:
    completion = await policy.act((number,), (), Sampling(), key or f"{number:03d}")
    assert completion.prompt_ids == (number,)
    return completion.token_ids[0]


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=5))
@settings(max_examples=30)
def test_each_step_of_all_running_episodes_is_one_batch(episodes):
    """Whatever their lengths, and however many turns of the event loop each is late at every step."""
    engine = FakeEngine()
    policy, running = EnginePolicy(engine), len(episodes)
    policy.expect(lambda: running)

    async def episode(i: int, length: int, delay: int) -> None:
        nonlocal running
        for step in range(length):
            for _ in range(delay):
                await asyncio.sleep(0)
            assert await ask(policy, 100 * i + step, key=f"{i:03d}") == 100 * i + step + 1
        running -= 1
        policy.check_batch()

    async def main():
        await asyncio.gather(*(episode(i, *numbers) for i, numbers in enumerate(episodes)))

    run(main())
    longest = max(length for length, _ in episodes)
    wanted = [[(100 * i + s,) for i, (n, _) in enumerate(episodes) if s < n] for s in range(longest)]
    assert engine.batches == wanted


def test_cancelled_requests_are_dropped():
    engine = FakeEngine()

    async def main():
        policy = EnginePolicy(engine)
        policy.expect(lambda: 3)
        given_up = asyncio.create_task(ask(policy, 0))
        others = [asyncio.create_task(ask(policy, i)) for i in (1, 2)]
        given_up.cancel()
        await asyncio.sleep(0)
        assert not any(t.done() for t in others)
        return await asyncio.gather(*others, ask(policy, 3))

    assert run(main()) == [2, 3, 4]
    assert engine.batches == [[(1,), (2,), (3,)]]


def test_a_time_limit_starts_an_incomplete_batch():
    engine = FakeEngine()

    async def main():
        policy = EnginePolicy(engine, max_wait_s=0.02)
        policy.expect(lambda: 3)
        assert await asyncio.gather(ask(policy, 5), ask(policy, 4)) == [6, 5]
        assert await ask(policy, 7) == 8
        return await asyncio.gather(*(ask(policy, i) for i in (1, 2, 3)))

    assert run(main()) == [2, 3, 4]
    assert engine.batches == [[(4,), (5,)], [(7,)], [(1,), (2,), (3,)]]


def test_an_engine_failure_reaches_every_request_and_the_policy_continues():
    async def main():
        policy = EnginePolicy(FakeEngine(fails=True))
        policy.expect(lambda: 3)
        results = await asyncio.gather(*(ask(policy, i) for i in range(3)), return_exceptions=True)
        assert [str(r) for r in results] == ["the engine broke"] * 3
        return await asyncio.gather(*(ask(policy, i) for i in range(3)))

    assert run(main()) == [1, 2, 3]
