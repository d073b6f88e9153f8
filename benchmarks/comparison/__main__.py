"""`python -m benchmarks.comparison`: trains, evaluates and reports; recipes/compare.sh installs and calls it."""

from __future__ import annotations

import argparse
import importlib.util
import os
import shlex
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.comparison.plan import Plan, read_plan
from benchmarks.comparison.report import gather, write
from benchmarks.comparison.runner import Runner


def parser() -> argparse.ArgumentParser:
    words = argparse.ArgumentParser(prog="python -m benchmarks.comparison", allow_abbrev=False, description=__doc__)
    words.add_argument("--plan", type=Path, required=True, metavar="TOML", help="such as recipes/compare.toml")
    words.add_argument(
        "--sft-dir", type=Path, required=True, metavar="DIR", help="the SFT run with the checkpoint final/"
    )
    words.add_argument("--run-dir", type=Path, required=True, metavar="DIR")
    words.add_argument("--steps", type=_positive, required=True, metavar="N", help="environment steps of an online run")
    words.add_argument("--seeds", default="0 1 2", help="in one word (default '0 1 2')")
    words.add_argument("--variants", default="", help="names of variants or groups, in one word (default: all)")
    words.add_argument("--jobs", type=_positive, default=1, metavar="N", help="runs side by side (default 1)")
    words.add_argument("--docs", type=Path, metavar="DIR", help="folder whose results.md gets the tables")
    words.add_argument("--eval-flags", default="", help="further flags of `mobilerl eval sim`, in one word")
    words.add_argument("--report-only", action="store_true", help="train nothing: tables of the existing runs")
    words.add_argument("--list", action="store_true", help="list groups and variants, and stop")
    words.add_argument("flags", nargs="*", metavar="-- FLAG", help="further settings of every online run")
    return words


def main(words: Sequence[str]) -> int:
    args = parser().parse_args(words)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # ends the runs as well
    try:
        plan = read_plan(args.plan)
        if args.list:
            _list(plan)
            return 0
        chosen, seeds = plan.choose(args.variants.split()), _seeds(args.seeds)
        if importlib.util.find_spec("matplotlib") is None:
            raise ValueError("matplotlib, which draws the learning curves, is missing: pip install 'mobilerl[plot]'")
        failed: list[str] = []
        if not args.report_only:
            for name in chosen:
                if not (script := args.plan.parent / plan.variants[name].script).is_file():
                    raise ValueError(f"variant {name!r} needs {script}, which does not exist: leave it out")
            folders = (args.plan.parent.resolve(), args.run_dir.resolve(), args.sft_dir.resolve())
            runner = Runner(plan, *folders, args.steps, args.flags, args.eval_flags.split())
            failed = runner.run(chosen, seeds, args.jobs)
        found = gather(plan, args.run_dir, chosen, seeds, args.steps, args.jobs, _command(args, seeds))
        print(write(found, args.run_dir, args.docs))
    except (ValueError, RuntimeError) as error:
        print(f"compare: error: {error}", file=sys.stderr)
        return 2
    for line in failed:
        print(f"compare: a run failed: {line}", file=sys.stderr)
    return 1 if failed else 0


def _list(plan: Plan) -> None:
    for name, group in plan.groups.items():
        print(f"{name}: {' '.join(group.members)}")
    print()
    for name, variant in plan.variants.items():
        print(f"{name}: {shlex.join([variant.script, *plan.scripts.get(variant.script, ()), *variant.flags])}")


def _positive(word: str) -> int:
    value = int(word)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is not at least 1")
    return value


def _seeds(text: str) -> list[int]:
    words = text.split()
    if not words or not all(word.isdecimal() for word in words) or len(set(words)) < len(words):
        raise ValueError(f"SEEDS must be different whole numbers, such as '0 1 2', not {text!r}")
    return [int(word) for word in words]


def _command(args: argparse.Namespace, seeds: Sequence[int]) -> str:
    """The command that gives the same table."""
    names = {"STEPS": str(args.steps), "SEEDS": " ".join(map(str, seeds)), "JOBS": str(args.jobs)}
    names |= {name: text for name, text in (("VARIANTS", args.variants), ("EVAL_FLAGS", args.eval_flags)) if text}
    assigned = [f"{name}={shlex.quote(value)}" for name, value in names.items()]
    return " ".join([*assigned, "bash recipes/compare.sh", *map(shlex.quote, args.flags)])


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")  # print-outs of runs can be watched
    sys.exit(main(sys.argv[1:]))
