"""The collector: order, retries, judged rewards, batching and shutdown."""

from __future__ import annotations

import asyncio
import math

import pytest
from collecting import TASKS, collect, fleet
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted_env import FAULTS, WHERE, ScriptedActor, ScriptedEnv, run

from mobilerl.envs.base import InfraError
from mobilerl.inference.engine_policy import EnginePolicy
from mobilerl.judge.scorer import NoVerdict
from mobilerl.records import Completion, Status
from mobilerl.records.engine import Sampling
from mobilerl.rollout.collector import Collector, CollectorSettings


@pytest.mark.parametrize("devices", [1, 50])
def test_groups_are_complete_and_in_the_order_of_their_tasks(devices):
    envs = fleet(devices)
    groups, collector = collect(envs)
    assert [g.task.id for g in groups] == [t.id for t in TASKS]
    for i, group in enumerate(groups):
        assert [t.id for t in group.trajectories] == [f"i0-{i:03d}-{slot:02d}" for slot in range(4)]
        assert all(t.task == group.task and t.success for t in group.trajectories)
    assert collector.counts == {"dispatched": 20, "finished": 20} and collector.busy_s > 0
    assert all(env.closed == 1 for env in envs) and sum(env.episode + 1 for env in envs) == 20


def test_a_failed_episode_is_retried_on_another_device():
    envs = fleet(3)
    envs[1].fault = lambda where, episode: "infra" if where == "step" else "ok"
    groups, collector = collect(envs)
    played = [t for g in groups for t in g.trajectories]
    assert len(played) == 20 and {t.device_id for t in played} == {"d0", "d2"}
    assert collector.counts["infra_errors"] == collector.counts["retried"] == envs[1].episode + 1


SCHEDULES = st.lists(
    st.dictionaries(st.tuples(st.sampled_from(WHERE), st.integers(0, 8)), st.sampled_from(FAULTS), max_size=8),
    min_size=1,
    max_size=4,
)


def scheduled(schedule) -> list[ScriptedEnv]:
    return [
        ScriptedEnv(f"d{i}", fault=lambda where, episode, plan=plan: plan.get((where, episode), "ok"))
        for i, plan in enumerate(schedule)
    ]


@given(SCHEDULES, st.integers(1, 3), st.integers(1, 5), st.integers(0, 3), st.sampled_from([0.25, 0.75, 1.0]))
@settings(max_examples=60)
def test_under_any_faults_every_episode_ends_exactly_once(schedule, n_tasks, size, retries, min_group):
    envs = scheduled(schedule)
    groups, collector = collect(
        envs, TASKS[:n_tasks], deadline_s=0.03, group_size=size, max_retries=retries, min_group=min_group
    )
    counts = collector.counts
    assert counts["dispatched"] == n_tasks * size == counts["finished"] + counts["failed"]
    assert counts["infra_errors"] == counts["retried"] + counts["failed"]
    assert len(groups) + counts["lost_groups"] == n_tasks
    assert collector.unfinished == 0 and collector.playing == 0
    played = [t for g in groups for t in g.trajectories]
    assert all(t.status is not Status.INFRA_ERROR and t.reward == 1.0 and len(t.steps) == 2 for t in played)
    assert len({t.id for t in played}) == len(played)
    assert all(len(g.trajectories) >= math.ceil(min_group * size) for g in groups)
    order = [TASKS.index(g.task) for g in groups]
    assert order == sorted(order)
    assert sum(env.episode + 1 for env in envs) == counts["dispatched"] + counts["retried"]


# --- batching ------------------------------------------------------------------------------------------------------


class BatchingEngine:
    """Answers every request with one token, and records the sizes of its batches."""

    version = 0

    def __init__(self) -> None:
        self.codec = self
        self.sizes: list[int] = []

    def encode(self, messages, images):
        return (len(messages),)

    def generate(self, requests):
        self.sizes.append(len(requests))
        return [Completion(r.prompt_ids, (1,), (0.0,), 0, "") for r in requests]


def collect_batched(envs, **wanted):
    engine = BatchingEngine()
    policy = EnginePolicy(engine)

    class BatchedActor(ScriptedActor):
        async def decide(self, task, turns, observation, screen, key):
            await policy.act([], (), Sampling(), key)
            return await super().decide(task, turns, observation, screen, key)

    async def main():
        collector = Collector(envs, BatchedActor(), CollectorSettings(**wanted), changed=policy.check_batch)
        policy.expect(lambda: collector.playing)
        async with collector:
            return await collector.collect(TASKS[:2], "i0"), collector, engine.sizes

    return run(main())


def test_a_batch_holds_a_request_of_every_running_episode():
    assert collect_batched(fleet(8), group_size=4)[2] == [8, 8]
    sizes = collect_batched(fleet(6), group_size=4)[2]
    assert sum(sizes) == 16 and sizes[0] == 6


