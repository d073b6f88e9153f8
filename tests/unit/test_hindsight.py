"""Gated hindsight: the policy scores its steps after it was told a solved episode of the group."""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from made_algorithms import make
from made_groups import make_group

from mobilerl.algorithms.advantages import hindsight_advantage
from mobilerl.config import AgentSection
from mobilerl.config.algorithms import AdaGRPOSection
from mobilerl.envs.phone.env import PhoneEnv
from mobilerl.envs.phone.tasks.suite import make_task
from mobilerl.models.codec import Codec
from mobilerl.policy.actor import ModelActor
from mobilerl.policy.context import make_context
from mobilerl.policy.hindsight import HindsightPrompts
from mobilerl.records import Completion, Trajectory
from mobilerl.records.engine import Sampling
from mobilerl.rollout.episode import episode_settings, run_episode

CHECKPOINT = Path(__file__).parents[2] / "recipes/generated/checkpoint"


def test_gated_advantages_golden():
    """beta gap = ln 3 gives the gate 3/4, -ln 3 gives 1/4, and 0 gives 1/2."""
    gap = torch.tensor([math.log(3), math.log(3), -math.log(3), -math.log(3), 0.0, 0.0], dtype=torch.float64) / 2
    advantage = torch.tensor([1.0, -1.0, 1.0, -1.0, 0.4, -0.4], dtype=torch.float64)
    gated = hindsight_advantage(advantage, gap, beta=2.0)
    assert gated.tolist() == pytest.approx([1.5, -0.5, 0.5, -1.5, 0.4, -0.4])
    with pytest.raises(ValueError, match="beta"):
        hindsight_advantage(advantage, gap, beta=0.0)


def test_all_but_the_shortest_success_are_gated_where_there_is_one():
    """Two tokens a step. With the solution, those of g-0 have ln 3 - 2 nats more each and those of g-2 -ln 3 - 2: the
    mean gain is -2, the gaps are ln 3 and -ln 3, the gates 3/4 and 1/4. Rewards 1, 1, 0 have A = 1/3, 1/3, -2/3."""
    algorithm = make(AdaGRPOSection(hindsight=1.0, spa=False))
    gain = {"g-0": math.log(3) - 2, "g-2": -math.log(3) - 2}
    algorithm._resources.scorer.logprobs = lambda rows: [
        tuple(logp + gain[row.trajectory_id] for logp in row.rollout_logprobs) for row in rows
    ]
    groups = [make_group("g", (1, 1, 0), (3, 2, 3)), make_group("h", (0.5, 0), (1, 1))]
    algorithm.add(groups, 1)
    wanted = {"g-0": [0.5] * 3, "g-1": [1 / 3] * 2, "g-2": [-1.0] * 3, "h-0": [0.25], "h-1": [-0.25]}
    assert algorithm.advantages() == {name: pytest.approx(steps) for name, steps in wanted.items()}
    metrics = algorithm.metrics()
    assert metrics["hindsight/gain"] == pytest.approx(-2.0) and metrics["hindsight/steps"] == 6
    plain = make(AdaGRPOSection(spa=False))
    plain.add(groups, 1)
    assert plain.advantages()["g-0"] == pytest.approx([1 / 3] * 3) and "hindsight/gain" not in plain.metrics()


REPLIES = ('<answer>do(action="Launch", app="Notes")</answer>', "nonsense", '<answer>finish(message="")</answer>')


def episode(codec: Codec, agent: AgentSection) -> Trajectory:
    class Scripted:
        replies = iter(REPLIES)

        async def act(self, messages, images, sampling, key=""):
            text = next(self.replies)
            ids = codec.encode_response(text)
            return Completion(codec.encode(messages, images), ids, (-0.5,) * len(ids), 0, text)

    actor = ModelActor(Scripted(), make_context(agent, codec.images.size_seen), Sampling(1.0, 32))
    task = make_task("NotesPin", 0)
    env = PhoneEnv(screenshots=agent.screenshots > 0)
    return asyncio.run(run_episode(env, actor, task, "e", episode_settings(agent)))


@pytest.mark.parametrize(
    "agent",
    [
        AgentSection(grounding="mark", screen_style="marks", layout="compact", screenshots=0, random_marks=True),
        AgentSection(screenshots=1),
    ],
)
def test_prompts_are_those_of_the_episode_with_the_solution_in_the_instruction(agent):
    codec = Codec.load(CHECKPOINT)
    played = episode(codec, agent)
    tell = HindsightPrompts(make_context(agent, codec.images.size_seen), codec.encode, agent.random_marks)
    told = tell(played, played)
    assert len(told) == 3
    for sample, step in zip(told, played.steps, strict=True):
        own, longer = step.completion.prompt_ids, codec.tokenizer.decode(sample.prompt_ids)
        assert sample.response_ids == step.completion.token_ids and sample.images == step.images
        assert len(sample.prompt_ids) > len(own) and "solved by" in longer
        assert "solved by" not in codec.tokenizer.decode(own)
    shorter = replace(played.steps[1].completion, prompt_ids=played.steps[1].completion.prompt_ids[1:])
    silent = replace(played.steps[2].completion, token_ids=(), logprobs=())
    other = replace(played.steps[1], completion=shorter), replace(played.steps[2], completion=silent)
    assert [s is None for s in tell(replace(played, steps=(played.steps[0], *other)), played)] == [False, True, True]
