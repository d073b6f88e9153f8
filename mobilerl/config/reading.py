"""From a TOML file and a command line to a `Recipe`. Every mistake is a ConfigError of one line."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import tomllib
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import tomli_w
from pydantic import BaseModel, ValidationError

from mobilerl.atomic_files import write_atomic
from mobilerl.config.flags import NULL, ConfigError, quote, read_flags, settings_of, suggestion
from mobilerl.config.packaged import find_recipe
from mobilerl.config.recipe import Recipe
from mobilerl.redaction import without_users

M = TypeVar("M", bound=BaseModel)
CONFIG_FILE = "config.json"
"""A run's resolved recipe, in its directory."""
LOCK_FILE = ".lock"
"""In a run's directory, held by the process that writes there."""
OF_A_RUN = ("metrics.jsonl", "checkpoints", "trajectories")
"""What only a run that has a config.json leaves."""
MOST_NAMED = 4
"""Differing settings that a message names."""


def load_recipe(path: Path | str | None = None, overrides: Sequence[str] = ()) -> Recipe:
    """Returns the recipe at `path`, or of that name, with the dotted command-line `overrides` on top.

    `path`: a file, or a packaged recipe such as `generated/adagrpo`. Raises ConfigError.
    """
    data = _read_toml(find_recipe(path)) if path else {}
    return validate(Recipe, _merge(data, read_flags(overrides)), str(path or "command line"))


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


@contextmanager
def held(run_dir: Path) -> Iterator[None]:
    """Keeps other processes, also on other nodes, from writing into a run directory; a kill releases it.

    Raises ConfigError if one does. A directory that this made and in which nothing was written is removed again.
    """
    is_new = not run_dir.exists()
    run_dir.mkdir(parents=True, exist_ok=True)
    path = run_dir / LOCK_FILE
    with open(path, "a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            raise ConfigError(
                f"{run_dir} is in use by {lock.read(100).strip() or 'another process'}: "
                "wait until it ends, or choose another --run-dir"
            ) from None
        lock.truncate(0)
        lock.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        lock.flush()
        try:
            yield
        finally:
            if run_dir.is_dir() and [p.name for p in run_dir.iterdir()] == [LOCK_FILE]:
                path.unlink()
                if is_new:
                    run_dir.rmdir()


def claim(recipe: Recipe, run_dir: Path, may_change: Collection[str] = ()) -> None:
    """Writes the recipe into its run directory as `config.json`.

    Raises ConfigError, naming the differences, if the directory already has one with other settings, and if it has none
    but files of a run. `may_change`: dotted names of settings that may differ.
    """
    saved = run_dir / CONFIG_FILE
    if saved.is_file():
        changed = [name for name in differences(read_saved(saved), recipe) if name not in may_change]
        if changed:
            raise ConfigError(
                f"{run_dir} belongs to another recipe ({', '.join(changed[:MOST_NAMED])} differ): "
                f"continue with the settings of {saved}, or choose another --run-dir"
            )
    elif left := next((name for name in OF_A_RUN if (run_dir / name).exists()), None):
        raise ConfigError(
            f"{run_dir} has {left} of a run, but no {CONFIG_FILE}: put it back, or choose another --run-dir"
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
    """Returns the file's content; a `model` that is a folder beside the file becomes that folder's path."""
    try:
        data = _replace(tomllib.loads(path.read_text()), NULL, None)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:  # also for a file that is not UTF-8
        raise ConfigError(f"{path} is not valid TOML: {error}") from None
    model = data.get("model")
    if isinstance(model, str) and model and (beside := path.resolve().parent / model).is_dir():
        data["model"] = str(beside)
    return data


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
    field = quote(name)
    if first["type"] == "extra_forbidden":
        if others := [section.model_fields["type"].default for section, _ in known.get(name, ()) if _typed(section)]:
            choice = f"{name.rpartition('.')[0]}.type = "
            return f"{field}: only with {' or '.join(choice + other for other in others)}; set it as well"
        parent, _, last = name.rpartition(".")
        beside = [other.rpartition(".")[2] for other in known if other.rpartition(".")[0] == parent]
        return f"{field}: there is no such setting{suggestion(last, beside)}"
    if first["type"] in ("model_type", "model_attributes_type"):
        inside = ", ".join(other.removeprefix(f"{name}.") for other in known if other.startswith(f"{name}."))
        return f"{field}: this is a section, not a value; it has {inside}"
    message = without_users(first["msg"].removeprefix("Value error, "))
    # The value of a whole section would say nothing that the message does not.
    given = (
        ""
        if isinstance(first["input"], dict | BaseModel)
        else f" (given: {quote(without_users(repr(first['input'])))})"
    )
    return f"{field}: {message}{given}" if field else message


def _typed(section: type[BaseModel]) -> bool:
    """Whether it is a member of a union that is chosen by `type`."""
    return "type" in section.model_fields and isinstance(section.model_fields["type"].default, str)
