"""Trains, evaluates and reports all variants; called by recipes/compare.sh after its installation."""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from mobilerl.benchmarks.comparison.figures import gather
from mobilerl.benchmarks.comparison.plan import read_plan
from mobilerl.benchmarks.comparison.report import write
from mobilerl.benchmarks.comparison.runner import Runner
from mobilerl.config.packaged import RECIPES

PLAN = RECIPES / "compare.toml"


def parser() -> argparse.ArgumentParser:
    words = argparse.ArgumentParser(prog="compare.sh", allow_abbrev=False, description=__doc__)
    words.add_argument("--sft-dir", type=Path, required=True, help="the SFT run with the checkpoint final/")
    words.add_argument("--run-dir", type=Path, required=True)
    words.add_argument("--steps", type=int, required=True, help="environment steps of an online run")
    words.add_argument("--seeds", required=True, help="in one word, such as '0 1 2'")
    words.add_argument("--variants", default="", help="names of variants or groups, in one word (default: all)")
    words.add_argument("--jobs", type=int, default=1, help="runs side by side (default 1)")
    words.add_argument("--eval-flags", default="", help="further flags of `mobilerl eval sim`, in one word")
    words.add_argument("flags", nargs="*", metavar="-- FLAG", help="further settings of every online run")
    return words


def main(words: Sequence[str]) -> int:
    args = parser().parse_args(words)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: sys.exit(128 + number))  # ends the runs as well
    try:
        plan = read_plan(PLAN)
        chosen, seeds = plan.choose(args.variants.split()), list(dict.fromkeys(map(int, args.seeds.split())))
        run_dir, sft_dir = args.run_dir.resolve(), args.sft_dir.resolve()
        runner = Runner(plan, PLAN.parent, run_dir, sft_dir, args.steps, args.flags, args.eval_flags.split())
        faults = runner.run(chosen, seeds, args.jobs)
        found = gather(plan, run_dir, chosen, seeds, args.steps, faults)
    except (ValueError, RuntimeError) as error:
        print(f"compare: error: {error}", file=sys.stderr)
        return 2
    print(write({**found, "command": _command(args), "jobs": args.jobs}, run_dir))
    for line in found["left_out"]:
        print(f"compare: a run failed: {line}", file=sys.stderr)
    return 1 if faults else 0


def _command(args: argparse.Namespace) -> str:
    """Command that gives the same table."""
    names = {"STEPS": str(args.steps), "SEEDS": args.seeds, "JOBS": str(args.jobs)}
    names |= {name: text for name, text in (("VARIANTS", args.variants), ("EVAL_FLAGS", args.eval_flags)) if text}
    assigned = [f"{name}={shlex.quote(value)}" for name, value in names.items()]
    return " ".join([*assigned, "bash recipes/compare.sh", *map(shlex.quote, args.flags)])


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")  # so that print-outs of runs can be watched
    sys.exit(main(sys.argv[1:]))
