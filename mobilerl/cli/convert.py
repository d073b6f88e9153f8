"""`mobilerl convert`: recorded data in the format of one's own recordings."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from mobilerl.config.training import SourceSection
from mobilerl.system.terminal import say

FORMATS = get_args(SourceSection.model_fields["format"].annotation)


def add(commands: argparse._SubParsersAction, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        "convert",
        parents=[common],
        allow_abbrev=False,
        help="write recorded data in the format of your own recordings (docs/data.md)",
    )
    parser.add_argument("format", choices=FORMATS, help="format of the data; trajectories: of a run directory")
    parser.add_argument("path", type=Path, help="folder or file with the data")
    parser.add_argument("out", type=Path, help="new folder for episodes.jsonl and screens/")
    parser.add_argument("--split", choices=("train", "validation", "test"), help="only this split (default: all)")
    parser.set_defaults(run=run, takes_settings=False)


def run(args: argparse.Namespace, rest: Sequence[str]) -> int:
    from mobilerl.sft.sources.conversion import convert

    say(str(convert(SourceSection(format=args.format, path=str(args.path)), args.out, args.split or "")))
    say(f'a source of SFT: [[sft.sources]] format = "jsonl", path = "{args.out}"')
    return 0
