"""What a run is: its model, algorithm and seed, the settings that differ from the defaults, and its starts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from mobilerl.config import ConfigError, Recipe, read_saved
from mobilerl.config.reading import CONFIG_FILE
from mobilerl.training.starts import STARTS_FILE
from mobilerl.training.tracking import read_metrics

IN_HEAD = ("model", "train.seed")
"""Settings that the head of the page names in any case."""


def about_run(run: Path) -> dict[str, Any]:
    """The head of the page: {model, algorithm, suite, seed, settings, starts}, or without a readable recipe the starts
    alone, with the `reason` if it is damaged.

    `settings` are [name, value, default] of those that differ, in the order of the recipe.
    """
    starts = [
        {"iteration": row["iteration"], **{key: str(row.get(key, "")) for key in ("time", "command", "version")}}
        for row in read_metrics(run / STARTS_FILE)
    ]
    if not (run / CONFIG_FILE).is_file():
        return {"starts": starts}
    try:
        recipe = read_saved(run / CONFIG_FILE)
    except ConfigError as error:
        return {"starts": starts, "reason": str(error)}
    return {
        "model": recipe.model_dump(mode="json")["model"],
        "algorithm": recipe.algorithm.type,
        "suite": recipe.suite.type,
        "seed": recipe.train.seed,
        "settings": [setting for setting in changed_settings(recipe) if setting[0] not in IN_HEAD],
        "starts": starts,
    }


def changed_settings(recipe: Recipe) -> list[list[Any]]:
    """[dotted name, value, default] of the settings that differ from their defaults, as they are saved.

    In a section with a `type`, such as the algorithm, the defaults are those of that type.
    """
    return list(_list_changed(recipe, recipe.model_dump(mode="json"), ""))


def _list_changed(section: BaseModel, saved: Mapping[str, Any], prefix: str) -> Iterator[list[Any]]:
    usual = {name: f.get_default(call_default_factory=True) for name, f in type(section).model_fields.items()}
    for name, default in usual.items():
        value = getattr(section, name)
        if isinstance(value, BaseModel):
            if type(value) is not type(default) and "type" in saved[name]:
                yield [f"{prefix}{name}.type", saved[name]["type"], getattr(default, "type", None)]
            yield from _list_changed(value, saved[name], f"{prefix}{name}.")
        elif value != default:
            yield [f"{prefix}{name}", saved[name], _plain(default)]


def _plain(default: Any) -> Any:
    return list(default) if isinstance(default, tuple) else default
