"""`mobilerl eval mobilegym`: the tasks of MobileGym."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from mobilerl.envs.mobilegym.tasks import Split
from mobilerl.eval.report import percent
from mobilerl.suites.command import PlanCommand
from mobilerl.suites.mobilegym.evaluation import MobileGymPlan


class MobileGymCommand(PlanCommand):
    """Evaluation on pages of Chromium, whatever suite and fleet the recipe trains on."""

    help = "MobileGym, on pages of Chromium"
    plan = MobileGymPlan
    instances = 1
    example = "--suite.checkout mobilegym"
    required = "--suite.checkout PATH"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        said = "test (default): the 256 tasks of the published table; payment: seven more"
        parser.add_argument("--split", choices=get_args(Split), default="test", help=said)
        super().add_options(parser)

    def settings(self, args: argparse.Namespace, given: Sequence[str]) -> Sequence[str]:
        return ["--fleet.type=browser", *super().settings(args, given)]

    def fields(self, args: argparse.Namespace) -> dict[str, Any]:
        return {"split": args.split}

    def summary(self, results: Mapping[str, Any]) -> Sequence[str]:
        progress = results.get("progress_rate")
        said = [] if progress is None else [f"progress {percent(progress)} of the goals' conditions, on average"]
        return [*said, *super().summary(results)]
