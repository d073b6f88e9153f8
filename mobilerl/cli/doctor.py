"""`mobilerl doctor`: checks whether a recipe can run on this machine, and prints a command that fixes each problem."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from rich.markup import escape
from rich.table import Column, Table

from mobilerl.cli.options import add_config
from mobilerl.config import load_recipe
from mobilerl.doctor.check import Check
from mobilerl.system.terminal import make_console

STYLES = {"ok": "green", "warning": "yellow", "failed": "red", "not needed": "dim"}


def add(commands: argparse._SubParsersAction, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        "doctor",
        parents=[common],
        allow_abbrev=False,
        help="check this machine for a recipe, and print the command that fixes each problem",
        epilog="Without --config, checks for training a small model on embedded phones. Settings of the recipe are "
        "flags as well: --model DIR --engine.type verl. Exits with 1 if anything that the recipe needs has failed.",
    )
    add_config(parser)
    parser.add_argument(
        "--run-dir", type=Path, default=Path("runs"), metavar="DIR", help="directory of the run, whose disk is checked"
    )
    parser.add_argument("--extras", action="store_true", help="only print the extras that the recipe needs")
    parser.set_defaults(run=run, takes_settings=True)


def run(args: argparse.Namespace, settings: Sequence[str]) -> int:
    recipe = load_recipe(args.config, settings)
    from mobilerl.doctor.examine import examine, extras_of
    from mobilerl.models.checkpoint_folder import model_of_run

    if recipe.model:
        recipe = recipe.model_copy(update={"model": str(model_of_run(Path(recipe.model)))})
    if args.extras:
        print(",".join(extras_of(recipe)))
        return 0
    return show(list(examine(recipe, args.run_dir)), "the recipe")


def show(found: Sequence[Check], what: str) -> int:
    """Prints the checks and whether `what` can run here. Returns 1 if one has failed."""
    console = make_console()
    table = Table.grid(Column(no_wrap=True), Column(no_wrap=True), Column(overflow="fold"), padding=(0, 2, 0, 0))
    for check in found:
        table.add_row(f"[{STYLES[check.state]}]{check.state}[/]", escape(check.name), escape(check.detail))
        if check.fix and check.state in ("warning", "failed"):
            table.add_row("", "", f"fix: {escape(check.fix)}")
    console.print(table)
    counts = {state: sum(check.state == state for check in found) for state in ("failed", "warning")}
    if counts["failed"]:
        console.print(f"[red]{counts['failed']} failed[/], {counts['warning']} warnings: {what} cannot run here yet")
    else:
        console.print(f"{what} can run here ({counts['warning']} warnings)")
    return int(counts["failed"] > 0)
