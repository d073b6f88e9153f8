"""`mobilerl bench PART`: what can be measured, each with its sizes."""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mobilerl.commands.bench.tables import print_results

SIZES = (8, 16, 32, 64, 128, 256, 512)


def add(names: Any, common: argparse.ArgumentParser) -> None:
    for add_part in (_add_phone, _add_rollout, _add_learner, _add_replay, _add_refresh):
        part = add_part(names, common)
        part.add_argument("--json", action="store_true", help="print JSON")
        part.add_argument("--save", metavar="FILE", help="also write the results to a file for `bench compare`")
        part.set_defaults(run=run, takes_settings=False)


def _add_phone(names: Any, common: argparse.ArgumentParser) -> argparse.ArgumentParser:
    part = names.add_parser("phone", parents=[common], help="steps of the embedded phone per second, on one core")
    part.add_argument("--steps", type=int, default=600, help="steps to time (default 600)")
    part.add_argument("--width", type=int, default=360)
    part.add_argument("--height", type=int, default=720)
    part.set_defaults(measure=_phone)
    return part


def _add_rollout(names: Any, common: argparse.ArgumentParser) -> argparse.ArgumentParser:
    part = names.add_parser("rollout", parents=[common], help="how busy the collector keeps simulated devices, "
                            "beside collectors with a barrier per step and per episode")  # fmt: skip
    part.add_argument("--devices", type=int, nargs="+", default=SIZES, metavar="N",
                      help=f"sizes to measure (default {' '.join(map(str, SIZES))})")  # fmt: skip
    part.add_argument("--seconds", type=float, default=10.0, help="for each size and collector (default 10)")
    part.add_argument("--scale", type=float, default=0.1, help="of a real phone's times (default 0.1)")
    part.set_defaults(measure=_rollout)
    return part


def _add_learner(names: Any, common: argparse.ArgumentParser) -> argparse.ArgumentParser:
    part = names.add_parser("learner", parents=[common], help="speed and memory of the local engine's update, beside "
                            "TRL's (where it is installed) and a plain Hugging Face loop on the same rows")  # fmt: skip
    part.add_argument("--hidden", type=int, default=128, help="width of the tiny model (default 128)")
    part.add_argument("--layers", type=int, default=4, help="its layers (default 4)")
    part.add_argument("--network", metavar="NAME", help="a published model's sizes with random weights instead: 3B, 7B "
                      "(needs a GPU)")  # fmt: skip
    part.add_argument("--rows", type=int, default=256, help="rows of an update (default 256)")
    part.add_argument("--micro-tokens", type=int, default=4096, help="padded tokens of a micro-batch (default 4096)")
    part.add_argument("--rounds", type=int, default=5, help="updates of each side to time (default 5)")
    part.add_argument("--threads", type=int, default=1, help="torch's, on a CPU (default 1)")
    part.add_argument("--sides", nargs="+", metavar="SIDE", help="to compare (default: all that are installed)")
    part.set_defaults(measure=_learner)
    return part


def _add_replay(names: Any, common: argparse.ArgumentParser) -> argparse.ArgumentParser:
    part = names.add_parser("replay", parents=[common], help="memory of replayed rows with full-size screenshots, and "
                            "how fast they are drawn and made into batches")  # fmt: skip
    part.add_argument("--rows", type=int, default=5120, help="rows held (default 5120)")
    part.add_argument("--screens", type=int, default=96, help="different screens to draw; the rest are copies of them "
                      "under other names (default 96)")  # fmt: skip
    part.add_argument("--max-pixels", type=int, default=1_000_000, help="of a picture in a batch (default 1000000)")
    part.add_argument("--collate", type=int, default=32, help="rows to collate for each number of threads (default 32)")
    part.add_argument("--threads", type=int, nargs="+", default=[1, 2, 4], metavar="N", help="(default 1 2 4)")
    part.set_defaults(measure=_replay)
    return part


def _add_refresh(names: Any, common: argparse.ArgumentParser) -> argparse.ArgumentParser:
    part = names.add_parser("refresh", parents=[common], help="seconds until a running vLLM samples with new weights, "
                            "and requests it holds meanwhile, beside a restart of its process")  # fmt: skip
    part.add_argument("--hidden", type=int, default=384, help="width of the model of random weights (default 384)")
    part.add_argument("--layers", type=int, default=6, help="its layers (default 6)")
    part.add_argument("--rounds", type=int, default=5, help="refreshes to time (default 5)")
    part.add_argument("--restarts", type=int, default=3, help="restarts to time (default 3)")
    part.add_argument("--requests", type=int, default=8, help="in flight all the time (default 8)")
    part.set_defaults(measure=_refresh)
    return part


# --- running -------------------------------------------------------------------------------------------------------


def run(args: argparse.Namespace, settings: Sequence[str]) -> int:
    if args.save and not Path(args.save).absolute().parent.is_dir():
        raise ValueError(f"--save {args.save}: there is no such folder")
    if args.save:
        from benchmarks.compare import taken, write

        content = taken(args.part, command_of(args.command_line), lambda: args.measure(args))
        write(Path(args.save), content)
        results = content["results"]
    else:
        results = args.measure(args)
    if args.json:
        print(json.dumps(results))
    else:
        print_results(results)
    return 0


def command_of(line: Sequence[str]) -> str:
    """As it was called, without --save and --json, which change nothing."""
    words = iter(line)
    kept = []
    for word in words:
        if word == "--save":
            next(words, None)
        elif word != "--json" and not word.startswith("--save="):
            kept.append(word)
    return shlex.join(["mobilerl", *kept])


# --- measuring -----------------------------------------------------------------------------------------------------


def _at_least_one(args: argparse.Namespace, *names: str) -> None:
    for name in names:
        value = getattr(args, name)
        if min(value if isinstance(value, list) else [value]) < 1:
            raise ValueError(f"--{name.replace('_', '-')} is {value}; it must be at least 1")


def _phone(args: argparse.Namespace) -> Mapping[str, object]:
    _at_least_one(args, "steps")
    from benchmarks.phone import measure

    return measure(args.steps, args.width, args.height)


def _rollout(args: argparse.Namespace) -> list[dict[str, float | str]]:
    if min(args.devices) < 1 or args.seconds <= 0 or args.scale <= 0:
        raise ValueError("--devices, --seconds and --scale must be above 0")
    from benchmarks.rollout import Load, measure

    return measure(args.devices, Load(scale=args.scale, seconds=args.seconds))


def _learner(args: argparse.Namespace) -> Mapping[str, object]:
    _at_least_one(args, "hidden", "layers", "rows", "micro_tokens", "rounds", "threads")
    from benchmarks.learner import Load, measure
    from benchmarks.networks import Shape

    load = Load(args.rows, args.micro_tokens, args.rounds, args.threads)
    return measure(args.network or Shape(args.hidden, args.layers), load, args.sides)


def _replay(args: argparse.Namespace) -> Mapping[str, object]:
    _at_least_one(args, "rows", "screens", "max_pixels", "collate", "threads")
    from benchmarks.replay import measure

    return measure(args.rows, args.screens, args.max_pixels, args.collate, args.threads)


def _refresh(args: argparse.Namespace) -> Mapping[str, object]:
    _at_least_one(args, "hidden", "layers", "rounds", "restarts", "requests")
    from benchmarks.networks import Shape
    from benchmarks.refresh import Load, measure

    return measure(Shape(args.hidden, args.layers), Load(args.requests, args.rounds, args.restarts))
