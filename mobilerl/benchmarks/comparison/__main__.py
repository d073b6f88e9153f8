"""Trains, evaluates and reports all variants: recipes/compare.sh."""

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
from mobilerl.cli.pipeline import Pipeline
from mobilerl.config.packaged import RECIPES

PLAN = RECIPES / "compare.toml"


def parser() -> argparse.ArgumentParser:
    words = argparse.ArgumentParser(
        prog="compare.sh",
        allow_abbrev=False,
        description="Compares algorithms and ablations on the embedded phone: one SFT checkpoint, one budget of "
        "environment steps, several seeds. Leaves tables (comparison.md), learning curves and the figures as JSON.",
        epilog="All other flags are settings of every online run. Called again, it continues; a run that fails does "
        "not stop the others.",
    )
    option = words.add_argument
    option("--sft-dir", type=Path, default=Path("runs/sft"), help="the SFT run to start from, made if it is not there")
    option("--run-dir", type=Path, default=Path("runs/compare"), help="directory of the runs (default: runs/compare)")
    option("--steps", type=int, default=12000, help="environment steps of an online run (default 12000)")
    option("--seeds", default="0 1 2", help="in one word (default: '0 1 2')")
    option("--variants", default="", help="names of variants or groups, in one word (default: all)")
    said = "test (default), or dev with templates of its own, for choosing settings"
    option("--split", choices=("dev", "test"), default="test", help=said)
    option("--jobs", type=int, default=os.cpu_count(), help="runs side by side (default: the number of cores)")
    option("--eval-flags", default="", help="further flags of `mobilerl eval sim`, in one word")
    return words


def main(words: Sequence[str]) -> int:
    args, flags = parser().parse_known_args(words)
    args.flags = flags
    if not (args.sft_dir / "final").is_dir():
        if failed := Pipeline([Path("sft")], (), run_dir=args.sft_dir).run("yes"):
            return failed
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: sys.exit(128 + number))  # ends the runs as well
    try:
        plan = read_plan(PLAN).model_copy(update={"split": args.split})
        chosen, seeds = plan.choose(args.variants.split()), list(dict.fromkeys(map(int, args.seeds.split())))
        run_dir, sft_dir = args.run_dir.resolve(), args.sft_dir.resolve()
        runner = Runner(plan, run_dir, sft_dir, args.steps, args.flags, args.eval_flags.split())
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
    given = {"steps": str(args.steps), "seeds": args.seeds, "jobs": str(args.jobs)}
    given |= {name: text for name, text in (("variants", args.variants), ("eval-flags", args.eval_flags)) if text}
    given |= {"split": args.split} if args.split != "test" else {}
    words = [word for name, value in given.items() for word in (f"--{name}", value)]
    return shlex.join(["bash", "recipes/compare.sh", *words, *args.flags])


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")  # so that print-outs of runs can be watched
    sys.exit(main(sys.argv[1:]))
