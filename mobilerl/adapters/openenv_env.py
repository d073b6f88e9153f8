"""Phones on an OpenEnv server: `uvicorn mobilerl.adapters.openenv_env:app --factory --host 127.0.0.1`.

Every session has its own phone. `reset(split="train" | "test", index=N)` or `reset(seed=N)` selects the task.
`screenshot` is a PNG in base64; `metadata` holds task_id and note, the reason why an action was not carried out. A
failing device is a server error (EXECUTION_ERROR), never a reward.
"""

import base64
from typing import Literal

from fastapi import FastAPI
from openenv.core import Action, Environment, Observation, State, create_fastapi_app

from mobilerl.adapters.flat import KINDS, flat_action, select_task
from mobilerl.envs.base import StepResult
from mobilerl.envs.blocking import run
from mobilerl.envs.phone.env import PhoneEnv
from mobilerl.envs.phone.tasks.suite import held_out_tasks, train_tasks

SPLITS = {"train": tuple(train_tasks(1)), "test": tuple(held_out_tasks(1))}


class PhoneAction(Action):
    # `at` and `to` are (x, y) in thousandths of the screen, 0-999; `text` is the text to type, app to open or answer.
    kind: Literal[KINDS]  # type: ignore[valid-type]  # of a tuple
    at: tuple[int, int] = (0, 0)
    to: tuple[int, int] = (0, 0)
    text: str = ""


class PhoneObservation(Observation):
    instruction: str
    screenshot: str
    xml: str
    app: str


class PhoneEnvironment(Environment[PhoneAction, PhoneObservation, State]):
    SUPPORTS_CONCURRENT_SESSIONS = True
    state = State()

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, split: str = "train", index: int | None = None
    ) -> PhoneObservation:
        self.task = select_task(SPLITS, split, seed or 0, index)
        self.env, self.state = PhoneEnv(), State(episode_id=episode_id)
        return self._observe(StepResult(run(self.env.reset(self.task)), done=False))

    def step(self, action: PhoneAction, timeout_s: float | None = None, **_: object) -> PhoneObservation:
        return self._observe(run(self.env.step(flat_action(action.kind, *action.at, *action.to, action.text))))

    def _observe(self, result: StepResult) -> PhoneObservation:
        seen, reward = result.observation, run(self.env.score()) if result.done else 0.0
        self.state.step_count = seen.step
        return PhoneObservation(
            instruction=self.task.instruction,
            screenshot=base64.b64encode(seen.screenshot).decode(),
            xml=seen.xml,
            app=seen.app,
            done=result.done,
            reward=reward,
            metadata={"task_id": self.task.id, "note": result.note},
        )


def app() -> FastAPI:
    return create_fastapi_app(PhoneEnvironment, PhoneAction, PhoneObservation, max_concurrent_envs=64)
