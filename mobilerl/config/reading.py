"""Reads recipes from TOML files and the command line. A ConfigError has one argument per mistake."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import tomli_w
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from mobilerl.config.flags import NULL, ConfigError, Owners, parse_flags, quote, read_flags, settings_of, suggestion
from mobilerl.config.in_use import drop_unused, find_unused, reason
from mobilerl.config.layers import Layers, overlay, read_layers, replace_values, take_run_table
from mobilerl.config.marks import OnlyWith
from mobilerl.config.recipe import Recipe, recipe_with_plugins
from mobilerl.config.renamed import modern_tables, new_name, why_gone
from mobilerl.envs.claims import take_lock
from mobilerl.system.atomic_files import write_atomic
from mobilerl.system.redaction import without_users

M = TypeVar("M", bound=BaseModel)
CONFIG_FILE = "config.json"
"""File in a run's directory with its resolved recipe."""
LOCK_FILE = ".lock"
"""File in a run's directory that is locked by the process that writes there."""


def load_recipe(
    path: Path | str | Sequence[Path | str] | None = None,
    overrides: Sequence[str] = (),
    defaults: Sequence[str] = (),
    command: str = "",
) -> Recipe:
    """Returns a recipe with the dotted command-line `overrides` applied.

    `path` is a file or the name of a packaged recipe such as `generated/adagrpo`; of several, later ones overlay
    earlier ones. Raises ConfigError with all mistakes. Settings without effect are mistakes: those of a given file
    together with what it extends or overlays, so that an overlay or a flag may switch off what a file configures, and
    those of `overrides` in the whole recipe and for `command`, such as `eval sim`, if that is given. `defaults` are
    words like `overrides` that come before them, from the program and not from the user.
    """
    paths = [path] if isinstance(path, Path | str) else path or ()
    flags, mistakes = parse_flags(overrides)
    data: dict[str, Any] = {}
    files: Layers = {}
    for layers in map(read_layers, paths):
        take_run_table(layers)
        for own in layers.values():
            data = overlay(data, own)
        file, own = next(reversed(layers.items()))
        mistakes += [f"{file}: {name}: {why}" for name, why in find_unused(own, _alone(data)).items()]
        files |= layers
    try:
        recipe = Recipe(**_merge(_merge(data, parse_flags(defaults)[0]), flags))
    except ValidationError as error:
        mistakes += _explain(error, Recipe, files or {"command line": {}}, flags)
    else:
        ineffective = find_unused(flags, recipe.model_dump(), command, as_flags=True)
        mistakes += [f"--{name}: {why}" for name, why in ineffective.items()]
    if mistakes:
        raise ConfigError(*mistakes)
    return recipe


def _alone(data: dict[str, Any]) -> dict[str, Any]:
    """The values of a file without flags, as written if it needs flags to be complete."""
    try:
        return Recipe(**data).model_dump()
    except ValidationError:
        return data


def validate(kind: type[M], data: dict[str, Any], where: str, flags: Mapping[str, Any] | None = None) -> M:
    """Makes `kind(**data)`. Raises ConfigError with all mistakes. `flags` are values given by flags of that name."""
    try:
        return kind(**data)
    except ValidationError as error:
        raise ConfigError(*_explain(error, kind, {where: data}, flags)) from None


def save_recipe(recipe: Recipe, path: Path) -> None:
    """Writes the resolved recipe, including all defaults."""
    write_atomic(path, (recipe.model_dump_json(indent=2) + "\n").encode())


def to_toml(recipe: Recipe) -> str:
    """The resolved recipe as TOML, without settings that it does not use. `load_recipe` reads it back."""
    return tomli_w.dumps(replace_values(drop_unused(recipe), None, NULL))


def read_saved(path: Path, overrides: Sequence[str] = ()) -> Recipe:
    """Reads a recipe written by `save_recipe`, with dotted command-line `overrides`.

    Raises ConfigError if it is damaged or of another version.
    """
    flags = read_flags(overrides)
    try:
        kind = recipe_with_plugins()
        return kind(**_merge(modern_tables(json.loads(path.read_bytes()), settings_of([kind])), flags))
    except ValidationError as error:
        mistakes = _explain(error, Recipe, {str(path): {}})
        if any(mistake["type"] == "extra_forbidden" for mistake in error.errors()):
            mistakes[-1] += (
                " (it was written by another version of mobilerl: resume with that version, or start a new run)"
            )
        raise ConfigError(*mistakes) from None
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise ConfigError(f"{path} is not a saved recipe: {error}") from None


