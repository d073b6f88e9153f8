"""`mobilerl pages`: ReachAgent, which trains an SFT checkpoint to navigate between pages."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from mobilerl.cli.options import add_config
from mobilerl.config import load_recipe
from mobilerl.config.packaged import check_given


def add(commands: argparse._SubParsersAction, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        "pages",
        parents=[common],
        allow_abbrev=False,
        help="ReachAgent: page graph, supervised stage, DPO",
        epilog="--model DIR|ORG/NAME is the checkpoint or run directory to start from. Every setting is a flag "
        "as well: --pages.reaching false --dpo.beta 0.2. Repeating the command resumes the run.",
    )
    add_config(parser)
    parser.add_argument("--run-dir", type=Path, required=True, metavar="DIR")
    parser.set_defaults(run=run, takes_settings=True)


def run(args: argparse.Namespace, settings: Sequence[str]) -> int:
    check_given(args.config, "pages")
    from mobilerl.models.hub import with_local_model
    from mobilerl.reachagent.run import run as reachagent
    from mobilerl.training.run_dir import with_checkpoints_agent

    recipe = with_local_model(load_recipe(args.config, settings, command="pages"))
    reachagent(with_checkpoints_agent(recipe, settings), args.run_dir)
    return 0
