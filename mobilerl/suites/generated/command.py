"""`mobilerl eval generated`: tasks in apps made from a seed."""

from __future__ import annotations

import argparse
from typing import Any

from mobilerl.config import GeneratedSuiteSection
from mobilerl.envs.phone.generated.tasks import HELD_OUT, SPLITS, train_tasks
from mobilerl.suites.generated.evaluation import GeneratedPlan
from mobilerl.suites.phone.command import PhoneCommand
from mobilerl.system.terminal import make_console, make_table


class GeneratedCommand(PhoneCommand):
    """Tasks in generated apps."""

    help = "apps made from a seed"
    plan = GeneratedPlan

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        said = "test (default) for results; dev for choosing settings; train: training instances"
        parser.add_argument("--split", choices=SPLITS, default="test", help=said)
        said = "what is held out: only this (default: all four); can be repeated"
        parser.add_argument("--part", action="append", dest="parts", choices=HELD_OUT, help=said)
        super().add_options(parser)

    def fields(self, args: argparse.Namespace) -> dict[str, Any]:
        return super().fields(args) | ({"parts": args.parts} if args.parts else {})

    def print_tasks(self) -> None:
        table = make_table("template", "app", "steps", "for example", whole="template")
        for task in train_tasks(1, apps=GeneratedSuiteSection().apps):
            table.add_row(task.template, task.app, str(task.max_steps // 2 - 1), task.instruction)
        make_console().print(table)
