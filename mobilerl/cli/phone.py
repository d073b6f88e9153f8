"""`mobilerl phone serve`: serves embedded phones that the real `adb` can connect to."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence

from mobilerl.envs.phone import serve


def add(commands: argparse._SubParsersAction, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser("phone", parents=[common], allow_abbrev=False, help="serve embedded phones over adb")
    parser.add_argument("what", choices=("serve",), help="serve: until Ctrl-C")
    serve.add_arguments(parser)
    parser.set_defaults(run=run, takes_settings=False)


def run(args: argparse.Namespace, settings: Sequence[str]) -> int:
    serve.check(args)
    return asyncio.run(serve.serve(args))
