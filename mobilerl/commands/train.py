"""`mobilerl train`: online reinforcement learning."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from mobilerl.config import load_recipe


def add(commands: argparse._SubParsersAction, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        "train", parents=[common], allow_abbrev=False, help="online reinforcement learning",
        epilog="every setting of the recipe can be given as well: --algorithm.replay.gamma 0.25",
    )  # fmt: skip
    parser.add_argument("--config", type=Path, metavar="RECIPE.toml")
    parser.add_argument("--run-dir", type=Path, required=True, metavar="DIR")
    parser.add_argument("--resume", action="store_true", help="go on from the newest checkpoint of the run directory")
    parser.set_defaults(run=run, takes_settings=True)


def run(args: argparse.Namespace, settings: Sequence[str]) -> int:
    recipe = load_recipe(args.config, settings)
    from mobilerl.train.online import train

    train(recipe, args.run_dir, args.resume)
    return 0
