"""`mobilerl run`: all that a recipe stands for, from SFT to the table of results and the page."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from pathlib import Path

from mobilerl.cli.options import add_config
from mobilerl.cli.pipeline import Pipeline
from mobilerl.config.packaged import check_given


def add(commands: argparse._SubParsersAction, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        "run",
        parents=[common],
        allow_abbrev=False,
        help="a whole recipe: SFT if there is no checkpoint, training, evaluation before and after, table, page",
        epilog="Every setting is a flag as well: --algorithm.replay.fraction 0.25; `mobilerl settings` lists them. "
        "The same command again continues the run.",
    )
    option = parser.add_argument
    option("recipe", nargs="?", type=Path, metavar="RECIPE", help="recipe file, or name of a packaged recipe")
    add_config(parser)
    option("--model", default="", metavar="DIR|ORG/NAME", help="checkpoint to start from, instead of the recipe's own")
    option("--engine", metavar="NAME", help="short for --engine.type")
    option("--nodes", metavar="N", help="short for --cluster.nodes")
    option("--run-dir", type=Path, metavar="DIR", help="directory of the run (default: runs/ and the recipe's name)")
    option(
        "--sft-dir",
        type=Path,
        metavar="DIR",
        help="directory of the SFT that the run starts from (default: runs/ and the name of its recipe)",
    )
    option(
        "--evaluate",
        choices=("yes", "no", "pass-k"),
        default="yes",
        help="whether to evaluate before and after the training, on embedded phones and MiniWoB++ only; pass-k also "
        "samples eight episodes of each task, which takes longer than all else",
    )
    option("--eval-flags", default="", metavar="FLAGS", help="further flags of `mobilerl eval`, in one word")
    option("--extras", action="store_true", help="only print the extras of the package that the recipe needs")
    parser.set_defaults(run=run, takes_settings=True)


def run(args: argparse.Namespace, settings: Sequence[str]) -> int:
    pipeline = pipeline_of(args, settings)
    if args.extras:
        print(",".join(pipeline.extras()))
        return 0
    return pipeline.run(args.evaluate)


def pipeline_of(args: argparse.Namespace, settings: Sequence[str]) -> Pipeline:
    recipes = [*([args.recipe] if args.recipe else []), *(args.config or [])]
    check_given(recipes[0] if recipes else None, "run")
    short = (("--engine.type", args.engine), ("--cluster.nodes", args.nodes))
    flags = [*(word for flag, value in short if value for word in (flag, value)), *settings]
    return Pipeline(recipes, flags, args.model, args.run_dir, args.sft_dir, shlex.split(args.eval_flags))
