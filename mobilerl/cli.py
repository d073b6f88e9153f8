"""The command `mobilerl`: finds the command, and turns every expected error into one line and an exit code.

Exit codes: 0 done, 1 `doctor` found something missing, `bench report` or `bench compare` a regression, `fleet up` a
device that does not start, or `eval androidworld` has lost all its servers, 2 bad input, 130 stopped by Ctrl-C, 143 by
SIGTERM, 141 when nobody reads the output any more.
"""

from __future__ import annotations

import argparse
import difflib
import errno
import os
import re
import select
import sys
from collections.abc import Sequence
from typing import NoReturn

from envs.base import InfraError
from mobilerl import __version__
from mobilerl.commands import bench, completion, doctor, evaluate, fleet, pages, phone, settings, sft, train, view
from mobilerl.doctor.packages import installs
from mobilerl.engines.base import EngineError
from mobilerl.rollout.workers import WorkerError
from mobilerl.train.checkpoint import CheckpointError
from mobilerl.train.interrupt import Stopped

COMMANDS = (sft, train, pages, evaluate, phone, fleet, view, doctor, bench, settings, completion)
BAD_INPUT, STOPPED, UNREAD = 2, 130, 141


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit code."""
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    parser = make_parser()
    words = list(sys.argv[1:] if argv is None else argv)
    args, rest = parser.parse_known_args(words)
    args.command_line = words
    if rest and not args.takes_settings:
        parser.error(f"{args.command} does not know {rest[0]!r}")
    try:
        code = args.run(args, rest)
        print(end="", flush=True)  # here, where it can still be said what went wrong
        return code
    except Stopped as stop:
        print(f"\n{stop}", file=sys.stderr)
        return stop.exit_code
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
        return STOPPED
    except ModuleNotFoundError as error:
        cure = installs(error.name)
        if args.debug or not cure:
            raise
        print(f"mobilerl: error: {args.command} needs {error.name}, which is not installed: {cure}", file=sys.stderr)
        return BAD_INPUT
    except (CheckpointError, EngineError, InfraError, WorkerError, ValueError, KeyError, OSError) as error:
        if _nobody_reads():
            return UNREAD
        if args.debug:
            raise
        print(f"mobilerl: error: {_one_line(error)}", file=sys.stderr)
        return BAD_INPUT


def _nobody_reads() -> bool:
    """Whether what read this process's output has ended, as `head` does; from then on output goes nowhere."""
    poll = select.poll()
    poll.register(1, 0)
    if not any(event & select.POLLERR for _, event in poll.poll(0)):
        return False
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # else Python tries once more as it ends
    return True


def run() -> None:
    """The console script."""
    sys.exit(main())


def make_parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="mobilerl", description="Trains agents that use phones.", allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"mobilerl {__version__}")
    common = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    common.add_argument("--debug", action="store_true", help="show the traceback of an error")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in COMMANDS:
        module.add(commands, common)
    return parser


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, as every other error is said."""

    def error(self, message: str) -> NoReturn:
        self.exit(
            BAD_INPUT, f"{self.prog}: error: {' '.join(message.split())}{_near(message)}; see {self.prog} --help\n"
        )


def _near(message: str) -> str:
    """Of the choices that argparse lists, the one that was probably meant."""
    said = re.search(r"invalid choice: '(.*?)' \(choose from (.*)\)", message)
    near = difflib.get_close_matches(said[1], re.findall(r"[\w-]+", said[2]), n=1) if said else []
    return f"; did you mean {near[0]!r}?" if near else ""


def _one_line(error: BaseException) -> str:
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return f"the disk is full{f' ({error.filename})' if error.filename else ''}; make room and start again"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    if isinstance(error, WorkerError):
        text = text.partition("\n")[0]  # a traceback follows
    return " ".join(text.split()) or type(error).__name__
