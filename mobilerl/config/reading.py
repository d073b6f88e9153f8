"""From a TOML file and a command line to a `Recipe`. Every mistake is a ConfigError of one line."""

from __future__ import annotations

import argparse
import difflib
import inspect
import json
import tomllib
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

import tomli_w
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from mobilerl.atomic_files import write_atomic
from mobilerl.config.recipe import Recipe

M = TypeVar("M", bound=BaseModel)
LIST, NULL = "LIST", "null"
"""NULL stands for no value, on the command line and, as TOML has no word for it, as a string in a recipe."""
LONGEST_QUOTE = 200
CONFIG_FILE = "config.json"
"""A run's resolved recipe, in its directory."""
MOST_NAMED = 4
"""Differing settings that a message names."""


class ConfigError(ValueError):
    """A recipe or a command line that cannot be used; the message is one line with the fix."""


def load_recipe(path: Path | None, overrides: Sequence[str] = ()) -> Recipe:
    """The recipe at `path` with the dotted command-line `overrides` on top. Raises ConfigError."""
    data = _read_toml(path) if path else {}
    return validate(Recipe, _merge(data, read_flags(overrides)), str(path or "command line"))


Owners = list[tuple[type[BaseModel], FieldInfo]]
"""The sections of a union that have a setting, with what each says about it; most settings have one owner."""


def settings_of(sections: Sequence[type[BaseModel]], prefix: str = "") -> dict[str, Owners]:
    """Every section and setting by its dotted name. `sections`: one, or the members of a union."""
    found: dict[str, Owners] = {}
    for section in sections:
        for name, info in section.model_fields.items():
            found.setdefault(prefix + name, []).append((section, info))
    for name, owners in list(found.items()):
        found |= settings_of(_inner(owners), f"{name}.")
    return found


def _inner(owners: Owners) -> list[type[BaseModel]]:
    """The sections that a section stands for; none for a setting. A list of sections is one setting."""
    members = [m for _, info in owners if LIST not in _kinds(info.annotation) for m in _members(info.annotation)]
    return list(dict.fromkeys(members))


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Adds a flag for every setting to the parser, in a group for each section, with the docstrings as help."""
    known = settings_of([Recipe])
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
        groups[section].add_argument(
            f"--{name}",
            type=_list if LIST in kinds else _scalar,
            default=argparse.SUPPRESS,
            metavar=kinds[0] if len(kinds) == 1 else f"{{{','.join(kinds)}}}",
            help=f"{first.description or ''} (default: {_shown(first.default)})".replace("%", "%%"),
        )


def _kinds(annotation: Any) -> list[str]:
    """The values or types that a setting takes, in words."""
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


def _shown(default: Any) -> str:
    if default is None or isinstance(default, bool | tuple):
        return json.dumps(default, default=str)
    return f"{default:g}" if isinstance(default, float) else str(default)


def _scalar(word: str) -> str | None:
    return None if word == NULL else word


def _list(word: str) -> list[Any]:
    """A JSON list, or words with commas between them."""
    if not word.startswith("["):
        return word.split(",")
    try:
        return json.loads(word)
    except (ValueError, RecursionError):
        raise argparse.ArgumentTypeError(f"{_quote(word)} is not a JSON list") from None


def read_flags(overrides: Sequence[str]) -> dict[str, Any]:
    """The values of dotted flags, nested by section and not yet validated. Raises ConfigError for an unknown name."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    add_flags(parser)
    try:
        values, unknown = parser.parse_known_args(list(overrides))
    except argparse.ArgumentError as error:
        raise ConfigError(f"command line: {error}") from None
    if unknown:
        raise ConfigError(_unknown_flag(unknown[0].partition("=")[0], parser))
    data: dict[str, Any] = {}
    for name, value in vars(values).items():
        *sections, field = name.split(".")
        table = data
        for section in sections:
            table = table.setdefault(section, {})
        table[field] = value
    return data


def _unknown_flag(flag: str, parser: argparse.ArgumentParser) -> str:
    if not flag.startswith("--"):
        return f"command line: {_quote(flag)} belongs to no flag"
    known = list(parser._option_string_actions)
    if inside := [option for option in known if option.startswith(f"{flag}.")]:
        return f"{flag}: this is a section, not a value; give one of its settings, such as {inside[0]}"
    return f"{_quote(flag)}: there is no such setting{_suggestion(flag, known)}"


def validate(kind: type[M], data: dict[str, Any], where: str) -> M:
    """`kind(**data)`, with the first mistake as a one-line ConfigError."""
    try:
        return kind(**data)
    except ValidationError as error:
        raise ConfigError(f"{where}: {_explain(error, kind)}") from None


def save_recipe(recipe: Recipe, path: Path) -> None:
    """The resolved recipe, every default spelled out."""
    write_atomic(path, (recipe.model_dump_json(indent=2) + "\n").encode())


def to_toml(recipe: Recipe) -> str:
    """The resolved recipe as a TOML file that `load_recipe` reads back as the same recipe."""
    return tomli_w.dumps(_replace(recipe.model_dump(mode="json"), None, NULL))


