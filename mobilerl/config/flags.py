"""Command-line flags of the settings, by dotted name."""

from __future__ import annotations

import argparse
import difflib
import inspect
import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from mobilerl.config.marks import NotWith, OnlyWith
from mobilerl.config.recipe import Recipe, recipe_with_plugins
from mobilerl.config.renamed import new_name, why_gone

MOST_CHOICES = 8
"""Maximum number of choices shown as a flag's placeholder; longer lists are shown in its help."""
NULL = "null"
"""Word for no value on the command line and, since TOML has none, as a string in a recipe."""
LIST = "LIST"
LONGEST_QUOTE = 200
MISSING = object()
"""Marks a flag that was given without a value."""


class ConfigError(ValueError):
    """An invalid recipe or command line. Each argument of the exception is one mistake with its fix."""

    def __str__(self) -> str:
        return "\n".join(map(str, self.args))


Owners = list[tuple[type[BaseModel], FieldInfo]]
"""Sections of a union that have a setting, each with its field info; most settings have one owner."""


def settings_of(sections: Sequence[type[BaseModel]], prefix: str = "") -> dict[str, Owners]:
    """All sections and settings by dotted name. `sections` is one section or the members of a union."""
    found: dict[str, Owners] = {}
    for section in sections:
        for name, info in section.model_fields.items():
            found.setdefault(prefix + name, []).append((section, info))
    for name, owners in list(found.items()):
        found |= settings_of(_inner(owners), f"{name}.")
    return found


def _inner(owners: Owners) -> list[type[BaseModel]]:
    """Section classes behind a field; none for a setting."""
    return list(dict.fromkeys(member for _, info in owners for member in members(info.annotation)))


