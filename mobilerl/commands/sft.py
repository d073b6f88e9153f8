"""`mobilerl sft`: the two-stage warm-up."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from mobilerl.commands.settings import add_help
from mobilerl.config import load_recipe
from mobilerl.train.interrupt import Stopped, going_on, interrupts_as_stopped

SECTIONS = ("model", "tiny", "phone", "agent", "engine", "sft", "tracking")


def add(commands: argparse._SubParsersAction, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        "sft", parents=[common], allow_abbrev=False, add_help=False, help="two-stage warm-up on demonstrations",
        epilog="every setting of the recipe can be given as well: --sft.learning_rate 1e-3",
    )  # fmt: skip
    add_help(parser, SECTIONS)
    parser.add_argument(
        "--config", type=Path, metavar="RECIPE.toml", help="the recipe; settings given here win over it"
    )
    parser.add_argument("--run-dir", type=Path, default=Path("runs/sft"), metavar="DIR",
                        help="where the files go, finished stages among them (default: runs/sft)")  # fmt: skip
    parser.add_argument("--stage", type=int, choices=(1, 2), help="only this stage; both without it")
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="check everything, print the resolved recipe, and train nothing",
    )
    parser.set_defaults(run=run, takes_settings=True)


def run(args: argparse.Namespace, settings: Sequence[str]) -> int:
    recipe = load_recipe(args.config, settings)
    stages = (args.stage,) if args.stage else (1, 2)
    from mobilerl.train.dry_run import check_writable, dry_run_sft

    if args.dry_run:
        return dry_run_sft(recipe, args.run_dir, stages)
    check_writable(args.run_dir)
    from sft.run import run as warm_up

    try:
        with interrupts_as_stopped():
            warm_up(recipe, args.run_dir, stages)
    except Stopped as stop:
        kept = "stopped; finished stages are kept, the one under way begins anew"
        raise Stopped(stop.number, f"{kept}; go on with\n  {going_on(args.command_line, resume=False)}") from None
    return 0
