"""`mobilerl settings`: what can be set, in words. The help of other commands shows the same."""

from __future__ import annotations

import argparse
import difflib
import json
import shutil
import sys
import textwrap
from collections.abc import Callable, Collection, Sequence
from itertools import groupby
from typing import Any

from mobilerl.config import ConfigError
from mobilerl.config.describe import Setting, find, sections, settings

WIDTH = 100


def add(commands: argparse._SubParsersAction, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        "settings", parents=[common], allow_abbrev=False, help="every setting of a recipe, in words",
        epilog="mobilerl settings algorithm.replay: a section; mobilerl settings gamma: a setting; mobilerl settings "
        "learning rate: whatever speaks of it",
    )  # fmt: skip
    parser.add_argument("words", nargs="*", metavar="SECTION|NAME|WORD", help="without any: the sections")
    parser.add_argument("--all", action="store_true", help="every setting of every section")
    parser.add_argument("--json", action="store_true", help="as JSON, for programs")
    parser.set_defaults(run=run, takes_settings=False)


def run(args: argparse.Namespace, rest: Sequence[str]) -> int:
    wanted = " ".join(args.words)
    if not wanted and not args.all and not args.json:
        print(_overview())
        return 0
    found = find(wanted) if wanted else settings()
    if not found:
        names = [s.name for s in settings()]
        near = difflib.get_close_matches(wanted, [*sections(), *names, *(n.rpartition(".")[2] for n in names)], n=1)
        hint = f"; did you mean {near[0]!r}?" if near else "; `mobilerl settings` lists the sections"
        raise ConfigError(f"no setting is called or speaks of {wanted!r}{hint}")
    if args.json:
        print(json.dumps([s.to_json() for s in found], indent=2))
    else:
        print(listing(found))
    return 0


def listing(found: Sequence[Setting], width: int | None = None) -> str:
    """The settings with their meanings, under the names of their sections."""
    width = width or min(WIDTH, shutil.get_terminal_size((WIDTH, 24)).columns)
    about, blocks = sections(), []
    for section, members in groupby(found, key=lambda s: s.section):
        title = f"[{section}]" if section else "before the first section"
        said = about.get(section, "")
        blocks.append("\n".join(textwrap.wrap(f"{title}  {said}", width, subsequent_indent="  ")))
        blocks += ["\n".join(_lines(setting, width)) for setting in members]
        blocks.append("")
    return "\n".join(blocks).rstrip()


def _lines(setting: Setting, width: int) -> list[str]:
    meaning = textwrap.wrap(setting.meaning, width - 6, break_long_words=False)
    facts = textwrap.wrap(_facts(setting), width - 6, break_long_words=False)
    sources = [f"source: {paper}" for paper in setting.papers]
    return [f"  {setting.flag or setting.name}", *(f"      {line}" for line in [*meaning, *facts, *sources])]


def _facts(setting: Setting) -> str:
    """`one of a, b; default a`, `number or null, 0 to 1; seconds; default 0.5`."""
    if setting.choices and setting.allowed:
        null = " or null" if "or null" in setting.kind else ""
        kind = f"one of {setting.allowed}{null}"
    else:
        kind = ", ".join(filter(None, (setting.kind, setting.allowed)))
    default = "must be given" if setting.required else f"default {shown(setting.default)}"
    return "; ".join(filter(None, (kind, setting.unit, default)))


def shown(value: Any) -> str:
    """A value as a command line takes it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return json.dumps(list(value))
    return f"{value:g}" if isinstance(value, float) else str(value) or '""'


def _overview() -> str:
    width = min(WIDTH, shutil.get_terminal_size((WIDTH, 24)).columns)
    counts = {name: sum(s.section == name for s in settings()) for name in sections()}
    lines = ["Settings of a recipe (TOML), each of which the command line can give as --SECTION.NAME VALUE.", ""]
    for name, said in sections().items():
        if name and counts[name]:
            lines += textwrap.wrap(f"{name:<22} {said}", width, subsequent_indent=" " * 23)
    lines += ["", "`mobilerl settings SECTION` lists one, `mobilerl settings WORD` searches, --all prints everything."]
    return "\n".join(lines)


# --- the help of commands that take settings -----------------------------------------------------------------------


def add_help(parser: argparse.ArgumentParser, chosen: Collection[str]) -> None:
    """`-h`: the options. `--help`: the options, and every setting of the top-level sections `chosen`."""

    def everything() -> str:
        members = [s for s in settings() if s.name.partition(".")[0] in chosen]
        title = "settings, as they stand in a recipe and on the command line:"
        return f"{parser.format_help()}\n{title}\n\n{listing(members)}"

    parser.add_argument("-h", action=_Print, text=parser.format_help, help="show the options")
    parser.add_argument("--help", action=_Print, text=everything, help="show the options and every setting")


class _Print(argparse.Action):
    def __init__(self, option_strings: Sequence[str], dest: str, text: Callable[[], str], help: str) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, help=help)
        self.text = text

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        sys.stdout.write(f"{self.text()}\n")
        parser.exit()
