"""`mobilerl sft`: two-stage supervised fine-tuning."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from mobilerl.cli.options import add_config
from mobilerl.config import load_recipe
from mobilerl.config.packaged import check_given
from mobilerl.training.interrupt import Stopped, interrupts_as_stopped, resume_command


def add(commands: argparse._SubParsersAction, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        "sft",
        parents=[common],
        allow_abbrev=False,
        help="two-stage supervised fine-tuning on demonstrations",
        epilog="--model DIR|ORG/NAME is the checkpoint or run directory to start from. Every setting is a flag "
        "as well: --sft.learning_rate 1e-3; `mobilerl settings` lists them",
    )
    add_config(parser)
    parser.add_argument(
        "--run-dir", type=Path, default=Path("runs/sft"), metavar="DIR", help="run directory (default: runs/sft)"
    )
    parser.add_argument("--stage", type=int, choices=(1, 2), help="run only this stage (default: both)")
    parser.add_argument(
        "--dry-run", action="store_true", help="check everything and print the resolved recipe without training"
    )
    parser.set_defaults(run=run, takes_settings=True)


def run(args: argparse.Namespace, settings: Sequence[str]) -> int:
    check_given(args.config, "sft")
    recipe = load_recipe(args.config, settings, command="sft")
    stages = (args.stage,) if args.stage else (1, 2)
    from mobilerl.models.hub import with_local_model
    from mobilerl.sft.checks import dry_run_sft
    from mobilerl.training.dry_run import check_writable

    recipe = with_local_model(recipe)
    if args.dry_run:
        return dry_run_sft(recipe, args.run_dir, stages)
    check_writable(args.run_dir)
    from mobilerl.sft.run import run as run_sft

    try:
        with interrupts_as_stopped():
            run_sft(recipe, args.run_dir, stages)
    except Stopped as stop:
        message = "stopped; finished stages are kept, the current one continues from its last checkpoint; resume with"
        raise Stopped(stop.number, f"{message}\n  {resume_command(args.command_line, resume=False)}") from None
    return 0
