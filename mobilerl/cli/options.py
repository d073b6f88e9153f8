"""Options that several commands share."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_config(parser: argparse.ArgumentParser) -> None:
    """Adds `--config`, whose value is a list, or None."""
    parser.add_argument(
        "--config",
        type=Path,
        action="append",
        metavar="RECIPE",
        help="recipe file, or name of a packaged recipe; given again, it overlays the ones before; flags override it",
    )
