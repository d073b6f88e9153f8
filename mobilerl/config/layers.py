"""Recipe files and how they compose: a recipe may extend another one, and later ones overlay earlier ones."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from mobilerl.config.flags import NULL, ConfigError, quote
from mobilerl.config.in_use import is_union, shared_settings
from mobilerl.config.packaged import find_recipe
from mobilerl.envs.text_files import read_text

Layers = dict[str, dict[str, Any]]
"""Settings of each recipe file by its name, the lowest first."""
BESIDE = (("model",), ("run", "sft"), ("run", "evaluation"))
"""Keys whose value may be a path relative to the recipe's file."""


@dataclass(frozen=True, slots=True)
class RunTable:
    """The table [run] of a recipe: what `mobilerl run` does with it."""

    title: str = ""
    """Name of the trained policy in the table of results; the recipe's name by default."""
    sft: str = ""
    """Recipe of the SFT whose checkpoint the run starts from, without `--model`; empty for `model` itself."""
    evaluation: str = ""
    """Recipe that the policy is evaluated with; the recipe itself by default."""


def read_layers(path: Path | str) -> Layers:
    """Settings of a recipe and of the recipes that it extends, by file. The table [run] is among them."""
    return dict(reversed([*_read_extended(path)]))


def take_run_table(files: Layers) -> RunTable:
    """Takes the tables [run] out of the files. Raises ConfigError for what they cannot have."""
    together: dict[str, Any] = {}
    for name, own in files.items():
        given, known = own.pop("run", {}), [field.name for field in fields(RunTable)]
        if not isinstance(given, dict) or given.keys() - known:
            raise ConfigError(
                f"{name}: run: this is a table with {', '.join(known)}, all of them text (given: {quote(repr(given))})"
            )
        if wrong := next((key for key, value in given.items() if not isinstance(value, str)), None):
            raise ConfigError(f"{name}: run.{wrong}: this is text (given: {quote(repr(given[wrong]))})")
        together |= given
    return RunTable(**together)


def _read_extended(path: Path | str) -> Iterator[tuple[str, dict[str, Any]]]:
    """A recipe's file and settings, then those of the recipe that it extends, and so on."""
    seen: list[Path] = []
    while True:
        file = find_recipe(path)
        if file.resolve() in seen:
            raise ConfigError(f"{seen[-1]}: extends: a circle, as {file} extends it")
        seen.append(file.resolve())
        own = _read_toml(file)
        base = own.pop("extends", None)
        yield str(path), own
        if base is None:
            return
        if not isinstance(base, str):
            said = quote(repr(base))
            raise ConfigError(f'{path}: extends: name one recipe, as in extends = "base.toml" (given: {said})')
        try:
            path = _beside(file, base) or find_recipe(base)
        except (ConfigError, OSError, ValueError) as error:
            raise ConfigError(f"{path}: extends: {quote(str(error))}") from None


def overlay(
    base: dict[str, Any], over: dict[str, Any], prefix: str = "", root: dict[str, Any] | None = None
) -> dict[str, Any]:
    """`over` on top of `base`. A section of another type, such as another algorithm, replaces the one below but for
    what all types share, such as the optimizer's settings.

    `base` is the section of `root` (by default `base` itself) whose name and a dot are `prefix`.
    """
    together, root = dict(base), base if root is None else root
    for key, value in over.items():
        below, name = together.get(key), f"{prefix}{key}"
        if isinstance(value, dict) and isinstance(below, dict):
            changed = value.get("type", below.get("type")) != below.get("type")
            if changed and is_union(name, root):
                shared = shared_settings(name, root)
                below = {kept: below[kept] for kept in below if kept in shared}
            together[key] = overlay(below, value, f"{name}.", root)
        else:
            together[key] = value
    return together


def _read_toml(path: Path) -> dict[str, Any]:
    """Returns the content of the file; paths of what is beside it become absolute."""
    try:
        data = replace_values(tomllib.loads(read_text(path)), NULL, None)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:  # also for another encoding
        raise ConfigError(f"{path} is not valid TOML: {error}") from None
    for *sections, key in BESIDE:
        table = data
        for section in sections:
            table = inner if isinstance(inner := table.get(section), dict) else {}
        value = table.get(key)
        if isinstance(value, str) and value and (beside := _beside(path, value)):
            table[key] = str(beside)
    return data


def _beside(file: Path, name: str) -> Path | None:
    """The file or folder of this name relative to a recipe's file, if there is one."""
    try:
        found = (file.resolve().parent / name).resolve()
        return found if found.exists() else None
    except (OSError, ValueError):  # no possible name of a file
        return None


def replace_values(value: Any, old: Any, new: Any) -> Any:
    """Replaces every `old` in the tables and lists of `value` by `new`."""
    if isinstance(value, dict):
        return {key: replace_values(item, old, new) for key, item in value.items()}
    if isinstance(value, list):
        return [replace_values(item, old, new) for item in value]
    return new if value == old and type(value) is type(old) else value
