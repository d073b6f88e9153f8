"""`mobilerl view`: writes the viewer page of a run."""

from __future__ import annotations

import argparse
import webbrowser
from collections.abc import Sequence
from pathlib import Path


def add(commands: argparse._SubParsersAction, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser("view", parents=[common], allow_abbrev=False, help="show a run as a static page")
    parser.add_argument("run_dir", type=Path, metavar="RUN_DIR")
    parser.add_argument(
        "--against", type=Path, nargs="+", default=[], metavar="RUN_DIR", help="up to three runs to compare"
    )
    parser.add_argument("--open", action="store_true", help="open the page in a browser")
    parser.set_defaults(run=run, takes_settings=False)


def run(args: argparse.Namespace, settings: Sequence[str]) -> int:
    from mobilerl.viewer import build

    page = build(args.run_dir, args.against).resolve()
    print(page)
    if args.open and not webbrowser.open(page.as_uri()):
        raise ValueError(f"could not start a browser; open {page.as_uri()}")
    return 0
