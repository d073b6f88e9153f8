"""`mobilerl eval sim`: the tasks of the embedded phone."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from mobilerl.config import Recipe, load_recipe
from mobilerl.envs.phone.tasks import suite
from mobilerl.eval.agents import SCRIPTED
from mobilerl.eval.policies import POLICY, is_server
from mobilerl.suites.base import settings_command
from mobilerl.suites.command import PlanCommand
from mobilerl.suites.phone.evaluation import SimPlan
from mobilerl.system.terminal import make_console, make_table


class PhoneCommand(PlanCommand):
    """An evaluation on embedded phones, whatever suite the recipe trains on."""

    agents = (POLICY, *SCRIPTED)
    example = "--phone.popup_rate 0"

    def settings(self, args: argparse.Namespace, given: Sequence[str]) -> Sequence[str]:
        return given

    def defaults(self, args: argparse.Namespace) -> Sequence[str]:
        """A server has no settings; without a recipe use MobileRL's, which large models can follow."""
        return super().defaults(args) if is_server(args.model) else ()

    def fields(self, args: argparse.Namespace) -> dict[str, Any]:
        return {"split": args.split}

    def list_tasks(self, args: argparse.Namespace, given: Sequence[str]) -> None:
        load_recipe(args.config, given, command=settings_command(self.name))
        self.print_tasks()

    def print_tasks(self) -> None:
        """Prints a table of the task templates."""
        raise NotImplementedError

    def words(self, recipe: Recipe) -> list[str]:
        return [self.name]


class SimCommand(PhoneCommand):
    """Tasks of the embedded phone's own apps."""

    help = "the tasks of the embedded phone"
    plan = SimPlan

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        said = "test (default) or dev, for choosing settings: held-out instances; train: training ones; all: all three"
        parser.add_argument("--split", choices=(*suite.SPLITS, "all"), default="test", help=said)
        super().add_options(parser)

    def print_tasks(self) -> None:
        table = make_table("template", "app", "split", "demo", "steps", "for example", whole="template")
        for template in suite.templates():
            name, demo = template.__name__, "yes" if template.demo else "no"
            steps = str(template.steps) if template.feasible else f"{template.steps} (infeasible)"
            example = suite.make_task(name, suite.HELD_OUT_SEEDS).instruction
            table.add_row(name, template.app, template.split, demo, steps, example)
        make_console().print(table)
