"""`mobilerl import-mobile3m`: makes a page graph of the published data set, for `mobilerl pages`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path


def add(commands: argparse._SubParsersAction, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        "import-mobile3m",
        parents=[common],
        allow_abbrev=False,
        help="make a page graph of the data set Mobile3M",
        epilog="Train on it with: mobilerl pages --pages.graph GRAPH. It names files of DIR, so keep them.",
    )
    parser.add_argument("dir", type=Path, metavar="DIR", help="unpacked folder of an app, or of several apps")
    parser.add_argument("graph", type=Path, metavar="GRAPH", help="folder to write the graph to")
    parser.set_defaults(run=run, takes_settings=False)


def run(args: argparse.Namespace, settings: Sequence[str]) -> int:
    from mobilerl.reachagent.mobile3m import import_mobile3m
    from mobilerl.system.terminal import say

    import_mobile3m(args.dir, args.graph, say)
    say(f"page graph: {args.graph}")
    return 0
