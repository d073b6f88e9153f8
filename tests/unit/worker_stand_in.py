"""What runs in a stand-in's process for a rollout worker's: no model, no phones, and as careful about weights."""

from __future__ import annotations

import os
import signal
import zlib
from collections import Counter
from multiprocessing.connection import Connection
from pathlib import Path

from made_groups import make_trajectory

from mobilerl.envs.base import DeviceEvent
from mobilerl.records import Group
from mobilerl.suites.fleet import Part
from mobilerl.training.unguarded import UNGUARDED
from mobilerl.training.worker_process import Assignment, WorkerResult


def main(pipe: Connection, notes: Connection, recipe_json: str, part: Part, run_dir: Path | None) -> None:
    """Plays with the weights of version 0 until it is given others. Rewards are checksums of the weights."""
    weights, version = b"those of recipe.model", 0
    notes.send(DeviceEvent(f"phone-{part.index}", "failed", "it hangs"))
    while (order := pipe.recv()) is not None:
        if order.weights is not None:
            weights, version = order.weights, order.version
        pipe.send(WorkerResult(_groups(order, float(zlib.crc32(weights)), version), Counter(), 0.0, {}, {}, "", ()))


def hang(pipe: Connection, notes: Connection, recipe_json: str, part: Part, run_dir: Path | None) -> None:
    while True:
        signal.pause()


def run_again(pipe: Connection, notes: Connection, recipe_json: str, part: Part, run_dir: Path | None) -> None:
    """Ends as a worker does that imports a script without a guard: before it has the pipe, which it cannot close."""
    os._exit(UNGUARDED)


def _groups(order: Assignment, reward: float, version: int) -> tuple[Group, ...]:
    return tuple(Group(task, (make_trajectory(f"{name}-00", reward, 2, task, version),)) for name, task in order.jobs)
