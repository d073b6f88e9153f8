"""`mobilerl eval miniwob`: the tasks of MiniWoB++."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from mobilerl.eval.agents import SCRIPTED
from mobilerl.eval.policies import POLICY
from mobilerl.suites.command import PlanCommand
from mobilerl.suites.miniwob.evaluation import MiniWoBPlan


class MiniWoBCommand(PlanCommand):
    """Evaluation on pages of Chromium, whatever suite and fleet the recipe trains on."""

    help = "MiniWoB++, on pages of Chromium"
    agents = (POLICY, *SCRIPTED)
    plan = MiniWoBPlan
    example = "--suite.subset mobile"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        said = "test (default) for results; dev for choosing settings; train: training instances"
        parser.add_argument("--split", choices=("train", "dev", "test"), default="test", help=said)
        super().add_options(parser)

    def settings(self, args: argparse.Namespace, given: Sequence[str]) -> Sequence[str]:
        return ["--fleet.type=browser", *super().settings(args, given)]

    def fields(self, args: argparse.Namespace) -> dict[str, Any]:
        return {"split": args.split}
