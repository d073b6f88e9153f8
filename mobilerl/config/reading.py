"""From a TOML file and a command line to a `Recipe`. Every mistake is a ConfigError of one line."""

from __future__ import annotations

import difflib
import json
import tomllib
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_settings import CliSettingsSource
from pydantic_settings.exceptions import SettingsError

from mobilerl.atomic_files import write_atomic
from mobilerl.config.recipe import Recipe
from mobilerl.config.removed import REMOVED, drop_removed

M = TypeVar("M", bound=BaseModel)
LONGEST_QUOTE = 200
CONFIG_FILE = "config.json"
"""A run's resolved recipe, in its directory."""
MOST_NAMED = 4
"""Differing settings that a message names."""


class ConfigError(ValueError):
    """A recipe or a command line that cannot be used; the message is one line with the cure."""


def load_recipe(path: Path | None, overrides: Sequence[str] = ()) -> Recipe:
    """The recipe at `path` with the dotted command-line `overrides` on top. Raises ConfigError."""
    data = _read_toml(path) if path else {}
    return validate(Recipe, _merge(data, read_flags(overrides)), str(path or "command line"))


def read_flags(overrides: Sequence[str]) -> dict[str, Any]:
    """What dotted command-line words say, by section, not yet checked. Raises ConfigError for a name that is none."""
    try:
        return CliSettingsSource(
            Recipe, cli_parse_args=list(overrides), cli_exit_on_error=False, cli_implicit_flags=False
        )()
    except SettingsError as error:
        raise ConfigError(_unknown_flag(str(error), overrides)) from None
    except RecursionError:
        raise ConfigError("command line: a value is nested deeper than any setting") from None


def validate(kind: type[M], data: dict[str, Any], where: str) -> M:
    """`kind(**data)`, with the first mistake as a one-line ConfigError."""
    try:
        return kind(**data)
    except ValidationError as error:
        raise ConfigError(f"{where}: {_explain(error, kind)}") from None


def save_recipe(recipe: Recipe, path: Path) -> None:
    """The resolved recipe, every default spelled out."""
    write_atomic(path, (recipe.model_dump_json(indent=2) + "\n").encode())


def read_saved(path: Path) -> Recipe:
    """A resolved recipe as `save_recipe` wrote it, also in an earlier version."""
    try:
        data = json.loads(path.read_text())
        if not isinstance(data, dict):
            raise ValueError(f"it holds no object but a {type(data).__name__}")
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not a saved recipe: {error}") from None
    try:
        data = drop_removed(data)
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from None
    return validate(Recipe, data, str(path))


def claim(recipe: Recipe, run_dir: Path, may_change: Collection[str] = ()) -> None:
    """Makes a run directory the recipe's: `config.json` in it says so. What is there is taken over by the same recipe.

    Raises ConfigError, naming what differs, when it belongs to another one. `may_change`: settings that may differ, by
    their dotted names.
    """
    saved = run_dir / CONFIG_FILE
    if saved.is_file():
        changed = [name for name in differences(read_saved(saved), recipe) if name not in may_change]
        if changed:
            more = f" and {len(changed) - MOST_NAMED} more" if len(changed) > MOST_NAMED else ""
            raise ConfigError(
                f"{run_dir} belongs to another recipe ({', '.join(changed[:MOST_NAMED])}{more} differ): "
                f"go on with the settings of {saved}, or choose another --run-dir"
            )
    run_dir.mkdir(parents=True, exist_ok=True)
    save_recipe(recipe, saved)


def differences(a: Recipe, b: Recipe) -> list[str]:
    """Dotted names of the settings in which two recipes differ, in the order of the sections."""
    return _differences(a.model_dump(), b.model_dump(), "")


def _differences(a: dict[str, Any], b: dict[str, Any], prefix: str) -> list[str]:
    names: list[str] = []
    for key, value in a.items():
        if isinstance(value, dict) and isinstance(b.get(key), dict):
            names += _differences(value, b[key], f"{prefix}{key}.")
        elif value != b.get(key):
            names.append(prefix + key)
    return names


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise ConfigError(f"there is no recipe {path}; see recipes/ for those that come with mobilerl") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:  # what is not UTF-8 is a ValueError, too
        raise ConfigError(f"{path} is not valid TOML: {error}") from None


def _merge(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _merge(merged[key], value) if both else value
    return merged


def _explain(error: ValidationError, kind: type[BaseModel]) -> str:
    first = error.errors()[0]
    names = [str(part) for part in first["loc"]]
    field = _shown(".".join(names))
    if first["type"] != "extra_forbidden":
        said = first["msg"].removeprefix("Value error, ")
        if first["type"] == "model_type":
            return f"{field}: this is a section, not a value; it has {', '.join(_fields_at(kind, names))}"
        # What contradicts itself is a whole section: its values say nothing that the message does not.
        given = "" if isinstance(first["input"], dict | BaseModel) else f" (given: {_shown(repr(first['input']))})"
        return f"{field}: {said}{given}" if field else said
    if field in REMOVED:
        return _removed(field)
    return f"{field}: there is no such setting{_hint(names[-1], _fields_at(kind, names[:-1]))}"


def _shown(text: str) -> str:
    """Cut short, and on one line: files of others may name their fields as they like."""
    text = text if text.isprintable() else ascii(text)
    return text if len(text) <= LONGEST_QUOTE else text[:LONGEST_QUOTE] + "..."


def _fields_at(kind: type[BaseModel], names: Sequence[str]) -> list[str]:
    for name in names:
        inner = kind.model_fields[name].annotation if name in kind.model_fields else None
        if not (isinstance(inner, type) and issubclass(inner, BaseModel)):
            return []
        kind = inner
    return list(kind.model_fields)


def _hint(name: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else f"; choose one of {', '.join(known)}"


def _removed(name: str) -> str:
    return f"{name}: this setting was removed and is always {REMOVED[name]!r}; leave it out"


def _unknown_flag(message: str, overrides: Sequence[str]) -> str:
    flags = _all_flags(Recipe)
    for word in overrides:
        name = word.removeprefix("--").split("=")[0]
        if word.startswith("--") and name not in flags:
            if name in REMOVED:
                return f"--{_removed(name)}"
            near = difflib.get_close_matches(name, flags)
            return f"--{name}: there is no such setting{_hint(name, flags) if near else ''}"
    sections = [flag for flag in flags if any(other.startswith(f"{flag}.") for other in flags)]
    for word, value in zip(overrides, [*overrides[1:], ""], strict=True):
        name, _, given = word.removeprefix("--").partition("=")
        if word.startswith("--") and name in sections and not (given or value).lstrip().startswith("{"):
            return f"--{name}: this is a section, not a value; give one of its settings, as in --{name}.NAME VALUE"
    return message.splitlines()[0].removeprefix("error parsing CLI: ")


def _all_flags(kind: type[BaseModel], prefix: str = "") -> list[str]:
    flags = []
    for name, info in kind.model_fields.items():
        flags.append(prefix + name)
        if isinstance(info.annotation, type) and issubclass(info.annotation, BaseModel):
            flags += _all_flags(info.annotation, f"{prefix}{name}.")
    return flags
