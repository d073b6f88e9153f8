"""`mobilerl view`: a run as a page."""

from __future__ import annotations

import argparse
import webbrowser
from collections.abc import Sequence
from pathlib import Path


def add(commands: argparse._SubParsersAction, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser("view", parents=[common], allow_abbrev=False, help="write a run as one static page")
    parser.add_argument("run_dir", type=Path, metavar="RUN_DIR")
    parser.add_argument("--open", action="store_true", help="open it in a browser")
    parser.set_defaults(run=run, takes_settings=False)


def run(args: argparse.Namespace, settings: Sequence[str]) -> int:
    from mobilerl.viewer import build

    page = build(args.run_dir).resolve()
    print(page)
    if args.open and not webbrowser.open(page.as_uri()):
        raise ValueError(f"no browser could be started here; open {page} in one")
    return 0
