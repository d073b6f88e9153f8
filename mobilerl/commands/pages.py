"""`mobilerl pages`: ReachAgent, from a warm-up's checkpoint to a policy that finds its way on pages."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from mobilerl.config import load_recipe


def add(commands: argparse._SubParsersAction, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        "pages", parents=[common], allow_abbrev=False, help="ReachAgent: page graph, supervised learning, DPO",
        epilog="every setting of the recipe can be given as well: --pages.reaching false --dpo.beta 0.2. Called again, "
        "it goes on where it stopped.",
    )  # fmt: skip
    parser.add_argument("--config", type=Path, metavar="RECIPE.toml")
    parser.add_argument("--run-dir", type=Path, required=True, metavar="DIR")
    parser.set_defaults(run=run, takes_settings=True)


def run(args: argparse.Namespace, settings: Sequence[str]) -> int:
    recipe = load_recipe(args.config, settings)
    from mobilerl.train.run_dir import check_agent_flags
    from sft.pages.run import run as reach

    check_agent_flags(recipe, settings)
    reach(recipe, args.run_dir)
    return 0