def read_saved(path: Path) -> Recipe:
    """A resolved recipe as `save_recipe` wrote it. ConfigError for a damaged one and one of another version."""
    try:
        return Recipe(**json.loads(path.read_text()))
    except ValidationError as error:
        first = _explain(error, Recipe)
        if error.errors()[0]["type"] == "extra_forbidden":
            first += " (it was written by another version of mobilerl: resume with that version, or start a new run)"
        raise ConfigError(f"{path}: {first}") from None
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise ConfigError(f"{path} is not a saved recipe: {error}") from None


def claim(recipe: Recipe, run_dir: Path, may_change: Collection[str] = ()) -> None:
    """Writes the recipe into its run directory as `config.json`.

    Raises ConfigError, naming the differences, if the directory already has one with other settings. `may_change`:
    dotted names of settings that may differ.
    """
    saved = run_dir / CONFIG_FILE
    if saved.is_file():
        changed = [name for name in differences(read_saved(saved), recipe) if name not in may_change]
        if changed:
            raise ConfigError(
                f"{run_dir} belongs to another recipe ({', '.join(changed[:MOST_NAMED])} differ): "
                f"continue with the settings of {saved}, or choose another --run-dir"
            )
    run_dir.mkdir(parents=True, exist_ok=True)
    save_recipe(recipe, saved)


def differences(a: Recipe, b: Recipe) -> list[str]:
    """Dotted names of the settings in which two recipes differ, in the order of the sections."""
    left, right = dict(_flat(a.model_dump())), dict(_flat(b.model_dump()))
    return [name for name in {**left, **right} if left.get(name) != right.get(name)]


def _flat(section: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in section.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return _replace(tomllib.loads(path.read_text()), NULL, None)
    except FileNotFoundError:
        raise ConfigError(f"there is no recipe {path}; see recipes/ for those that come with mobilerl") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:  # also for a file that is not UTF-8
        raise ConfigError(f"{path} is not valid TOML: {error}") from None


def _merge(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _merge(merged[key], value) if both else value
    return merged


def _replace(value: Any, old: Any, new: Any) -> Any:
    """`value` with `new` in place of every `old` in its tables and lists."""
    if isinstance(value, dict):
        return {key: _replace(item, old, new) for key, item in value.items()}
    if isinstance(value, list):
        return [_replace(item, old, new) for item in value]
    return new if value == old and type(value) is type(old) else value


# --- error messages ------------------------------------------------------------------------------------------------


def _explain(error: ValidationError, kind: type[BaseModel]) -> str:
    """The first mistake: which field, what is wrong, the value."""
    first = error.errors()[0]
    known = settings_of([kind])
    types = {
        section.model_fields["type"].default for found in known.values() for section, _ in found if _typed(section)
    }
    *path, last = map(str, first["loc"] or [""])
    name = ""
    for part in [*path, last]:
        inner = f"{name}.{part}" if name else part
        is_extra = part is last and first["type"] == "extra_forbidden"
        if inner in known or is_extra or part not in types:  # else the tag of a union
            name = inner
    field = _quote(name)
    if first["type"] == "extra_forbidden":
        if others := [section.model_fields["type"].default for section, _ in known.get(name, ()) if _typed(section)]:
            choice = f"{name.rpartition('.')[0]}.type = "
            return f"{field}: only with {' or '.join(choice + other for other in others)}; set it as well"
        parent, _, last = name.rpartition(".")
        beside = [other.rpartition(".")[2] for other in known if other.rpartition(".")[0] == parent]
        return f"{field}: there is no such setting{_suggestion(last, beside)}"
    if first["type"] in ("model_type", "model_attributes_type"):
        inside = ", ".join(other.removeprefix(f"{name}.") for other in known if other.startswith(f"{name}."))
        return f"{field}: this is a section, not a value; it has {inside}"
    message = first["msg"].removeprefix("Value error, ")
    # The value of a whole section would say nothing that the message does not.
    given = "" if isinstance(first["input"], dict | BaseModel) else f" (given: {_quote(repr(first['input']))})"
    return f"{field}: {message}{given}" if field else message


def _typed(section: type[BaseModel]) -> bool:
    """Whether it is a member of a union that is chosen by `type`."""
    return "type" in section.model_fields and isinstance(section.model_fields["type"].default, str)


def _members(annotation: Any) -> list[type[BaseModel]]:
    """The sections that a type is made of: itself, a union's members, the entries of a list."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [member for argument in get_args(annotation) for member in _members(argument)]


def _suggestion(name: str, known: Sequence[str]) -> str:
    if near := difflib.get_close_matches(name, known, n=1, cutoff=0.5):
        return f"; did you mean {near[0]!r}?"
    return f"; choose one of {', '.join(known)}" if len(known) < 30 else "; `mobilerl settings WORD` finds settings"


def _quote(text: str) -> str:
    """Shortened, and on one line: a file may name its fields in any way."""
    text = text if text.isprintable() else ascii(text)
    return text if len(text) <= LONGEST_QUOTE else text[:LONGEST_QUOTE] + "..."
