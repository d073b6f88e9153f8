"""A recipe as TOML, every default spelled out, in the order of the sections."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from mobilerl.config.recipe import Recipe


def to_toml(recipe: Recipe) -> str:
    """What `load_recipe` reads back as the same recipe, together with `null_flags`. Changed values name their default.

    TOML cannot say null: such a value stands as a comment.
    """
    return "\n".join(_table(recipe, type(recipe)(), "")) + "\n"


def null_flags(recipe: Recipe) -> list[str]:
    """Command-line words for the settings that are null while their default is not: a file cannot say so."""
    found = _nulls(recipe.model_dump(), type(recipe)().model_dump(), "")
    return [word for name in found for word in (f"--{name}", "null")]


def _nulls(values: Mapping[str, Any], defaults: Mapping[str, Any], prefix: str) -> Iterator[str]:
    for name, value in values.items():
        default = defaults.get(name)
        if isinstance(value, Mapping) and isinstance(default, Mapping):
            yield from _nulls(value, default, f"{prefix}{name}.")
        elif value is None and default is not None:
            yield prefix + name


def _table(section: BaseModel, default: BaseModel | None, name: str) -> Iterator[str]:
    values = {key: getattr(section, key) for key in type(section).model_fields}
    inner = {key: value for key, value in values.items() if isinstance(value, BaseModel)}
    lists = {key: value for key, value in values.items() if _is_tables(value)}
    plain = {key: value for key, value in values.items() if key not in inner and key not in lists}
    if name and plain:
        yield f"[{name}]"
    for key, value in plain.items():
        usual = getattr(default, key, value)
        note = "" if usual == value else f"  # default {'null' if usual is None else _value(usual)}"
        yield (f"# {key} = null" if value is None else f"{key} = {_value(value)}") + note
    if plain:
        yield ""
    prefix = f"{name}." if name else ""
    for key, value in inner.items():
        yield from _table(value, getattr(default, key, None), prefix + key)
    for key, entries in lists.items():
        for entry in entries:
            lines = list(_table(entry, None, prefix + key))
            yield from [f"[[{prefix}{key}]]", *lines[1:]]


def _is_tables(value: Any) -> bool:
    return isinstance(value, tuple) and bool(value) and all(isinstance(v, BaseModel) for v in value)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, str):
        # JSON's escapes are TOML's as well; of what JSON leaves as it is, TOML wants only DEL escaped.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)