def members(annotation: Any) -> list[type[BaseModel]]:
    """Section classes in a type: itself or the members of a union. A list of sections counts as one setting."""
    if get_origin(annotation) is tuple:
        return []
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [member for argument in get_args(annotation) for member in members(argument)]


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Adds a flag for every setting to the parser, in one group per section, with the docstrings as help."""
    known = settings_of([recipe_with_plugins()])
    groups = {"": parser.add_argument_group("", inspect.getdoc(Recipe))}
    for name, owners in known.items():
        if _inner(owners):
            continue
        section = name.rpartition(".")[0]
        if section not in groups:
            about = known[section][0][1].description or inspect.getdoc(_inner(known[section])[0])
            groups[section] = parser.add_argument_group(section, about)
        kinds = list(dict.fromkeys(kind for _, info in owners for kind in _kinds(info.annotation)))
        first = owners[0][1]
        conditions = "".join(f"; {mark}" for mark in _conditions(known, name))
        choices = f"; one of {', '.join(kinds)}" if len(kinds) > MOST_CHOICES else ""
        groups[section].add_argument(
            f"--{name}",
            type=_list if LIST in kinds else _scalar,
            default=argparse.SUPPRESS,
            metavar=kinds[0] if len(kinds) == 1 else "NAME" if choices else f"{{{','.join(kinds)}}}",
            help=f"{first.description or ''} (default: {_defaults(known, name)}{choices}{conditions})".replace(
                "%", "%%"
            ),
        )


def _conditions(known: Mapping[str, Owners], name: str) -> dict[OnlyWith | NotWith, None]:
    """When a setting is in use, by its marks and those of its section."""
    fields = [info for part in (name.rpartition(".")[0], name) for _, info in known.get(part, ())]
    return dict.fromkeys(mark for info in fields for mark in info.metadata if isinstance(mark, OnlyWith | NotWith))


def _kinds(annotation: Any) -> list[str]:
    """Names of the values or types that a setting accepts."""
    if annotation is bool:
        return ["true", "false"]
    if annotation is type(None):
        return [NULL]
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return [str(choice) for choice in arguments]
    if origin is tuple:
        return [LIST]
    if origin is Annotated:
        return _kinds(arguments[0])
    return [kind for argument in arguments for kind in _kinds(argument)] if arguments else [annotation.__name__]


def _defaults(known: Mapping[str, Owners], name: str) -> str:
    """The default, or those of the members of a union if they differ: `0.95 for gigpo, 0.9 for distrl`."""
    types: dict[str, list[str]] = {}
    for section, info in known[name]:
        types.setdefault(_format_default(info.default), []).extend(_types(known, name, section))
    if len(types) == 1 or name.endswith(".type"):
        return next(iter(types))
    return ", ".join(f"{default} for {' and '.join(names)}" for default, names in types.items())


def _types(known: Mapping[str, Owners], name: str, section: type[BaseModel]) -> list[str]:
    """The `type` of `section`, which owns the setting `name`, or those of the members of a union that contain it."""
    if kind := section.model_fields.get("type"):
        return [str(kind.default)]
    parent = name.rpartition(".")[0]
    owners = [owner for owner, info in known.get(parent, ()) if section in members(info.annotation)]
    return [kind for owner in owners for kind in _types(known, parent, owner)]


def _format_default(default: Any) -> str:
    if default is None or isinstance(default, bool | tuple):
        return json.dumps(default, default=str)
    return f"{default:g}" if isinstance(default, float) else str(default)


def _scalar(word: str) -> str | None:
    return None if word == NULL else word


def _list(word: str) -> list[Any] | str:
    """Parses a JSON list or comma-separated words. Invalid JSON is returned as is, for the recipe to reject."""
    if not word.startswith("["):
        return word.split(",")
    try:
        return json.loads(word)
    except (ValueError, RecursionError):
        return word


def read_flags(overrides: Sequence[str]) -> dict[str, Any]:
    """Values of dotted flags, nested by section and not yet validated. Raises ConfigError for an unknown name."""
    data, mistakes = parse_flags(overrides)
    if mistakes:
        raise ConfigError(*mistakes)
    return data


def parse_flags(overrides: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """Like `read_flags`, but returns the mistakes, one line each, instead of raising."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    add_flags(parser)
    for action in parser._actions:  # argparse would end at the first flag without a value
        action.nargs, action.const = "?", MISSING
    values, unknown = parser.parse_known_args(overrides)
    mistakes = _unknown_flags(unknown, list(parser._option_string_actions))
    data: dict[str, Any] = {}
    for name, value in vars(values).items():
        if value is MISSING:
            mistakes.append(f"--{name}: expected one argument")
            continue
        *sections, field = name.split(".")
        table = data
        for section in sections:
            table = table.setdefault(section, {})
        table[field] = value
    return data, mistakes


def _unknown_flags(words: Sequence[str], known: Sequence[str]) -> list[str]:
    mistakes = []
    for before, word in zip(["", *words], words, strict=False):
        flag = word.partition("=")[0]
        if not flag.startswith("--"):
            if not before.startswith("--"):  # else it is the value of an unknown flag
                mistakes.append(f"command line: {quote(flag)} belongs to no flag")
        elif new := new_name(flag.removeprefix("--")):
            mistakes.append(f"{flag} is called --{new} now")
        elif gone := why_gone(flag.removeprefix("--")):
            mistakes.append(f"{flag}: {gone}")
        elif inside := [option for option in known if option.startswith(f"{flag}.")]:
            mistakes.append(f"{flag}: this is a section, not a value; give one of its settings, such as {inside[0]}")
        else:
            mistakes.append(f"{quote(flag)}: there is no such setting{suggestion(flag, known)}")
    return mistakes


def suggestion(name: str, known: Sequence[str]) -> str:
    if near := difflib.get_close_matches(name, known, n=1, cutoff=0.5):
        return f"; did you mean {near[0]!r}?"
    return f"; choose one of {', '.join(known)}" if len(known) < 30 else "; `mobilerl settings WORD` finds settings"


def quote(text: str) -> str:
    """Shortens a text and puts it on one line, since a file may contain any field names."""
    text = text if text.isprintable() else ascii(text)
    return text if len(text) <= LONGEST_QUOTE else text[:LONGEST_QUOTE] + "..."
