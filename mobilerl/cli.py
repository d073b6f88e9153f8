"""The command `mobilerl`: finds the command, and turns every expected error into one line and an exit code.

Exit codes: 0 done, 1 `doctor` found something missing, 2 bad input, 130 stopped by Ctrl-C.
"""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Sequence

from envs.base import InfraError
from mobilerl import __version__
from mobilerl.commands import bench, doctor, evaluate, fleet, phone, sft, train, view
from mobilerl.rollout.workers import WorkerError
from mobilerl.train.checkpoint import CheckpointError

COMMANDS = (sft, train, evaluate, phone, fleet, view, doctor, bench)
BAD_INPUT, STOPPED = 2, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit code."""
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    parser = _parser()
    args, rest = parser.parse_known_args(argv)
    if rest and not args.takes_settings:
        parser.error(f"{args.command} does not know {rest[0]!r}; see mobilerl {args.command} --help")
    try:
        return args.run(args, rest)
    except KeyboardInterrupt:
        print("\nstopped; go on with --resume" if args.command == "train" else "\nstopped", file=sys.stderr)
        return STOPPED
    except (CheckpointError, InfraError, WorkerError, ValueError, KeyError, OSError) as error:
        if args.debug:
            raise
        print(f"mobilerl: error: {_one_line(error)}", file=sys.stderr)
        return BAD_INPUT


def run() -> None:
    """The console script."""
    sys.exit(main())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="mobilerl", description="Trains agents that use phones.", allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"mobilerl {__version__}")
    common = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    common.add_argument("--debug", action="store_true", help="show the traceback of an error")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in COMMANDS:
        module.add(commands, common)
    return parser


def _one_line(error: BaseException) -> str:
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return f"the disk is full{f' ({error.filename})' if error.filename else ''}; make room and start again"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    if isinstance(error, WorkerError):
        text = text.partition("\n")[0]  # a traceback follows
    return " ".join(text.split()) or type(error).__name__
