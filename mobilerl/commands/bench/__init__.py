"""`mobilerl bench`: how fast and how large the parts are on this machine, and how that compares with earlier."""

from __future__ import annotations

import argparse

from mobilerl.commands.bench import compare, parts, report


def add(commands: argparse._SubParsersAction, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser("bench", allow_abbrev=False, help="measure the speed of a part")
    names = parser.add_subparsers(dest="part", required=True, metavar="PART")
    for module in (parts, report, compare):
        module.add(names, common)