@contextmanager
def lock_run_dir(run_dir: Path) -> Iterator[None]:
    """Locks a run directory against other processes, also on other nodes; a kill releases the lock.

    Raises ConfigError if another process holds it. A directory that was made for the lock and stayed empty is removed.
    """
    is_new = not run_dir.exists()
    run_dir.mkdir(parents=True, exist_ok=True)
    path = run_dir / LOCK_FILE
    with open(path, "a+") as lock:
        if holder := take_lock(lock):
            raise ConfigError(f"{run_dir} is in use by {holder}: wait until it ends, or choose another --run-dir")
        try:
            yield
        finally:
            if run_dir.is_dir() and [p.name for p in run_dir.iterdir()] == [LOCK_FILE]:
                path.unlink()
                if is_new:
                    run_dir.rmdir()


def _merge(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _merge(merged[key], value) if both else value
    return merged


# --- error messages ------------------------------------------------------------------------------------------------


def _explain(
    error: ValidationError, kind: type[BaseModel], files: Layers, flags: Mapping[str, Any] | None = None
) -> list[str]:
    """One line per mistake, with its origin, the field, what is wrong, and the value.

    `flags` are the values that did not come from the files.
    """
    known = settings_of([kind])
    said: dict[str, str] = {}
    for mistake in error.errors():
        name = _name(mistake, known)
        # A value that fits no member of a union is one mistake, not one per member.
        origin = _origin(name, flags or {}, files)
        said.setdefault(name, f"{origin}: {_what(mistake, name, known, origin.startswith('--'))}")
    return list(said.values())


def _name(mistake: ErrorDetails, known: Mapping[str, Owners]) -> str:
    """Dotted name of a field, without the tags of unions on the way to it."""
    types = {tag for owners in known.values() for section, _ in owners if (tag := _tag(section))}
    name = ""
    for number, part in enumerate(map(str, mistake["loc"]), 1):
        inner = f"{name}.{part}" if name else part
        is_extra = number == len(mistake["loc"]) and mistake["type"] == "extra_forbidden"
        if inner in known or is_extra or part not in types:
            name = inner
    return f"{name}.type" if mistake["type"] == "union_tag_invalid" else name


def _origin(name: str, flags: Mapping[str, Any], files: Layers) -> str:
    """Origin of a field: its flag or the file, or both for a section that both set in part."""
    where = next((file for file in reversed(files) if _lookup(name, files[file]) is not None), next(reversed(files)))
    value = _lookup(name, flags)
    if value is not None and not isinstance(value, Mapping):
        return f"--{quote(name)}"
    if value and where != "command line":
        where += " and the command line"
    return f"{where}: {quote(name)}" if name else where


def _lookup(name: str, tables: Mapping[str, Any]) -> Any:
    """The value, or its part of the tables for a section; a value on the way to the name counts as well."""
    value: Any = tables
    for part in filter(None, name.split(".")):
        if not isinstance(value, Mapping):
            return value
        if part not in value:
            return None
        value = value[part]
    return value


def _what(mistake: ErrorDetails, name: str, known: Mapping[str, Owners], as_flag: bool) -> str:
    """Describes what is wrong and how to fix it."""
    if mistake["type"] == "extra_forbidden":
        if new := new_name(name):
            return f"it is called {new} now"
        if mark := _types_with(name, known):
            return reason(mark, mistake["loc"][next(iter(mark.any_of)).count(".")], as_flag)
        if gone := why_gone(name):
            return gone
        parent, _, last = name.rpartition(".")
        beside = [other.rpartition(".")[2] for other in known if other.rpartition(".")[0] == parent]
        return f"there is no such setting{suggestion(last, beside)}"
    if mistake["type"] in ("model_type", "model_attributes_type"):
        inside = ", ".join(other.removeprefix(f"{name}.") for other in known if other.startswith(f"{name}."))
        return f"this is a section, not a value; it has {inside}"
    message = without_users(mistake["msg"].removeprefix("Value error, ")).replace("valid tuple", "list")
    given = mistake["input"]
    if mistake["type"] == "union_tag_invalid":
        message, given = f"Input should be {mistake['ctx']['expected_tags']}", mistake["ctx"]["tag"]
    # The value of a whole section would say nothing that the message does not.
    return message if isinstance(given, dict | BaseModel) else f"{message} (given: {quote(without_users(repr(given)))})"


def _types_with(name: str, known: Mapping[str, Owners]) -> OnlyWith | None:
    """The enclosing section's types with which a setting exists, as in `algorithm.type = adagrpo or gigpo`."""
    parts = name.split(".")
    for end in range(1, len(parts)):
        section, rest = ".".join(parts[:end]), ".".join(parts[end:])
        members = [owner for owner, _ in known.get(f"{section}.type", ()) if _tag(owner)]
        if found := [_tag(member) for member in members if rest in settings_of([member])]:
            return OnlyWith({f"{section}.type": tuple(found)})
    return None


def _tag(section: type[BaseModel]) -> str:
    """The `type` that selects a member of a union; empty for other sections."""
    default = section.model_fields["type"].default if "type" in section.model_fields else ""
    return default if isinstance(default, str) else ""
