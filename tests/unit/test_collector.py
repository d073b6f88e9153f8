"""The collector: order, retries, judged rewards, how it ends, and that runs repeat exactly."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import replace

import pytest
from collecting import TASKS, collect, fleet
from scripted_env import ScriptedActor, ScriptedEnv, run

from envs.base import Finish, InfraError, Tap
from envs.phone.env import PhoneEnv
from envs.phone.tasks.suite import train_tasks
from envs.pool import DevicePool, PoolSettings
from mobilerl.agent.actor import ModelActor, scripted
from mobilerl.agent.context import ContextPolicy
from mobilerl.agent.policy import EnginePolicy
from mobilerl.engines.base import Sampling
from mobilerl.records import Status, Trajectory
from mobilerl.rollout.collector import Collector, CollectorSettings
from mobilerl.rollout.episode import EpisodeSettings
from mobilerl.screen_files import MemoryScreens
from mobilerl.trajectory_files import trajectory_to_dict


@pytest.mark.parametrize("devices", [1, 3, 50])
def test_groups_come_in_the_order_of_their_tasks_and_are_whole(devices):
    envs = fleet(devices)
    groups, collector = collect(envs)
    assert [g.task.id for g in groups] == [t.id for t in TASKS]
    for i, group in enumerate(groups):
        assert [t.id for t in group.trajectories] == [f"i0-{i:03d}-{slot:02d}" for slot in range(4)]
        assert all(t.task == group.task and t.success for t in group.trajectories)
    assert collector.counts == {"dispatched": 20, "finished": 20}
    assert collector.unfinished == 0 and collector.playing == 0
    assert all(env.closed == 1 for env in envs)
    assert sum(env.episode + 1 for env in envs) == 20


def test_no_batch_barrier_a_free_device_takes_the_next_episode():
    envs = fleet(2)
    envs[0].fault = lambda where, episode: "hang" if where == "step" else "ok"
    groups, collector = collect(envs, TASKS[:1], deadline_s=2.0)
    assert collector.counts["infra_errors"] == 1
    assert [t.device_id for t in groups[0].trajectories] == ["d1"] * 4


def test_a_failed_episode_goes_to_another_device():
    envs = fleet(3)
    envs[1].fault = lambda where, episode: "infra" if where == "step" else "ok"
    groups, collector = collect(envs)
    played = [t for g in groups for t in g.trajectories]
    assert len(played) == 20 and {t.device_id for t in played} == {"d0", "d2"}
    assert all(t.status is Status.FINISHED for t in played)
    assert collector.counts["infra_errors"] == collector.counts["retried"] == envs[1].episode + 1
    assert "failed" not in collector.counts


def test_one_device_gets_its_failed_episodes_again():
    env = ScriptedEnv(fault=lambda where, episode: "infra" if where == "reset" and episode % 2 == 0 else "ok")
    groups, collector = collect([env])
    assert len(groups) == 5 and collector.counts["retried"] == 20 and collector.counts["finished"] == 20


@pytest.mark.parametrize(("failing", "survives"), [(0, True), (1, True), (2, False), (4, False)])
def test_a_group_survives_with_three_quarters_of_its_episodes(failing, survives):
    class Unlucky(ScriptedEnv):
        """The first `failing` episodes of task b always fail, on every device."""

        async def score(self):
            fails = self.tasks[-1] == "s/b" and collected["key"] < failing
            self.fault = lambda where, episode: "infra" if fails and where == "score" else "ok"
            return await super().score()

    class Watching(ScriptedActor):
        async def decide(self, task, turns, observation, screen, key):
            collected["key"] = int(key[-2:])
            return scripted(Finish(""))

    collected: dict[str, int] = {}
    groups, collector = collect([Unlucky("d0")], TASKS[:3], Watching(), max_retries=1)
    assert [g.task.id for g in groups] == ["s/a", "s/b", "s/c"] if survives else ["s/a", "s/c"]
    assert collector.counts["failed"] == failing and collector.counts["finished"] == 12 - failing
    assert collector.counts["lost_groups"] == (not survives)
    if survives:
        assert [int(t.id[-2:]) for t in groups[1].trajectories] == list(range(failing, 4))


# --- a judge's rewards -------------------------------------------------------------------------------------------


class ScriptedScorer:
    """Fails with `error` for the first `failures` episodes, then gives every episode `reward`."""

    def __init__(self, reward: float = 0.0, failures: int = 0, error: Exception | None = None) -> None:
        self.reward, self.failures, self.error = reward, failures, error
        self.asked: list[tuple[str, object]] = []
        self.closed = False

    async def score(self, trajectory, final):
        self.asked.append((trajectory.id, final))
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
        options = CollectorSettings(group_size=4, episode=EpisodeSettings(deadline_s=60.0))
        async with Collector(envs, ScriptedActor(), options, scorer=scorer) as collector:
            return await collector.collect(tasks, "i0"), collector

    return run(main())


def test_spares_are_held_though_they_are_not_played_at_once():
    collector = Collector(DevicePool(None, PoolSettings(2, spares=1)), ScriptedActor(), CollectorSettings())
    assert (collector.devices, collector.held, collector.judged()) == (2, 3, {})


def test_a_scorer_gives_the_reward_in_place_of_the_env():
    scorer = ScriptedScorer(reward=0.25)
    groups, collector = collect_judged(fleet(2), scorer)
    assert {t.reward for g in groups for t in g.trajectories} == {0.25} and len(scorer.asked) == 20
    assert all(final.step == 2 for _, final in scorer.asked)
    assert collector.status() == {"judge/verdicts": 20} and scorer.closed


def test_no_verdict_is_played_again_and_no_device_is_blamed():
    scorer = ScriptedScorer(1.0, failures=3, error=InfraError("no verdict"))
    groups, collector = collect_judged(fleet(1), scorer, TASKS[:1])
    assert [t.reward for t in groups[0].trajectories] == [1.0] * 4
    assert collector.counts["retried"] == collector.counts["infra_errors"] == 3


def test_a_judge_that_cannot_be_used_ends_the_run():
    with pytest.raises(ValueError, match="no money left"):
        collect_judged(fleet(2), ScriptedScorer(failures=1, error=ValueError("no money left")))


# --- life cycle --------------------------------------------------------------------------------------------------


class BrokenActor(ScriptedActor):
    async def decide(self, *_):
        raise RuntimeError("the model is gone")


def test_what_the_actor_raises_reaches_the_caller():
    with pytest.raises(RuntimeError, match="the model is gone"):
        collect(fleet(3), actor=BrokenActor())


def test_closing_in_the_middle_leaves_nothing_behind():
    envs = fleet(3)
    for env in envs:
        env.fault = lambda where, episode: "hang" if where == "step" else "ok"

    async def main():
        collector = Collector(envs, ScriptedActor(), CollectorSettings(group_size=4))
        await collector.start()
        waiting = asyncio.create_task(collector.collect(TASKS, "i0"))
        await asyncio.sleep(0.02)
        await collector.close()
        with pytest.raises(RuntimeError, match="closed while groups"):
            await waiting

    run(main())
    assert [env.closed for env in envs] == [1, 1, 1]


def test_a_caller_that_gives_up_loses_no_group():
    envs = fleet(1)

    async def main():
        async with Collector(envs, ScriptedActor(), CollectorSettings(group_size=2)) as collector:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await collector.collect([], "none")
                    async for _ in collector.ready(1):
                        raise AssertionError("nothing was dispatched")
            return await collector.collect(TASKS, "i0")

    assert len(run(main())) == 5


def test_a_device_that_cannot_be_closed_does_not_keep_the_others_open():
    envs = fleet(3)

    async def broken():
        raise InfraError("it fell off the table")

    envs[0].close = broken
    collect(envs, TASKS[:1])
    assert [env.closed for env in envs] == [0, 1, 1]


def test_misuse_is_an_error_and_not_a_hang():
    with pytest.raises(ValueError, match="different device_ids"):
        Collector([ScriptedEnv("x"), ScriptedEnv("x")], ScriptedActor(), CollectorSettings())
    with pytest.raises(ValueError, match="at least one device"):
        Collector([], ScriptedActor(), CollectorSettings())

    async def twice():
        async with Collector(fleet(1), ScriptedActor(), CollectorSettings()) as collector:
            await collector.dispatch(TASKS[0], "g")
            await collector.dispatch(TASKS[0], "g")

    with pytest.raises(ValueError, match="group g is already being collected"):
        run(twice())
    with pytest.raises(RuntimeError, match="has not been started"):
        run(Collector(fleet(1), ScriptedActor(), CollectorSettings()).collect(TASKS[:1], "g"))


def test_groups_can_be_taken_as_they_end():
    async def main():
        async with Collector(fleet(2), ScriptedActor(), CollectorSettings(group_size=2)) as collector:
            for i, task in enumerate(TASKS):
                await collector.dispatch(task, f"g{i}", size=i + 1)
            first = [g async for g in collector.ready(2)]
            rest = [g async for g in collector.ready(3)]
            return first, rest

    first, rest = run(main())
    assert Counter(len(g.trajectories) for g in first + rest) == {1: 1, 2: 1, 3: 1, 4: 1, 5: 1}
    assert [g.task.id for g in first] == ["s/a", "s/b"]


# --- the same seeds, the same bytes ------------------------------------------------------------------------------


def serialised(trajectory: Trajectory) -> str:
    """Everything but what a clock or the choice of the device says."""
    screens = MemoryScreens()
    record = trajectory_to_dict(trajectory, screens)
    del record["wall_s"], record["device_id"]
    for step in record["steps"]:
        del step["timings"]
    return json.dumps(record) + " ".join(sorted(screens.screens))


class WanderingActor(ModelActor):
    """Taps the element that the sampled tokens point at, so that an untrained model's episodes differ."""

    async def decide(self, task, turns, observation, screen, key):
        decision = await super().decide(task, turns, observation, screen, key)
        element = screen.elements[sum(decision.completion.token_ids) % len(screen.elements)]
        return replace(decision, action=Tap(*element.centre))


