"""`mobilerl settings`: searches the settings of a recipe."""

from __future__ import annotations

import argparse
import difflib
import json
import re
from collections.abc import Sequence

from rich.markup import escape
from rich.table import Table

from mobilerl.config import ConfigError
from mobilerl.config.flags import add_flags
from mobilerl.config.recipe import recipe_with_plugins
from mobilerl.system.terminal import make_console, say


def add(commands: argparse._SubParsersAction, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        "settings",
        parents=[common],
        allow_abbrev=False,
        help="search the settings of a recipe",
        epilog="examples: mobilerl settings algorithm.replay (a section); mobilerl settings gamma (a setting); "
        "mobilerl settings batch size (a topic)",
    )
    parser.add_argument("words", nargs="*", metavar="WORD", help="a section, a setting, or words of its description")
    parser.add_argument("--all", action="store_true", help="list every setting")
    parser.add_argument("--json", action="store_true", help="print the JSON schema of a recipe")
    parser.set_defaults(run=run, takes_settings=False)


def run(args: argparse.Namespace, rest: Sequence[str]) -> int:
    if args.json:
        print(json.dumps(recipe_with_plugins().model_json_schema(), indent=2))
        return 0
    parser = argparse.ArgumentParser(add_help=False)
    add_flags(parser)
    wanted = " ".join(args.words).removeprefix("--")
    if not wanted and not args.all:
        _print_sections(parser)
        return 0
    found = find(parser, wanted) if wanted else parser._actions
    if not found:
        names = [part for action in parser._actions for part in action.dest.split(".")]
        near = difflib.get_close_matches(wanted, names, n=1)
        hint = f"did you mean {near[0]!r}?" if near else "`mobilerl settings` lists the sections"
        raise ConfigError(f"no setting matches {wanted!r}; {hint}")
    formatter = argparse.HelpFormatter("mobilerl", max_help_position=8)
    for group in parser._action_groups:
        if actions := [action for action in group._group_actions if action in found]:
            formatter.start_section(group.title)
            formatter.add_text(group.description)
            formatter.add_arguments(actions)
            formatter.end_section()
    print(formatter.format_help(), end="")
    return 0


def find(parser: argparse.ArgumentParser, wanted: str) -> list[argparse.Action]:
    """The section or settings named `wanted`, else the settings whose name and help contain all its words."""
    actions = parser._actions
    named = [a for a in actions if a.dest == wanted or a.dest.startswith(f"{wanted}.")]
    if not named:
        named = [a for a in actions if a.dest.rpartition(".")[2] == wanted]
    return named or [a for a in actions if _mentions(a, wanted)]


def _mentions(action: argparse.Action, wanted: str) -> bool:
    words = _words(f"{action.dest} {action.help}")
    return all(any(word.startswith(prefix) for word in words) for prefix in _words(wanted))


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", text.lower())


def _print_sections(parser: argparse.ArgumentParser) -> None:
    say("Sections of a recipe (TOML); on the command line a setting is --SECTION.NAME VALUE.\n")
    table = Table.grid(padding=(0, 2, 0, 0))
    for group in parser._action_groups:
        if group.title and group.description:
            table.add_row(group.title, escape(group.description.splitlines()[0]))
    make_console().print(table)
    say("\n`mobilerl settings SECTION` lists one, `mobilerl settings WORD` searches, --all lists everything.")
