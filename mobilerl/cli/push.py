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
    option("--base", metavar="ORG/NAME", help="an adapter's base model on the Hub, if its files are of this machine")
    option("--license", metavar="ID", help="license of the model, such as apache-2.0 (default: none is named)")
    option("--dry-run", action="store_true", help="write the model card and stop")
    parser.set_defaults(run=run, takes_settings=False)


def run(args: argparse.Namespace, rest: Sequence[str]) -> int:
    from mobilerl.cli.model_card import CARD, write_card
    from mobilerl.config import ConfigError
    from mobilerl.models.hub import find_model, published_base, upload
    from mobilerl.models.hub_names import is_hub_id
    from mobilerl.system.terminal import say

    for option, value in (("--to", args.to), ("--base", args.base)):
        if value is not None and not is_hub_id(value):
            raise ConfigError(f"{option} {value}: a name on the Hub is ORG/NAME, of letters, digits, '-', '_' and '.'")
    folder = find_model(args.run_dir)
    base = published_base(folder, args.base)
    write_card(args.run_dir, folder, args.to, base, args.license)
    say(f"model card: {folder / CARD}")
    if not args.dry_run:
        say(f"uploaded to {upload(folder, args.to, base, args.private)}")
    return 0
