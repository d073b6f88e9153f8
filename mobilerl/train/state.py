"""What a run takes with it from one start to the next: all that a checkpoint holds."""

from __future__ import annotations

import asyncio
import random
import time
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path

from mobilerl.algorithms.replay import Replay
from mobilerl.config import Recipe
from mobilerl.engines.base import Engine
from mobilerl.train import checkpoint
from mobilerl.train.critics import Critic
from mobilerl.train.tasks import TaskSampler


@dataclass
class RunState:
    """The engine's weights and optimiser, the curriculum, the replay, the critic, random numbers and counters."""

    engine: Engine
    sampler: TaskSampler
    replay: Replay | None
    critic: Critic | None
    rng: random.Random
    iteration: int = 0
    env_steps: int = 0
    """Steps on devices whose trajectories were used."""
    saved_iteration: int | None = None
    """Of the newest checkpoint; None while there is none."""
    _earlier_s: float = 0.0
    _started: float = 0.0

    def start_clock(self) -> None:
        """From here on time counts: loading the model does not. To be called after `restore`."""
        self._started = time.monotonic() - self._earlier_s

    @property
    def elapsed_s(self) -> float:
        """Seconds of this start and of those before it, as far as their work was saved."""
        return time.monotonic() - self._started

    async def save(self, recipe: Recipe, run_dir: Path, thread: Executor) -> None:
        """In `thread`: devices that play meanwhile must not be kept waiting while gigabytes are written."""
        rest = {
            "elapsed_s": self.elapsed_s,
            "env_steps": self.env_steps,
            "sampler": self.sampler.state_dict(),
            "rng": checkpoint.rng_to_json(self.rng),
        }
        await asyncio.get_running_loop().run_in_executor(
            thread, checkpoint.save, run_dir, self.iteration, self.engine, recipe.agent, self.replay, self.critic, rest,
            recipe.train.keep_checkpoints,
        )  # fmt: skip
        self.saved_iteration = self.iteration

    def restore(self, run_dir: Path) -> None:
        """From the newest checkpoint; a run that was killed before its first one starts again from the beginning."""
        folder = checkpoint.latest(run_dir)
        if folder is None:
            return
        rest = checkpoint.read_state(folder)
        checkpoint.load_engine(folder, self.engine)
        if self.replay is not None:
            checkpoint.load_replay(folder, rest, self.replay)
        if self.critic is not None:
            checkpoint.load_critic(folder, self.critic)
        self.sampler.load_state_dict(rest["sampler"])
        checkpoint.rng_from_json(self.rng, rest["rng"])
        self.iteration = self.saved_iteration = rest["iteration"]
        self._earlier_s, self.env_steps = rest["elapsed_s"], rest["env_steps"]
