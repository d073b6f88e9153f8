"""The state of a run, as saved in a checkpoint."""

from __future__ import annotations

import asyncio
import random
import time
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path

from mobilerl.algorithms.base import Algorithm
from mobilerl.config import Recipe
from mobilerl.records.engine import Engine
from mobilerl.training import checkpoint
from mobilerl.training.tasks import TaskSampler


@dataclass
class RunState:
    """Weights and optimizer (in the engine), the curriculum, the algorithm's state, the RNG and counters."""

    engine: Engine
    sampler: TaskSampler
    algorithm: Algorithm
    rng: random.Random
    iteration: int = 0
    env_steps: int = 0
    """Environment steps of all trajectories used so far."""
    saved_iteration: int | None = None
    """Iteration of the newest checkpoint; None without one."""
    _earlier_s: float = 0.0
    _started: float = 0.0

    def start_clock(self) -> None:
        """Starts counting training time, which excludes loading the model. Call it after `restore`."""
        self._started = time.monotonic() - self._earlier_s

    @property
    def elapsed_s(self) -> float:
        """Training time in seconds, including earlier starts up to their last checkpoint."""
        return time.monotonic() - self._started

    async def save(self, recipe: Recipe, run_dir: Path, thread: Executor) -> None:
        """Saves a checkpoint in `thread`, so that writing gigabytes does not block the devices."""
        rest = {
            "elapsed_s": self.elapsed_s,
            "env_steps": self.env_steps,
            "sampler": self.sampler.state_dict(),
            "rng": checkpoint.rng_to_json(self.rng),
        }
        await asyncio.get_running_loop().run_in_executor(
            thread,
            checkpoint.save,
            run_dir,
            self.iteration,
            self.engine,
            recipe.agent,
            self.algorithm,
            rest,
            recipe.train.keep_checkpoints,
        )
        self.saved_iteration = self.iteration

    def restore(self, run_dir: Path) -> None:
        """Loads the newest checkpoint; a run that was killed before its first one starts from the beginning."""
        folder = checkpoint.latest(run_dir)
        if folder is None:
            return
        rest = checkpoint.read_state(folder)
        checkpoint.load_engine(folder, self.engine)
        checkpoint.load_algorithm(folder, rest, self.algorithm)
        checkpoint.load_sampler(folder, rest, self.sampler, self.rng)
        self.iteration = self.saved_iteration = rest["iteration"]
        self._earlier_s, self.env_steps = rest["elapsed_s"], rest["env_steps"]
