"""What a run says first, and last."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from mobilerl.config import Recipe
from mobilerl.envs.base import Devices, MobileEnv, Task
from mobilerl.suites.command import eval_command
from mobilerl.suites.fleet import describe_devices
from mobilerl.system.terminal import header


def announce(
    recipe: Recipe, run_dir: Path, tasks: Sequence[Task], devices: Devices | Sequence[MobileEnv] | None
) -> None:
    """Prints what a run is about to do. `devices` are the suite's own, if any."""
    different, templates = ({getattr(task, name) for task in tasks} for name in ("id", "template"))
    header(
        {
            "model": recipe.model,
            "algorithm": f"{recipe.algorithm.type}, engine {recipe.engine.type}",
            "suite": f"{recipe.suite.type}, {len(different)} tasks of {len(templates)} templates",
            "devices": describe_devices(recipe, devices),
            "run": run_dir,
        }
    )


def next_commands(result: Path | None, recipe: Recipe, run_dir: Path) -> str:
    """Where the result of a run is, and the commands that show it."""
    evaluation = ["eval", *eval_command(type(recipe.suite)).words(recipe), "--model", run_dir]
    commands = [["view", run_dir], [*evaluation, "--out", run_dir / "eval" / "final"]]
    lines = [shlex.join(["mobilerl", *map(str, command)]) for command in commands]
    return "\n  ".join([f"done: {result}; next:", *lines])
