"""`mobilerl completion SHELL`: prints a script for shell completion of commands, flags, settings and values."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from mobilerl.config.flags import add_flags

FOLDER_SETTINGS = ("--model", "--algorithm.offline.trajectories")
NUMBERS = ("{int", "{float", "{str")
"""Prefixes of the placeholders of optional settings that are not choices."""


def add(commands: argparse._SubParsersAction, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        "completion",
        parents=[common],
        allow_abbrev=False,
        help="print a completion script for a shell",
        epilog="for bash: mobilerl completion bash > ~/.local/share/bash-completion/completions/mobilerl",
    )
    parser.add_argument("shell", choices=("bash", "zsh", "fish", "tcsh"))
    parser.set_defaults(run=run, takes_settings=False)


def run(args: argparse.Namespace, rest: Sequence[str]) -> int:
    import shtab

    parser = args.parser
    settings = argparse.ArgumentParser(add_help=False)
    add_flags(settings)
    for command in list(_commands(parser)):
        if command.get_default("takes_settings"):
            for action in settings._actions:
                if action.option_strings[0] not in command._option_string_actions:
                    command._add_action(action)
        for action in command._actions:
            placeholder = str(action.metavar or "")
            if "DIR" in placeholder or action.option_strings and action.option_strings[0] in FOLDER_SETTINGS:
                action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]  # where shtab looks
            elif action.type is Path:
                action.complete = shtab.FILE  # type: ignore[attr-defined]
            elif placeholder.startswith("{") and not placeholder.startswith(NUMBERS):
                action.choices = placeholder.strip("{}").split(",")
    print(shtab.complete(parser, args.shell))
    return 0


def _commands(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yields the parser and those of all subcommands."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from _commands(inner)
