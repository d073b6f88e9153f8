"""`mobilerl train`: online reinforcement learning."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from mobilerl.cli.options import add_config
from mobilerl.config import ConfigError, load_recipe
from mobilerl.config.flags import read_flags
from mobilerl.config.packaged import check_given
from mobilerl.training.interrupt import Stopped, interrupts_as_stopped, resume_command


def add(commands: argparse._SubParsersAction, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        "train",
        parents=[common],
        allow_abbrev=False,
        help="online reinforcement learning",
        epilog="--model DIR|ORG/NAME is the checkpoint or run directory to start from. Every setting is a flag "
        "as well: --algorithm.replay.fraction 0.25; `mobilerl settings` lists them",
    )
    add_config(parser)
    parser.add_argument("--run-dir", type=Path, required=True, metavar="DIR", help="directory of the run")
    parser.add_argument("--resume", action="store_true", help="continue from the run's newest checkpoint")
    parser.add_argument(
        "--dry-run", action="store_true", help="check everything and print the resolved recipe, without training"
    )
    parser.set_defaults(run=run, takes_settings=True)


def run(args: argparse.Namespace, settings: Sequence[str]) -> int:
    check_given(args.config, "train")
    recipe = load_recipe(args.config, settings, command="train")
    if args.resume and "model" not in read_flags(settings):
        recipe = recipe.model_copy(update={"model": ""})  # that of the run, whatever the recipe now says
    elif not recipe.model:
        raise ConfigError("--model is missing, the checkpoint to start from; make one with `mobilerl sft --config sft`")
    from mobilerl.training.dry_run import check, dry_run
    from mobilerl.training.run import Run

    opened = Run.open(recipe, args.run_dir, args.resume, settings)
    if args.dry_run:
        return dry_run(opened)
    check(opened)
    from mobilerl.training.online import train

    try:
        with interrupts_as_stopped():
            train(opened)
    except Stopped as stop:
        begun = (args.run_dir / "config.json").is_file()
        raise Stopped(stop.number, f"{stop}; resume with\n  {resume_command(args.command_line, begun)}") from None
    return 0
