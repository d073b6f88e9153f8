"""The phone's tasks for verifiers (`verifiers.v1`): a taskset, and a harness that plays them with MobileRL's prompts.

verifiers finds a taskset by the name of a top-level module: docs/adapters.md has the two lines of one. Sampling is what
verifiers says. A failing device is an error of the rollout; it gives no reward."""

from typing import Literal

import verifiers.v1 as vf
from openai import AsyncOpenAI

from envs.phone.env import PhoneEnv
from envs.phone.tasks.suite import make_task, test_tasks, train_tasks
from mobilerl.agent.actor import ModelActor
from mobilerl.agent.context import ContextPolicy
from mobilerl.agent.pictures import with_images
from mobilerl.agent.server import STOP, completion_of
from mobilerl.engines.base import Sampling
from mobilerl.model_servers import bounded_client
from mobilerl.records import Completion, Status
from mobilerl.rollout.episode import EpisodeSettings, run_episode


class PhoneTask(vf.Task[vf.TaskData]):
    @vf.reward
    async def solved(self, trace: vf.Trace) -> float:
        return trace.info.get("reward", 0.0)  # none: verifiers ended the rollout, as it does after max_turns


class PhoneTasksetConfig(vf.TasksetConfig):
    split: Literal["train", "test"] = "train"
    instances: int = 1


class PhoneTaskset(vf.Taskset[PhoneTask, PhoneTasksetConfig]):
    def load(self) -> list[PhoneTask]:
        tasks = {"train": train_tasks, "test": test_tasks}[self.config.split](self.config.instances)
        return [PhoneTask(vf.TaskData(id=t.id, prompt=t.instruction), self.config.task) for t in tasks]


class PhoneHarness(vf.Harness[vf.HarnessConfig]):
    EXECUTES_CODE = NEEDS_CONTAINER = False

    async def launch(self, ctx, trace, runtime, endpoint, secret, mcp_urls, data) -> vf.ProgramResult:
        _, template, seed = data.id.split("/")
        async with AsyncOpenAI(base_url=endpoint, api_key=secret, http_client=bounded_client()) as client:
            actor = ModelActor(_Intercepted(client, ctx.model), ContextPolicy(), Sampling())
            done = await run_episode(PhoneEnv(), actor, make_task(template, int(seed)), trace.id, EpisodeSettings())
        trace.info |= {"reward": done.reward, "status": str(done.status), "steps": len(done.steps)}
        return vf.ProgramResult(int(done.status is Status.INFRA_ERROR), "", done.error)


class _Intercepted:
    def __init__(self, client: AsyncOpenAI, model: str) -> None:
        self.client, self.model = client, model

    async def act(self, messages, images, sampling, key="") -> Completion:
        asked = with_images(messages, images)
        return completion_of(await self.client.chat.completions.create(model=self.model, messages=asked, stop=[STOP]))
