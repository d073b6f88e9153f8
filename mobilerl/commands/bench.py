"""`mobilerl bench`: how fast the parts are on this machine."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence


def add(commands: argparse._SubParsersAction, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser("bench", parents=[common], allow_abbrev=False, help="measure the speed of a part")
    parser.add_argument("part", choices=("phone",), help="phone: steps of the embedded phone per second, on one core")
    parser.add_argument("--steps", type=int, default=600, help="steps to time (default 600)")
    parser.add_argument("--width", type=int, default=360)
    parser.add_argument("--height", type=int, default=720)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run, takes_settings=False)


def run(args: argparse.Namespace, settings: Sequence[str]) -> int:
    if args.steps < 1:
        raise ValueError(f"--steps is {args.steps}; it must be at least 1")
    from benchmarks.phone import measure

    found = measure(args.steps, args.width, args.height)
    if args.json:
        print(json.dumps(found))
    else:
        for name, value in found.items():
            print(f"{name:28} {value}")
    return 0
