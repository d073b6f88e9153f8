"""`mobilerl bench`: how fast the parts are on this machine."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table

SIZES = (8, 16, 32, 64, 128, 256, 512)


def add(commands: argparse._SubParsersAction, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser("bench", allow_abbrev=False, help="measure the speed of a part")
    parts = parser.add_subparsers(dest="part", required=True, metavar="PART")

    phone = parts.add_parser("phone", parents=[common], help="steps of the embedded phone per second, on one core")
    phone.add_argument("--steps", type=int, default=600, help="steps to time (default 600)")
    phone.add_argument("--width", type=int, default=360)
    phone.add_argument("--height", type=int, default=720)
    phone.set_defaults(measure=_phone)

    rollout = parts.add_parser("rollout", parents=[common], help="how busy the collector keeps simulated devices, "
                               "beside collectors with a barrier per step and per episode")  # fmt: skip
    rollout.add_argument("--devices", type=int, nargs="+", default=SIZES, metavar="N",
                         help=f"sizes to measure (default {' '.join(map(str, SIZES))})")  # fmt: skip
    rollout.add_argument("--seconds", type=float, default=10.0, help="for each size and collector (default 10)")
    rollout.add_argument("--scale", type=float, default=0.1, help="of a real phone's times (default 0.1)")
    rollout.set_defaults(measure=_rollout)

    for part in (phone, rollout):
        part.add_argument("--json", action="store_true", help="print JSON")
        part.set_defaults(run=run, takes_settings=False)


def run(args: argparse.Namespace, settings: Sequence[str]) -> int:
    rows = args.measure(args)
    if args.json:
        print(json.dumps(rows[0] if args.part == "phone" else rows))
        return 0
    table = Table(*rows[0])
    for row in rows:
        table.add_row(*(f"{v:.4g}" if isinstance(v, float) else str(v) for v in row.values()))
    Console().print(table)
    return 0


def _phone(args: argparse.Namespace) -> list[Mapping[str, object]]:
    if args.steps < 1:
        raise ValueError(f"--steps is {args.steps}; it must be at least 1")
    from benchmarks.phone import measure

    return [measure(args.steps, args.width, args.height)]


def _rollout(args: argparse.Namespace) -> list[Mapping[str, object]]:
    if min(args.devices) < 1 or args.seconds <= 0 or args.scale <= 0:
        raise ValueError("--devices, --seconds and --scale must be above 0")
    from benchmarks.rollout import Load, measure

    return measure(args.devices, Load(scale=args.scale, seconds=args.seconds))
