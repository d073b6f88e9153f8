"""The collector under any faults: every episode ends once, and batches wait for nobody who does not come."""

from __future__ import annotations

import math

from collecting import TASKS, collect, fleet
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted_env import FAULTS, WHERE, ScriptedActor, ScriptedEnv, run

from envs.base import Finish, Tap
from mobilerl.agent.policy import EnginePolicy
from mobilerl.engines.base import Sampling
from mobilerl.records import Completion, Status
from mobilerl.rollout.collector import Collector, CollectorSettings
from mobilerl.rollout.episode import EpisodeSettings

schedules = st.lists(
    st.dictionaries(st.tuples(st.sampled_from(WHERE), st.integers(0, 8)), st.sampled_from(FAULTS), max_size=8),
    min_size=1, max_size=4,
)  # fmt: skip


@given(schedules, st.integers(1, 3), st.integers(1, 5), st.integers(0, 3), st.sampled_from([0.25, 0.75, 1.0]))
@settings(max_examples=60)
def test_whatever_fails_every_episode_ends_exactly_once(schedule, n_tasks, size, retries, min_group):
    envs = [
        ScriptedEnv(f"d{i}", fault=lambda where, episode, plan=plan: plan.get((where, episode), "ok"))
        for i, plan in enumerate(schedule)
    ]
    groups, collector = collect(envs, TASKS[:n_tasks], deadline_s=0.03, group_size=size, max_retries=retries,
                                min_group=min_group)  # fmt: skip
    counts = collector.counts
    assert counts["dispatched"] == n_tasks * size == counts["finished"] + counts["failed"]
    assert counts["infra_errors"] == counts["retried"] + counts["failed"]
    assert len(groups) + counts["lost_groups"] == n_tasks
    assert collector.unfinished == 0 and collector.playing == 0

    played = [t for g in groups for t in g.trajectories]
    assert all(t.status is not Status.INFRA_ERROR and not t.error for t in played)
    assert all(t.reward == 1.0 and [s.action for s in t.steps] == [Tap(1, 1), Finish("done")] for t in played)
    assert len({t.id for t in played}) == len(played)
    assert all(len(g.trajectories) >= math.ceil(min_group * size) for g in groups)
    order = [TASKS.index(g.task) for g in groups]
    assert order == sorted(order)
    assert sum(env.episode + 1 for env in envs) == counts["dispatched"] + counts["retried"]


class BatchingEngine:
    """Answers every request with one token; used to see whom the batches wait for."""

    version = 0

    def __init__(self) -> None:
        self.codec = self
        self.sizes: list[int] = []

    def encode(self, messages, images):
        return (len(messages),)

    def generate(self, requests):
        self.sizes.append(len(requests))
        return [Completion(r.prompt_ids, (1,), (0.0,), 0, "") for r in requests]


class BatchedActor(ScriptedActor):
    """Asks an EnginePolicy before it plays its script."""

    policy: EnginePolicy

    async def decide(self, task, turns, observation, screen, key):
        await self.policy.act([], (), Sampling(), key)
        return await super().decide(task, turns, observation, screen, key)


def collect_batched(envs, deadline_s=30.0, **wanted):
    engine, actor = BatchingEngine(), BatchedActor()
    actor.policy = EnginePolicy(engine)
    options = CollectorSettings(episode=EpisodeSettings(deadline_s=deadline_s), **wanted)

    async def main():
        collector = Collector(envs, actor, options, poke=actor.policy.poke)
        actor.policy.expected = lambda: collector.playing
        async with collector:
            return await collector.collect(TASKS[:2], "i0"), collector, engine.sizes

    return run(main())


def test_batches_hold_every_episode_that_is_being_played():
    _, _, sizes = collect_batched(fleet(8), group_size=4)
    assert sizes == [8, 8]
    _, _, sizes = collect_batched(fleet(6), group_size=4)
    assert sum(sizes) == 16 and sizes[0] == 6


def test_a_device_that_may_not_take_what_is_queued_is_not_waited_for():
    # d0 fails every episode; with nothing else queued for it, d1 must not wait for d0 to ask.
    envs = fleet(2)
    envs[0].fault = lambda where, episode: "infra" if where == "step" else "ok"
    groups, collector, _ = collect_batched(envs, group_size=1, deadline_s=15.0)
    assert len(groups) == 2 and collector.counts["retried"] == collector.counts["infra_errors"] >= 1
    assert all(t.wall_s < 5.0 for g in groups for t in g.trajectories)


@given(schedules, st.integers(1, 4))
@settings(max_examples=30)
def test_batching_never_hangs_whatever_fails(schedule, size):
    envs = [
        ScriptedEnv(f"d{i}", fault=lambda where, episode, plan=plan: {"hang": "slow"}.get(
            plan.get((where, episode), "ok"), plan.get((where, episode), "ok")))
        for i, plan in enumerate(schedule)
    ]  # fmt: skip
    _, collector, _ = collect_batched(envs, group_size=size, max_retries=2)
    assert collector.counts["finished"] + collector.counts["failed"] == 2 * size
