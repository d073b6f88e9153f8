"""The examples of CONTRIBUTING.md and of the docs work as described."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from counters import HELD_OUT, CounterEnv, make_task
from radio import Radio, RadioPlay
from rloo import leave_one_out, objective
from steps_scorer import StepsScorer

from mobilerl.engines.local import LocalEngine, LocalSettings
from mobilerl.envs.base import Action, Finish, InfraError, Observation, Tap, Task, Wait
from mobilerl.envs.phone.apps.catalogue import APP_NAMES, APPS
from mobilerl.envs.phone.env import PhoneEnv
from mobilerl.envs.phone.phone import Phone
from mobilerl.envs.phone.tasks.catalogue import TEMPLATES
from mobilerl.envs.phone.tasks.expert import ExpertAgent
from mobilerl.envs.phone.tasks.suite import HELD_OUT_SEEDS
from mobilerl.envs.phone.tasks.suite import make_task as phone_task
from mobilerl.envs.phone.transport import InProcessTransport
from mobilerl.eval.policies import EvalPolicy
from mobilerl.eval.report import EpisodeResult, build_results
from mobilerl.eval.run import run_tasks
from mobilerl.judge.scorer import Scorer
from mobilerl.models import tiny
from mobilerl.policy.actor import Decision, make_decision
from mobilerl.policy.screen import Screen
from mobilerl.policy.turns import Turn
from mobilerl.records import Group, TrainingSample
from mobilerl.records.engine import Request, Sampling
from mobilerl.rollout.collector import Collector, CollectorSettings
from mobilerl.rollout.episode import EpisodeSettings

# --- an app and its task -----------------------------------------------------------------------------------------


@pytest.fixture
def phone(monkeypatch: pytest.MonkeyPatch) -> PhoneEnv:
    """A phone with the app and the task, as if both were listed in the catalogues."""
    monkeypatch.setitem(TEMPLATES, "RadioPlay", RadioPlay)
    monkeypatch.setitem(APP_NAMES, "Radio", Radio.package)
    return PhoneEnv(transport=InProcessTransport(Phone((*APPS, Radio))))


async def rolled_out(env: PhoneEnv, task: Task, actions: Sequence[Action] = ()) -> tuple[int, float]:
    """(steps, reward) of these actions, or of the expert."""
    seen, done, steps = await env.reset(task), False, 0
    expert, given = ExpertAgent(env.template), iter(actions)
    while not done:
        result = await env.step(next(given) if actions else expert.act(seen))
        seen, done, steps = result.observation, result.done, steps + 1
    return steps, await env.score()


@pytest.mark.parametrize("seed", [0, HELD_OUT_SEEDS])
def test_the_app_rewards_its_expert_and_not_an_idle_agent(phone: PhoneEnv, seed: int) -> None:
    task = phone_task("RadioPlay", seed)
    steps, reward = asyncio.run(rolled_out(phone, task))
    assert reward == 1.0 and steps <= RadioPlay.steps
    assert asyncio.run(rolled_out(phone, task, [Finish("done")]))[1] == 0.0
    assert asyncio.run(rolled_out(phone, task, [Wait(0.0)] * task.max_steps))[1] == 0.0


# --- an algorithm ------------------------------------------------------------------------------------------------


def test_the_leave_one_out_advantage_by_hand() -> None:
    reward, group = torch.tensor([1.0, 0.0, 0.0, 1.0, 0.7]), torch.tensor([3, 3, 3, 9, 4])
    assert leave_one_out(reward, group).tolist() == [1.0, -0.5, -0.5, 0.0, 0.0]


def test_an_engine_learns_with_the_objective(tmp_path, one_thread) -> None:
    torch.manual_seed(0)
    tiny.create(tmp_path, ["open Settings milk"], hidden=32, layers=2, heads=2, vision_hidden=16)
    engine = LocalEngine(tmp_path, LocalSettings(learning_rate=1e-2))
    prompt = engine.codec.encode([{"role": "user", "content": [{"type": "text", "text": "open Settings"}]}], ())
    done = engine.generate([Request(prompt, (), Sampling(1.0, 6))] * 4)
    rows = [TrainingSample(f"t{i}", 0, d.prompt_ids, d.token_ids, d.logprobs, (), 0) for i, d in enumerate(done)]
    advantages = leave_one_out(torch.tensor([1.0, 0.0, 0.0, 0.0]), torch.zeros(4, dtype=torch.long)).tolist()
    before = [sum(logp) for logp in engine.logprobs(rows)]
    for _ in range(3):
        metrics = engine.update(
            [replace(r, advantage=a) for r, a in zip(rows, advantages, strict=True)], objective, "trajectory-mean"
        )
    after = [sum(logp) for logp in engine.logprobs(rows)]
    assert metrics["entropy_estimate"] > 0
    assert after[0] > before[0] and sum(after[1:]) < sum(before[1:])


# --- a suite -----------------------------------------------------------------------------------------------------


class Counting:
    """Taps More as often as the task says, then finishes."""

    def __init__(self, miscounts: int = 0) -> None:
        self.miscounts = miscounts

    async def decide(self, task: Task, turns: Sequence[Turn], seen: Observation, screen: Screen, key: str) -> Decision:
        more = next(e for e in screen.elements if e.text == "More")
        left = task.params["target"] + self.miscounts - len(turns)
        return make_decision(Tap(*more.centre) if left else Finish())


@pytest.mark.parametrize(("miscounts", "rate"), [(0, 1.0), (1, 0.0)])
def test_the_suite_is_collected_and_reported(miscounts: int, rate: float) -> None:
    tasks = [make_task(seed) for seed in HELD_OUT[:4]]
    envs = [CounterEnv(f"counter-{i}") for i in range(3)]
    groups: list[Group] = []
    policy = EvalPolicy(Counting(miscounts), {})
    asyncio.run(run_tasks(envs, policy, tasks, "eval", EpisodeSettings(), groups.append, trials=2))
    episodes = [
        EpisodeResult(g.task.id, g.task.template, "", True, "test", i, t.reward, t.success, len(t.steps), t.status)
        for g in groups
        for i, t in enumerate(g.trajectories)
    ]
    results = build_results("counters", {"seeds": list(HELD_OUT)[:4]}, episodes)
    assert (results["success_rate"], results["trials"], results["errors"]) == (rate, 8, 0)


# --- a reward ----------------------------------------------------------------------------------------------------


def test_a_custom_scorer_gives_the_reward() -> None:
    scorer: Scorer = StepsScorer(lambda final: 'text="2"' in final.xml, per_step=0.1)

    async def collected() -> list[Group]:
        settings = CollectorSettings(group_size=2)
        async with Collector([CounterEnv("a")], Counting(), settings, scorer=scorer) as collector:
            return await collector.collect([make_task(1), make_task(2)], "g")

    two, three = asyncio.run(collected())
    assert [t.reward for t in two.trajectories] == [pytest.approx(0.7)] * 2  # two taps and the finish
    assert [t.reward for t in three.trajectories] == [0.0] * 2
    assert scorer.metrics() == {"scorer/episodes": 4.0}
    with pytest.raises(InfraError):
        asyncio.run(scorer.score(two.trajectories[0], None))
