"""The phone's tasks in a real verifiers rollout, with a model server that sends scripted responses.

verifiers needs an older openai package than constraints.txt, so these tests run in a separate environment.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

WHERE = "needs verifiers: see docs/python.md"
pytest.importorskip("verifiers.v1.tasksets", reason=WHERE, exc_type=ImportError)

import verifiers.v1 as vf  # noqa: E402
from http_stand_in import Handler, Server, completion  # noqa: E402
from verifiers.v1.utils.loaders import load_environment  # noqa: E402

from mobilerl.envs.base import InfraError, Task  # noqa: E402
from mobilerl.envs.phone.env import PhoneEnv  # noqa: E402
from mobilerl.envs.phone.tasks.expert import ExpertAgent  # noqa: E402
from mobilerl.envs.phone.tasks.suite import train_tasks  # noqa: E402
from mobilerl.policy.actions import format_response  # noqa: E402
from mobilerl.policy.prompts import DEFAULT_SYSTEM_PROMPTS  # noqa: E402
from mobilerl.policy.screen import parse_screen  # noqa: E402

MODULE = """\
from mobilerl.adapters.verifiers_env import PhoneHarness, PhoneTaskset

__all__ = ["PhoneHarness", "PhoneTaskset"]
"""
TEMPLATE = "MusicPlay"


class Scripted(Server):
    """Answers each chat completion with the next response of a list."""

    def __init__(self, responses: list[str]) -> None:
        self.responses, self.bodies = list(responses), []
        super().__init__(_Handler)


class _Handler(Handler):
    server: Scripted

    def do_POST(self) -> None:
        self.server.bodies.append(self.body())
        self.respond(completion(self.server.responses.pop(0)))


def expert_responses(task: Task) -> list[str]:
    """The responses of an expert, without the closing tag, which is a stop string."""

    async def play() -> list[str]:
        env, responses = PhoneEnv(), []
        seen, done = await env.reset(task), False
        expert = ExpertAgent(env.template)
        while not done:
            action = expert.act(seen)
            screen = parse_screen(seen.xml, seen.width, seen.height)
            responses.append(format_response(action, screen, "box").removesuffix("</answer>"))
            result = await env.step(action)
            seen, done = result.observation, result.done
        assert await env.score() == 1.0
        return responses

    return asyncio.run(play())


@pytest.fixture
def rollout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Runs the template's task with these responses; returns (episode, requests to the model server)."""
    (tmp_path / "mobilerl_phone.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "mobilerl_phone", raising=False)
    monkeypatch.setenv("STAND_IN_KEY", "k")

    def play(responses: list[str], **agent: object):
        server = Scripted(responses)
        client = vf.EvalClientConfig(base_url=f"{server.url}/v1", api_key_var="STAND_IN_KEY")
        agent = {"runtime": {"type": "subprocess"}, **agent}
        env = load_environment(
            vf.SingleAgentEnvConfig.model_validate({"taskset": {"id": "mobilerl-phone"}, "agent": agent})
        )
        task = next(t for t in env.taskset if f"/{TEMPLATE}/" in t.data.id)
        sampling = vf.SamplingConfig(temperature=0.5, max_tokens=99)
        context = vf.ModelContext(client=client, model="vlm", sampling=sampling)

        async def once() -> vf.Episode:
            async with env.serving():
                return await env.run_slot(env.slots(task)[0], context)

        try:
            return asyncio.run(once()), server.bodies
        finally:
            server.stop()

    return play


def task() -> Task:
    return next(t for t in train_tasks(1) if t.template == TEMPLATE)


def test_an_expert_gets_its_reward_and_every_call_is_recorded(rollout) -> None:
    responses = expert_responses(task())
    episode, asked = rollout(responses)
    (trace,) = episode.traces
    assert episode.ok and trace.rewards["solved"].score == 1.0
    assert trace.info == {"reward": 1.0, "status": "finished", "steps": len(responses)}
    assert trace.num_turns == len(responses) == len(asked)
    # verifiers' sampling, MobileRL's prompt with the screen in it.
    assert (asked[0]["temperature"], asked[0]["max_tokens"], asked[0]["stop"]) == (0.5, 99, ["</answer>"])
    system, user = asked[0]["messages"]
    assert system["content"] == DEFAULT_SYSTEM_PROMPTS["box"]
    assert user["content"][0]["image_url"]["url"].startswith("data:image/png;base64,")
    assert task().instruction in user["content"][1]["text"]


def test_a_failing_device_is_an_error_without_reward(rollout, monkeypatch) -> None:
    def lost(self: PhoneEnv, action: object) -> None:
        raise InfraError("sim-0: gone")

    monkeypatch.setattr(PhoneEnv, "_step", lost)
    episode, _ = rollout(['<answer>do(action="Back")'])
    (trace,) = episode.traces
    assert not episode.ok and "sim-0: gone" in trace.errors[0].message
    assert not any(reward and reward.score for reward in trace.rewards.values())