def test_the_same_seeds_give_the_same_bytes(tmp_path):
    import torch

    from mobilerl import tiny
    from mobilerl.engines.local import LocalEngine, LocalSettings

    tasks = [replace(task, max_steps=4) for task in train_tasks(1)[::9][:3]]
    torch.manual_seed(0)
    tiny.create(tmp_path, [t.instruction for t in tasks], hidden=32, layers=2, heads=2, vision_hidden=16)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)

    def play() -> list[str]:
        torch.manual_seed(7)
        policy = EnginePolicy(LocalEngine(tmp_path, LocalSettings()))
        context = ContextPolicy(screenshots=1, history_thoughts=False, screen_style="marks", grounding="mark",
                                layout="compact")  # fmt: skip
        actor = WanderingActor(policy, context, Sampling(1.0, 8))
        envs = [PhoneEnv(f"sim-{i}", popup_rate=0.7) for i in range(4)]
        options = CollectorSettings(group_size=3)

        async def main():
            collector = Collector(envs, actor, options, poke=policy.poke)
            policy.expected = lambda: collector.playing
            async with collector:
                return await collector.collect(tasks, "i0")

        return [serialised(t) for g in asyncio.run(main()) for t in g.trajectories]

    try:
        first, second = play(), play()
    finally:
        torch.set_num_threads(threads)
    assert len(first) == 9 and len(set(first)) == 9
    assert first == second
