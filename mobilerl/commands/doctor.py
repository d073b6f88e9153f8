"""`mobilerl doctor`: what a recipe lacks on this machine, and the command that mends it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from mobilerl.config import load_recipe
from mobilerl.doctor.check import Check

STYLES = {"ok": "green", "warning": "yellow", "failed": "red", "not needed": "dim"}


def add(commands: argparse._SubParsersAction, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        "doctor", parents=[common], allow_abbrev=False, help="what is missing here, and the command that mends it",
        epilog="without --config: for training a small model on embedded phones. Settings of the recipe can be given "
        "as well: --engine.type verl. Exits with 1 when something failed that the recipe needs.",
    )  # fmt: skip
    parser.add_argument("--config", type=Path, metavar="RECIPE.toml", help="the recipe that is to run here")
    parser.add_argument("--run-dir", type=Path, default=Path("runs"), metavar="DIR",
                        help="where its files are to go (default: runs)")  # fmt: skip
    parser.add_argument("--json", action="store_true", help="as JSON, for programs")
    parser.set_defaults(run=run, takes_settings=True)


def run(args: argparse.Namespace, settings: Sequence[str]) -> int:
    recipe = load_recipe(args.config, settings)
    from mobilerl.doctor.examine import examine

    found = examine(recipe, args.run_dir)
    failed = [check for check in found if check.state == "failed"]
    if args.json:
        print(json.dumps({"ok": not failed, "checks": [asdict(check) for check in found]}, indent=2))
    else:
        _print(found)
    return 1 if failed else 0


def _print(found: Sequence[Check]) -> None:
    console = Console(highlight=False)
    width = max(len(check.name) for check in found)
    for check in found:
        state = f"[{STYLES[check.state]}]{check.state:<10}[/]"
        console.print(f"{state} {escape(check.name):<{width}}  {escape(check.detail)}", soft_wrap=True)
        if check.cure and check.state in ("warning", "failed"):
            console.print(f"{'':<{width + 13}}mend it: {escape(check.cure)}", soft_wrap=True)
    counts = {state: sum(check.state == state for check in found) for state in ("failed", "warning")}
    if counts["failed"]:
        console.print(
            f"[red]{counts['failed']} failed[/], {counts['warning']} warnings: the recipe cannot run here yet"
        )
    else:
        console.print(f"the recipe can run here ({counts['warning']} warnings)")
