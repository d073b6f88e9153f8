"""`mobilerl sft`: the two-stage warm-up."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from mobilerl.config import load_recipe


def add(commands: argparse._SubParsersAction, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        "sft", parents=[common], allow_abbrev=False, help="two-stage warm-up on demonstrations",
        epilog="every setting of the recipe can be given as well: --sft.learning_rate 1e-3",
    )  # fmt: skip
    parser.add_argument("--config", type=Path, metavar="RECIPE.toml")
    parser.add_argument("--run-dir", type=Path, default=Path("runs/sft"), metavar="DIR")
    parser.add_argument("--stage", type=int, choices=(1, 2), help="only this stage; both without it")
    parser.set_defaults(run=run, takes_settings=True)


def run(args: argparse.Namespace, settings: Sequence[str]) -> int:
    recipe = load_recipe(args.config, settings)
    from sft.run import run as warm_up

    warm_up(recipe, args.run_dir, (args.stage,) if args.stage else (1, 2))
    return 0
