"""`mobilerl eval androidlab`: AndroidLab's tasks, over adb."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mobilerl.config import AndroidLabSuiteSection, ConfigError, Recipe
from mobilerl.eval.policies import real_phone_policy
from mobilerl.suites.command import MOBILERL, ROUNDS, EvalCommand, Results, add_protocol
from mobilerl.system.terminal import header, say

if TYPE_CHECKING:
    from mobilerl.envs.androidlab.checkout import Checkout

DESCRIPTION = """\
Runs AndroidLab's tasks on devices over adb and judges them with AndroidLab's own judges. Tasks and judges are read
from your checkout of the public repository. The judges are Python modules of that checkout: they are imported and run,
in a separate process with your rights. Name only a checkout you trust."""
XML, SCREENSHOT = "xml", "screenshot"
LAB_ROUNDS = 25
"""AndroidLab's number of steps."""


class AndroidLabCommand(EvalCommand):
    """AndroidLab's tasks."""

    help = "AndroidLab's 138 tasks, from a checkout whose judges are run"
    description = DESCRIPTION
    example = "--agent.max_new_tokens 512; see docs/benchmarks.md"
    required = "--android-lab PATH --serial SERIAL"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        option = parser.add_argument
        said = "checkout of github.com/THUDM/Android-Lab; its code is run"
        option("--android-lab", type=Path, metavar="PATH", help=said)
        devices = "as in `adb devices` (SERIAL@HOST:PORT for another adb server)"
        option("--serial", nargs="+", default=[], metavar="SERIAL", help=f"devices to run on, {devices}")
        said = "the model reads the screen's elements, or sees images as well"
        option("--mode", choices=(XML, SCREENSHOT), help=said)
        option("--temperature", type=float, default=0.0, metavar="T", help="0 (default) is greedy")
        option("--judge-url", metavar="URL", help="endpoint that judges answers to queries; its key is OPENAI_API_KEY")
        option("--judge-model", metavar="NAME", help="model of that endpoint")
        option("--judge-python", default=sys.executable, metavar="PYTHON", help="interpreter for the judges")
        add_protocol(parser)
        option("--rounds", type=int, metavar="N", help="steps of an episode (default 25; with --protocol mobilerl 50)")
        option("--interval", type=float, default=3.0, metavar="S", help="pause after every action (default 3)")
        option("--launch-wait", type=float, default=15.0, metavar="S", help="wait for the task's app (default 15)")
        option("--from-home", action="store_true", help="begin on the home screen; by default in the task's app")
        said = "emulator snapshot to load before every task: default_boot"
        option("--snapshot", default="", metavar="NAME", help=said)
        option("--task", action="append", default=[], metavar="ID", help="only this one; can be repeated")
        option("--app", action="append", default=[], metavar="NAME", help="only this app's tasks; can be repeated")
        option("--kind", choices=("operation", "query_detect"), default="", help="only tasks of this kind")

    def settings(self, args: argparse.Namespace, given: Sequence[str]) -> Sequence[str]:
        if args.protocol == MOBILERL:
            args.from_home = True
        if args.rounds is None:
            args.rounds = ROUNDS if args.protocol else LAB_ROUNDS
        _check(args)
        return given

    def list_tasks(self, args: argparse.Namespace, given: Sequence[str]) -> None:
        for task in _checkout(args).select_tasks(args.task, args.app, args.kind):
            say(f"{task.id}  {task.app}  {task.kind}  {task.goal}")

    def prepare(self, args: argparse.Namespace, recipe: Recipe) -> Callable[[], Results]:
        from mobilerl.envs.androidlab.env import LabSettings
        from mobilerl.envs.androidlab.judge import Judges
        from mobilerl.suites.androidlab.answers import AnswerJudge
        from mobilerl.suites.androidlab.devices import parse_addresses
        from mobilerl.suites.androidlab.evaluation import Plan, evaluate

        checkout, addresses = _checkout(args), parse_addresses(args.serial)
        tasks, recipe = checkout.select_tasks(args.task, args.app, args.kind), _in_mode(recipe, args.mode)
        policy = real_phone_policy(recipe, args.agent, args.model, args.model_name, args.temperature)
        plan = Plan(
            tasks=tuple(tasks),
            mode=args.mode,
            rounds=args.rounds,
            settings=LabSettings(args.interval, not args.from_home, args.launch_wait),
            snapshot=args.snapshot,
            max_invalid=1 if args.protocol else recipe.agent.max_invalid,
            protocol_of=args.protocol or "",
        )
        answers = AnswerJudge(args.judge_url, args.judge_model) if args.judge_url else None
        judges, devices = Judges(checkout, args.judge_python), ", ".join(args.serial)
        header({"model": args.model or args.agent, "suite": self.name, "devices": devices, "out": args.out})
        return lambda: asyncio.run(evaluate(checkout, plan, policy, addresses, judges, answers, args.out, say))

    def words(self, recipe: Recipe) -> list[str]:
        assert isinstance(recipe.suite, AndroidLabSuiteSection)
        mode = ["--mode", SCREENSHOT if recipe.agent.screenshots else XML]
        start = ["--from-home"] if recipe.suite.from_home else []
        start += ["--snapshot", recipe.suite.snapshot] if recipe.suite.snapshot else []
        serials = recipe.fleet.serials or ("SERIAL",)
        return [self.name, "--android-lab", recipe.suite.checkout, "--serial", *serials, *mode, *start]

    def summary(self, results: Mapping[str, Any]) -> Sequence[str]:
        from mobilerl.suites.androidlab.results import summary

        return summary(results)


def _checkout(args: argparse.Namespace) -> Checkout:
    from mobilerl.envs.androidlab.checkout import read_checkout

    if args.android_lab is None:
        raise ConfigError("--android-lab PATH is missing: your checkout of github.com/THUDM/Android-Lab")
    return read_checkout(args.android_lab)


def _check(args: argparse.Namespace) -> None:
    if args.mode is None:
        raise ConfigError(f"--mode is missing: {XML} or {SCREENSHOT}")
    for name, value, least in (
        ("--rounds", args.rounds, 1),
        ("--interval", args.interval, 0),
        ("--launch-wait", args.launch_wait, 0),
    ):
        if not least <= value < float("inf"):
            raise ConfigError(f"{name} is {value:g}; it must be at least {least}")
    if bool(args.judge_url) != bool(args.judge_model):
        raise ConfigError("--judge-url and --judge-model belong together: the endpoint, and the model it is asked for")


def _in_mode(recipe: Recipe, mode: str) -> Recipe:
    agent = recipe.agent
    if mode == XML and agent.screen_style == "none":
        raise ConfigError("--mode xml shows no images: set --agent.screen_style mobilerl or marks for a text")
    if mode == XML and agent.format not in (None, "mobilerl", "mobilerl-9b"):
        raise ConfigError(f"--mode xml shows no images, and {agent.format} has no text: use --mode screenshot")
    if mode == SCREENSHOT and agent.screenshots == 0:
        raise ConfigError("--mode screenshot needs images: set --agent.screenshots to 1 or more, or use --mode xml")
    if mode == XML:
        return recipe.model_copy(update={"agent": agent.model_copy(update={"screenshots": 0})})
    return recipe
