"""`mobilerl eval androidlab`: a policy or a scripted agent on AndroidLab's tasks, over adb."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from mobilerl.commands.evaluate_recipe import evaluation_recipe
from mobilerl.config import ConfigError, Recipe
from mobilerl.tables import make_console

DESCRIPTION = """\
Plays AndroidLab's tasks on devices over adb and judges them with AndroidLab's own judges. Tasks and judges are read
from your checkout of the public repository. The judges are Python modules of that checkout: they are imported and run,
in a process of their own with your rights. Name only a checkout you trust."""
XML, SCREENSHOT = "xml", "screenshot"


def add(suites: argparse._SubParsersAction, common: argparse.ArgumentParser) -> None:
    parser = suites.add_parser(
        "androidlab", parents=[common], allow_abbrev=False, description=DESCRIPTION,
        help="AndroidLab's 138 tasks, from a checkout whose judges are run",
        epilog="settings of the recipe can be given as well: --agent.max_new_tokens 512; see docs/androidlab.md",
    )  # fmt: skip
    option = parser.add_argument
    option("--android-lab", type=Path, metavar="PATH", help="checkout of github.com/THUDM/Android-Lab; its code is run")
    option("--serial", nargs="+", default=[], metavar="SERIAL",
           help="devices to play on, as in `adb devices` (SERIAL@HOST:PORT for another adb server)")  # fmt: skip
    option("--mode", choices=(XML, SCREENSHOT),
           help="xml: the model reads the screen's elements; screenshot: it sees pictures as well")  # fmt: skip
    option("--agent", choices=("policy", "noop", "finish", "random"), default="policy")
    option("--model", metavar="DIR|URL", help="checkpoint folder, run directory, or http://HOST:PORT/v1")
    option("--model-name", metavar="NAME", help="what a model server calls the model")
    option("--temperature", type=float, default=0.0, metavar="T", help="0 (default) is greedy")
    option("--out", type=Path, metavar="DIR",
           help="where traces and results.json go; started again with the same settings, what is missing or failed "
           "is played")  # fmt: skip
    option("--judge-url", metavar="URL",
           help="OpenAI-compatible endpoint that judges the answers of queries; its key is OPENAI_API_KEY")  # fmt: skip
    option("--judge-model", metavar="NAME", help="model of that endpoint")
    option("--judge-python", default=sys.executable, metavar="PYTHON",
           help="interpreter with the checkout's requirements, for its judges (default: this one)")  # fmt: skip
    option("--rounds", type=int, default=25, metavar="N",
           help="steps of an episode (default 25, AndroidLab's; MobileRL's are 50)")  # fmt: skip
    option("--interval", type=float, default=3.0, metavar="S", help="pause after every action (default 3)")
    option("--launch-wait", type=float, default=15.0, metavar="S", help="wait for the task's app (default 15)")
    option("--from-home", action="store_true", help="begin on the home screen; by default in the task's app")
    option("--snapshot", default="", metavar="NAME",
           help="emulator snapshot to load before every task, such as default_boot; without one tasks see what "
           "earlier ones left")  # fmt: skip
    option("--task", action="append", default=[], metavar="ID", help="only this one; can be repeated")
    option("--app", action="append", default=[], metavar="NAME", help="only this app's tasks; can be repeated")
    option("--kind", choices=("operation", "query_detect"), default="", help="only tasks of this kind")
    option("--retries", type=int, default=3, metavar="N", help="of an episode whose device failed (default 3)")
    option("--config", type=Path, metavar="RECIPE.toml")
    option("--list", action="store_true", help="list the tasks of the checkout and stop")
    parser.set_defaults(run=run, takes_settings=True)


def run(args: argparse.Namespace, settings: Sequence[str]) -> int:
    from envs.androidlab.checkout import read_checkout

    console = make_console()

    def say(text: str) -> None:
        console.print(text, markup=False, highlight=False, soft_wrap=True)

    if args.android_lab is None:
        raise ConfigError("--android-lab PATH is missing: your checkout of github.com/THUDM/Android-Lab")
    checkout = read_checkout(args.android_lab)
    tasks = checkout.chosen(args.task, args.app, args.kind)
    skipped = checkout.left_out(args.task, args.app)
    if args.list:
        for task in tasks:
            say(f"{task.id}  {task.app}  {task.kind}  {task.goal}")
        for left_out in skipped:
            say(f"{left_out.id}  {left_out.app}  skipped: {left_out.reason}")
        return 0
    _check(args)
    from envs.androidlab.env import LabSettings
    from envs.androidlab.judge import Judges
    from mobilerl.eval.androidlab.answers import AnswerJudge
    from mobilerl.eval.androidlab.devices import parse_addresses
    from mobilerl.eval.androidlab.plan import Plan
    from mobilerl.eval.androidlab.results import summary
    from mobilerl.eval.androidlab.run import evaluate
    from mobilerl.eval.players import make_player
    from mobilerl.eval.policies import MOBILERL_SETTINGS
    from mobilerl.eval.report import print_results
    from mobilerl.eval.run import RESULTS

    addresses = parse_addresses(args.serial)
    recipe = _in_mode(evaluation_recipe(args, settings, MOBILERL_SETTINGS, say), args.mode)
    player = make_player(recipe, args.agent, args.model, args.model_name, args.temperature, recipe.eval.seed)
    plan = Plan(
        tasks=tuple(tasks), mode=args.mode, rounds=args.rounds,
        settings=LabSettings(args.interval, not args.from_home, args.launch_wait),
        snapshot=args.snapshot, retries=args.retries, max_invalid=recipe.agent.max_invalid,
        skipped=tuple(skipped),
    )  # fmt: skip
    answers = AnswerJudge(args.judge_url, args.judge_model) if args.judge_url else None
    judges = Judges(checkout, args.judge_python)
    results = evaluate(checkout, plan, player, addresses, judges, answers, args.out, say)
    print_results(results, console)
    for line in summary(results):
        say(line)
    say(f"written to {args.out / RESULTS}")
    return 0


def _check(args: argparse.Namespace) -> None:
    if args.out is None:
        raise ConfigError("--out DIR is missing: it says where traces and results.json go")
    if args.mode is None:
        raise ConfigError(f"--mode is missing: {XML} or {SCREENSHOT}")
    for name, value, least in (("--rounds", args.rounds, 1), ("--interval", args.interval, 0),
                               ("--launch-wait", args.launch_wait, 0), ("--temperature", args.temperature, 0),
                               ("--retries", args.retries, 0)):  # fmt: skip
        if not least <= value < float("inf"):
            raise ConfigError(f"{name} is {value:g}; it must be at least {least}")
    if bool(args.judge_url) != bool(args.judge_model):
        raise ConfigError("--judge-url and --judge-model belong together: the endpoint, and the model it is asked for")


def _in_mode(recipe: Recipe, mode: str) -> Recipe:
    agent = recipe.agent
    if mode == XML and agent.screen_style == "none":
        raise ConfigError("--mode xml shows no pictures: set --agent.screen_style mobilerl or marks for a text")
    if mode == SCREENSHOT and agent.screenshots == 0:
        raise ConfigError("--mode screenshot needs pictures: set --agent.screenshots to 1 or more, or use --mode xml")
    if mode == XML:
        return recipe.model_copy(update={"agent": agent.model_copy(update={"screenshots": 0})})
    return recipe
