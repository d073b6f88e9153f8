"""The phone's tasks for verifiers (`verifiers.v1`): a taskset, and a harness that runs them with MobileRL's prompts.

verifiers finds a taskset by the name of a top-level module; docs/python.md shows one with two lines. verifiers sets
the sampling parameters. A failing device is an error of the rollout and gives no reward.
"""

from collections.abc import Sequence
from typing import Any, Literal

import verifiers.v1 as vf
from openai import AsyncOpenAI

from mobilerl.envs.phone.env import PhoneEnv
from mobilerl.envs.phone.tasks.suite import held_out_tasks, make_task, train_tasks
from mobilerl.inference.client import bounded_client
from mobilerl.inference.images import with_images
from mobilerl.inference.server import completion_of
from mobilerl.policy.actor import Messages, ModelActor
from mobilerl.policy.context import ContextPolicy
from mobilerl.records import Completion, Status
from mobilerl.records.engine import ANSWER_END, Sampling
from mobilerl.rollout.episode import EpisodeSettings, run_episode


class PhoneTask(vf.Task[vf.TaskData]):
    @vf.reward
    async def solved(self, trace: vf.Trace) -> float:
        return trace.info.get("reward", 0.0)  # missing if verifiers ended the rollout, e.g. at max_turns


class PhoneTasksetConfig(vf.TasksetConfig):
    split: Literal["train", "test"] = "train"
    instances: int = 1


class PhoneTaskset(vf.Taskset[PhoneTask, PhoneTasksetConfig]):
    def load(self) -> list[PhoneTask]:
        tasks = (train_tasks if self.config.split == "train" else held_out_tasks)(self.config.instances)
        return [PhoneTask(vf.TaskData(id=t.id, prompt=t.instruction), self.config.task) for t in tasks]


class PhoneHarness(vf.Harness[vf.HarnessConfig]):
    EXECUTES_CODE = NEEDS_CONTAINER = False

    async def launch(
        self, ctx: Any, trace: vf.Trace, runtime: Any, endpoint: str, secret: str, mcp_urls: Any, data: vf.TaskData
    ) -> vf.ProgramResult:
        _, template, seed = data.id.split("/")
        async with AsyncOpenAI(base_url=endpoint, api_key=secret, http_client=bounded_client(endpoint)) as client:
            actor = ModelActor(_Endpoint(client, ctx.model), ContextPolicy(), Sampling())
            done = await run_episode(PhoneEnv(), actor, make_task(template, int(seed)), trace.id, EpisodeSettings())
        trace.info |= {"reward": done.reward, "status": str(done.status), "steps": len(done.steps)}
        return vf.ProgramResult(int(done.status is Status.INFRA_ERROR), "", done.error)


class _Endpoint:
    def __init__(self, client: AsyncOpenAI, model: str) -> None:
        self.client, self.model = client, model

    async def act(self, messages: Messages, images: Sequence[bytes], sampling: Sampling, key: str = "") -> Completion:
        asked: Any = with_images(messages, images)
        return completion_of(
            await self.client.chat.completions.create(model=self.model, messages=asked, stop=[ANSWER_END])
        )
