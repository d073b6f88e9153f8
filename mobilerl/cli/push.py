"""`mobilerl push`: uploads a trained model with its model card to the Hugging Face Hub."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path


def add(commands: argparse._SubParsersAction, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        "push",
        parents=[common],
        allow_abbrev=False,
        help="write a model card and upload a run's model to the Hugging Face Hub",
        epilog="log in first with `hf auth login`",
    )
    option = parser.add_argument
    option("run_dir", type=Path, metavar="RUN_DIR", help="run directory (its final or newest model)")
    option("--to", required=True, metavar="ORG/NAME", help="name on the Hub")
    option("--private", action="store_true", help="make a new repository private")
    option("--license", metavar="ID", help="license of the model, such as apache-2.0 (default: none is named)")
    option("--dry-run", action="store_true", help="write the model card and stop")
    parser.set_defaults(run=run, takes_settings=False)


def run(args: argparse.Namespace, rest: Sequence[str]) -> int:
    from mobilerl.cli.model_card import CARD, write_card
    from mobilerl.models.hub import upload
    from mobilerl.terminal import say

    folder = write_card(args.run_dir, args.to, args.license)
    say(f"model card: {folder / CARD}")
    if not args.dry_run:
        say(f"uploaded to {upload(folder, args.to, args.private)}")
    return 0
