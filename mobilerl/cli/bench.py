"""`mobilerl bench`: measures the speed and memory of a component."""

from __future__ import annotations

import argparse
import importlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mobilerl.system.terminal import make_console, make_table

GPU_PHASES = "calibrate families distributed learner sampler training collate vllm verl resume".split()
PARTS: dict[str, tuple[str, dict[str, tuple[Any, str]]]] = {
    "phone": (
        "steps per second of the embedded phone, on one core",
        {"steps": (600, "steps to time"), "width": (360, "screen width, pixels"), "height": (720, "screen height")},
    ),
    "browser": (
        "steps per second and memory of pages of Chromium that play MiniWoB++",
        {
            "pages": ([1, 4, 16, 64], "numbers of pages to measure"),
            "seconds": (20.0, "for each number of pages"),
            "repeats": (1, "episodes of a task in a row; a page that has ended one starts the next without loading"),
        },
    ),
    "rollout": (
        "utilization of simulated devices by the collector, compared with a barrier per step and per episode",
        {
            "devices": ([8, 16, 32, 64, 128, 256, 512], "numbers of devices to measure"),
            "seconds": (10.0, "for each number of devices and collector"),
            "scale": (0.1, "of a real phone's times"),
        },
    ),
    "learner": (
        "speed and memory of an update, compared with TRL (if installed)",
        {
            "hidden": (128, "width of the tiny model, a multiple of 32"),
            "layers": (4, "its layers"),
            "rows": (256, "samples of an update"),
            "rounds": (5, "updates of each side to time"),
            "threads": (1, "torch's, on a CPU"),
        },
    ),
    "gpu": (
        "correctness and speed of this GPU, in 24 minutes; without one, of every phase at a tiny size",
        {"minutes": (24.0, "for all phases together"), "phases": (GPU_PHASES, "what to run, in this order")},
    ),
}
"""Help and options of each part. The options are the arguments of `measure` in the module of the same name."""


def add(commands: argparse._SubParsersAction, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser("bench", allow_abbrev=False, help="measure the speed of a part")
    names = parser.add_subparsers(dest="part", required=True, metavar="PART")
    for name, (about, options) in PARTS.items():
        part = names.add_parser(name, parents=[common], allow_abbrev=False, help=about)
        part.add_argument("--json", action="store_true", help="print JSON")
        for option, (default, text) in options.items():
            many = isinstance(default, list)
            words = default == GPU_PHASES
            part.add_argument(
                f"--{option.replace('_', '-')}",
                type=str if words else _positive(float if isinstance(default, float) else int),
                nargs="+" if many else None,
                choices=default if words else None,
                default=default,
                metavar="NAME" if words else "N",
                help=f"{text} (default {' '.join(map(str, default)) if many else default})",
            )
        part.set_defaults(run=run, takes_settings=False)


def run(args: argparse.Namespace, rest: Sequence[str]) -> int:
    options = {name: getattr(args, name) for name in PARTS[args.part][1]}
    results = importlib.import_module(f"mobilerl.benchmarks.{args.part}").measure(**options)
    if args.json:
        print(json.dumps(results))
    elif isinstance(results, Mapping):  # one table of single values, and one per list of rows with the same columns
        _print_table([{"figure": k, "value": v} for k, v in results.items() if not isinstance(v, list)])
        for value in results.values():
            if isinstance(value, list) and all(row.keys() == value[0].keys() for row in value):
                _print_table(value)
    else:
        _print_table(results)
    return 1 if isinstance(results, Mapping) and results.get("failed") else 0


def _positive(kind: Callable[[str], float]) -> Callable[[str], float]:
    def parse(word: str) -> float:
        value = kind(word)
        if not 0 < value < float("inf"):
            raise argparse.ArgumentTypeError(f"{word} is not above 0")
        return value

    return parse


def _print_table(rows: Sequence[Mapping[str, object]]) -> None:
    if rows:
        table = make_table(*rows[0])
        for row in rows:
            table.add_row(*(f"{v:.4g}" if isinstance(v, float) else str(v) for v in row.values()))
        make_console().print(table)
