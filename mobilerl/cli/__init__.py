"""The command `mobilerl`, which runs a subcommand and turns expected errors into a message and an exit code.

Exit codes: 0 done; 1 if `doctor` or `fleet check` found something missing, a device of `fleet up` did not start, or
`eval androidworld` lost all its servers; 2 bad input; 130 stopped by Ctrl-C; 143 by SIGTERM; 141 if the reader closed
the output.
"""

from __future__ import annotations

import argparse
import difflib
import errno
import os
import re
import sys
from collections.abc import Sequence
from typing import NoReturn

from mobilerl import __version__
from mobilerl.cli import (
    bench,
    completion,
    convert,
    demo,
    doctor,
    evaluate,
    fleet,
    import_mobile3m,
    import_model,
    pages,
    phone,
    push,
    replay,
    settings,
    sft,
    train,
    view,
)
from mobilerl.cli import run as whole_run
from mobilerl.config import ConfigError
from mobilerl.doctor.packages import installs
from mobilerl.envs.base import InfraError
from mobilerl.envs.plugins import PluginError
from mobilerl.records.engine import EngineError
from mobilerl.system.networks import bypass_proxies_for_loopback
from mobilerl.system.terminal import make_logging_safe, printable, say
from mobilerl.training.checkpoint import CheckpointError
from mobilerl.training.interrupt import Stopped
from mobilerl.training.skipping import NotFinite
from mobilerl.training.workers import WorkerError

COMMANDS = (
    *(
        demo,
        whole_run,
        convert,
        sft,
        train,
        pages,
        import_mobile3m,
        evaluate,
        phone,
        fleet,
        view,
        import_model,
        push,
        replay,
        doctor,
        bench,
        settings,
        completion,
    ),
)
BAD_INPUT, INTERRUPTED, OUTPUT_CLOSED = 2, 130, 141


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    make_logging_safe()
    bypass_proxies_for_loopback()
    try:
        parser = make_parser()
    except PluginError as error:
        return _fail(str(error))
    words = list(sys.argv[1:] if argv is None else argv)
    if not words:
        parser.print_help(sys.stderr)
        return BAD_INPUT
    args, rest = parser.parse_known_args(words)
    args.command_line, args.parser = words, parser
    if rest and not args.takes_settings:
        parser.fail(f"{args.command} does not know {rest[0]!r}", args.command)
    try:
        code = args.run(args, rest)
        print(end="", flush=True)  # so that a closed pipe is noticed here rather than at exit
        return code
    except Stopped as stop:
        print(f"\n{printable(str(stop))}", file=sys.stderr)
        return stop.exit_code
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
        return INTERRUPTED
    except ModuleNotFoundError as error:
        command = installs(error.name)
        if args.debug or not command:
            raise
        return _fail(f"{args.command} needs {error.name}, which is not installed: {command}")
    except BrokenPipeError:  # the reader of standard output, such as `head`, has exited
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OUTPUT_CLOSED
    except (CheckpointError, EngineError, InfraError, NotFinite, WorkerError, ValueError, KeyError, OSError) as error:
        if args.debug:
            raise
        return _fail(_message(error))


def run() -> None:
    """Entry point of the console script."""
    sys.exit(main())


def make_parser() -> _Parser:
    parser = _Parser(prog="mobilerl", description="Trains agents that use phones.", allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"mobilerl {__version__}")
    common = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    common.add_argument("--debug", action="store_true", help="show the traceback of an error")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in COMMANDS:
        module.add(commands, common)
    return parser


class _Parser(argparse.ArgumentParser):
    """An argument parser that suggests the most similar choice in a usage error."""

    def error(self, message: str) -> NoReturn:
        self.fail(message)

    def fail(self, message: str, command: str = "") -> NoReturn:
        """Exits with a usage error that names the help of `command`."""
        hint = ""
        if invalid := re.search(r"invalid choice: '(.*?)' \(choose from (.*)\)", message):
            near = difflib.get_close_matches(invalid[1], re.findall(r"[\w-]+", invalid[2]), n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
        help_of = f"{self.prog} {command}".strip()
        say(f"{self.prog}: error: {' '.join(message.split())}{hint}; see {help_of} --help", stderr=True)
        self.exit(BAD_INPUT)


def _fail(message: str) -> int:
    say(f"mobilerl: error: {message}", stderr=True)
    return BAD_INPUT


def _message(error: BaseException) -> str:
    """Message of an error on one line, or one line per mistake of a recipe."""
    if isinstance(error, ConfigError) and len(error.args) > 1:
        return "\n  ".join([f"{len(error.args)} mistakes:", *(" ".join(line.split()) for line in error.args)])
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return f"the disk is full{f' ({error.filename})' if error.filename else ''}; free some space and start again"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    if isinstance(error, WorkerError):
        text = text.partition("\n")[0]  # without the traceback that follows
    return " ".join(text.split()) or type(error).__name__