@given(SCHEDULES, st.integers(1, 4))
@settings(max_examples=30)
def test_batching_never_waits_for_failed_episodes(schedule, size):
    without_hangs = [{k: "slow" if kind == "hang" else kind for k, kind in plan.items()} for plan in schedule]
    _, collector, _ = collect_batched(scheduled(without_hangs), group_size=size, max_retries=2)
    assert collector.counts["finished"] + collector.counts["failed"] == 2 * size


# --- rewards of a judge --------------------------------------------------------------------------------------------


class ScriptedScorer:
    """Fails with `error` for the first `failures` episodes, then gives every episode `reward`."""

    def __init__(self, reward: float = 0.0, failures: int = 0, error: Exception | None = None) -> None:
        self.reward, self.failures, self.error = reward, failures, error
        self.asked: list[object] = []
        self.closed = False

    async def score(self, trajectory, final):
        self.asked.append(final)
        number = len(self.asked)
        await asyncio.sleep(0.001)
        if number <= self.failures:
            raise self.error
        return self.reward

    def metrics(self):
        return {"judge/verdicts": len(self.asked)}

    async def close(self):
        self.closed = True


def collect_judged(envs, scorer, tasks=TASKS):
    async def main():
        async with Collector(envs, ScriptedActor(), CollectorSettings(group_size=4), scorer=scorer) as collector:
            return await collector.collect(tasks, "i0"), collector

    return run(main())


def test_a_scorer_replaces_the_reward_of_the_environment():
    scorer = ScriptedScorer(reward=0.25)
    groups, collector = collect_judged(fleet(2), scorer)
    assert {t.reward for g in groups for t in g.trajectories} == {0.25}
    assert len(scorer.asked) == 20 and all(final.step == 2 for final in scorer.asked)
    assert collector.status() == {"judge/verdicts": 20} and scorer.closed


def test_episodes_without_a_verdict_are_retried_and_other_errors_end_the_run():
    scorer = ScriptedScorer(1.0, failures=3, error=InfraError("no verdict"))
    groups, collector = collect_judged(fleet(1), scorer, TASKS[:1])
    assert [t.reward for t in groups[0].trajectories] == [1.0] * 4 and collector.counts["retried"] == 3
    with pytest.raises(ValueError, match="no money left"):
        collect_judged(fleet(2), ScriptedScorer(failures=1, error=ValueError("no money left")))


def test_a_judge_of_every_step_ends_episodes_and_its_failures_leave_the_device_in_use():
    class EveryStep(ScriptedScorer):
        steps = 0

        async def solved(self, trajectory, final):
            self.steps += 1
            if self.steps == 1:
                raise NoVerdict("no verdict")
            return self.steps % 2 == 0

    scorer = EveryStep(0.0)
    groups, collector = collect_judged(fleet(1), scorer, TASKS[:1])
    (group,) = groups
    assert [(t.reward, len(t.steps)) for t in group.trajectories] == [(1.0, 1), (0.0, 2)] * 2
    assert len(scorer.asked) == 2, "those that the judge ended are not judged again"
    assert collector.counts["retried"] == 1 and collector.pool.report()[0].faults == 0


def test_a_held_out_task_that_is_lost_is_logged_once(caplog):
    envs = fleet(1)
    envs[0].fault = lambda where, episode: "task" if where == "reset" else "ok"

    async def main():
        async with Collector(envs, ScriptedActor(), CollectorSettings(max_retries=0)) as collector:
            return [await collector.evaluate(TASKS[:1], f"e{i}") for i in range(2)], collector.lost

    assert run(main()) == ([[], []], [])
    assert [r.getMessage() for r in caplog.records] == [
        "held-out task s/a was left out of an evaluation: s/a: reset raised"
    ]


# --- life cycle ----------------------------------------------------------------------------------------------------


def test_errors_of_the_actor_reach_the_caller():
    class Broken(ScriptedActor):
        async def decide(self, *_):
            raise RuntimeError("the model is gone")

    with pytest.raises(RuntimeError, match="the model is gone"):
        collect(fleet(3), actor=Broken())


def test_closing_while_episodes_run_closes_every_device():
    envs = fleet(4)

    async def broken():
        raise InfraError("it fell off the table")

    for env in envs:
        env.fault = lambda where, episode: "hang" if where == "step" else "ok"
    envs[0].close = broken

    async def main():
        collector = Collector(envs, ScriptedActor(), CollectorSettings(group_size=4))
        await collector.start()
        waiting = asyncio.create_task(collector.collect(TASKS, "i0"))
        await asyncio.sleep(0.02)
        await collector.close()
        with pytest.raises(RuntimeError, match="closed"):
            await waiting

    run(main())
    assert [env.closed for env in envs] == [0, 1, 1, 1]
