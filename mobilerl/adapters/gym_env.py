"""A phone as a `gymnasium.Env`: `gymnasium.make("mobilerl.adapters.gym_env:mobilerl/Phone-v0")`.

Observations are the screen, (height, width, 3) uint8; `info` holds instruction, task_id, xml, app and note. The reward
is 0 until the episode ends. A failing device raises `mobilerl.envs.base.InfraError`.
"""

import asyncio
import io
import string
from collections.abc import Coroutine
from typing import Any, TypeVar

import gymnasium
import numpy as np
from gymnasium import spaces
from PIL import Image

from mobilerl.adapters.flat import COORDINATES, KINDS, flat_action
from mobilerl.envs.base import COORD_MAX, Finish, MobileEnv, Observation, Task
from mobilerl.envs.blocking import outside
from mobilerl.envs.phone.env import PhoneEnv
from mobilerl.envs.phone.tasks.suite import train_tasks

T = TypeVar("T")


class PhoneGym(gymnasium.Env[np.ndarray, dict]):
    """Gymnasium environment of a phone. `env` must have screens of `width` x `height` px. `reset` takes the task from
    `options["task"]` or draws it by the seed."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 1}

    def __init__(
        self,
        env: MobileEnv | None = None,
        tasks: tuple[Task, ...] = (),
        width: int = 360,
        height: int = 720,
        render_mode: str | None = None,
    ) -> None:
        self.env, self.tasks = env or PhoneEnv(width=width, height=height), tasks or tuple(train_tasks(1))
        self.render_mode, self._loop = render_mode, asyncio.new_event_loop()
        self.observation_space = spaces.Box(0, 255, (height, width, 3), np.uint8)
        parts = {name: spaces.Discrete(COORD_MAX + 1) for name in COORDINATES} | {"kind": spaces.Discrete(len(KINDS))}
        self.action_space = spaces.Dict(parts | {"text": spaces.Text(500, min_length=0, charset=string.printable)})

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.task = (options or {}).get("task") or self.tasks[self.np_random.integers(len(self.tasks))]
        return self._observe(self._run(self.env.reset(self.task)))

    def step(self, action: dict) -> tuple[np.ndarray, float, bool, bool, dict]:
        x, y, x2, y2 = (int(action[name]) for name in COORDINATES)
        done = flat_action(KINDS[action["kind"]], x, y, x2, y2, action["text"])
        result = self._run(self.env.step(done))
        reward = self._run(self.env.score()) if result.done else 0.0
        pixels, info = self._observe(result.observation, result.note)
        return pixels, reward, isinstance(done, Finish), result.done and not isinstance(done, Finish), info

    def render(self) -> np.ndarray | None:
        return self._pixels if self.render_mode == "rgb_array" else None

    def close(self) -> None:
        if not self._loop.is_closed():  # gymnasium allows repeated calls
            self._run(self.env.close())
            self._loop.close()

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return outside(lambda: self._loop.run_until_complete(coroutine))

    def _observe(self, observation: Observation, note: str = "") -> tuple[np.ndarray, dict]:
        self._pixels = np.array(Image.open(io.BytesIO(observation.screenshot)).convert("RGB"))
        seen = {"xml": observation.xml, "app": observation.app, "note": note}
        return self._pixels, {"instruction": self.task.instruction, "task_id": self.task.id} | seen


gymnasium.register("mobilerl/Phone-v0", entry_point=f"{__name__}:PhoneGym")
