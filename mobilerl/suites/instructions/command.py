"""`mobilerl eval instructions FILE`: the tasks of a file, on adb devices, containers or embedded phones."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from mobilerl.config import InstructionsSuiteSection, Recipe
from mobilerl.envs.instructions.tasks import read
from mobilerl.envs.instructions.web import read_web
from mobilerl.suites.command import PlanCommand, Results
from mobilerl.suites.instructions.evaluation import InstructionsPlan
from mobilerl.system.terminal import make_console, make_table


class InstructionsCommand(PlanCommand):
    """Tasks of a file."""

    help = "tasks of a file"
    required = "FILE"
    plan = InstructionsPlan

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        option = parser.add_argument
        option("file", type=Path, metavar="FILE", help="*.toml or *.jsonl: docs/instructions.md")
        said = "adb devices to run on (--fleet.type docker for containers); without either, embedded phones"
        option("--url", default="", help="web app to run on instead, such as http://127.0.0.1:3000")
        option("--serial", nargs="+", default=[], metavar="SERIAL", help=said)
        said = "only the tasks of this split of the file (default all)"
        option("--split", choices=("train", "test", "all"), default="all", help=said)
        super().add_options(parser)

    def settings(self, args: argparse.Namespace, given: Sequence[str]) -> Sequence[str]:
        if args.url:
            suite = ["--suite.type=instructions", f"--suite.file={args.file}", f"--suite.url={args.url}"]
            return [*given, *suite, "--fleet.type=browser"]
        fleet = ["--fleet.type=adb", f"--fleet.serials={json.dumps(args.serial)}"] if args.serial else []
        return [*given, *fleet]

    def list_tasks(self, args: argparse.Namespace, given: Sequence[str]) -> None:
        table = make_table("task", "split", "steps", "instruction", whole="task")
        for task in (read_web if args.url else read)(args.file).task:
            table.add_row(task.id, task.split, str(task.max_steps), task.instruction)
        make_console().print(table)

    def prepare(self, args: argparse.Namespace, recipe: Recipe) -> Callable[[], Results]:
        suite = InstructionsSuiteSection(file=str(args.file), url=args.url)
        return super().prepare(args, recipe.model_copy(update={"suite": suite}))

    def fields(self, args: argparse.Namespace) -> dict[str, Any]:
        return {"split": args.split}

    def words(self, recipe: Recipe) -> list[str]:
        assert isinstance(recipe.suite, InstructionsSuiteSection)
        where = ["--url", recipe.suite.url] if recipe.suite.url else _fleet_words(recipe)
        return [self.name, *filter(None, [recipe.suite.file]), *where]


def _fleet_words(recipe: Recipe) -> list[str]:
    """The devices of a run, which are embedded phones unless its evaluation is told."""
    if recipe.fleet.type == "embedded":
        return []
    if recipe.fleet.type == "adb":
        return ["--serial", *recipe.fleet.serials[: recipe.fleet.count]]
    return ["--fleet.type", recipe.fleet.type]
