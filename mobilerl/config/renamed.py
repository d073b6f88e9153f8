"""Settings that had other names before: what they are called now, and the recipes of runs that have the old ones."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

RENAMED = {
    "collect": "rollout",
    "phone.count": "fleet.count",
    "engine.learning_rate": "algorithm.learning_rate",
    "engine.weight_decay": "algorithm.weight_decay",
    "engine.grad_clip": "algorithm.grad_clip",
    "engine.warmup_steps": "algorithm.warmup_steps",
    "train.mini_batch": "algorithm.mini_batch_size",
    "algorithm.skip_above": "algorithm.max_response_prob",
    "algorithm.replay.gamma": "algorithm.replay.fraction",
    "algorithm.loss.agg": "algorithm.loss.loss_aggregation",
    "algorithm.loss.is_cap": "algorithm.loss.tis_cap",
    "algorithm.loss.recompute_old": "algorithm.loss.recompute_old_logprobs",
}
"""Old to new names, of settings or of whole sections."""
SAMPLER, ENGINE, OWN_SAMPLER = "engine.inference", "engine.type", "verl"
"""The setting that once said how an engine samples, now a value of the second one; not for the engine named last."""


def new_name(name: str) -> str | None:
    """What a setting that had the dotted `name` is called now; None if none had it."""
    section, dot, rest = name.partition(".")
    if name == SAMPLER:
        return ENGINE
    if name in RENAMED:
        return RENAMED[name]
    return f"{RENAMED[section]}.{rest}" if dot and section in RENAMED else None


def modern_tables(tables: Mapping[str, Any]) -> dict[str, Any]:
    """A run's saved recipe with the new names of settings, so that it can be resumed."""
    modern = deepcopy(dict(tables))
    for old, new in RENAMED.items():
        _move(modern, old, new)
    engine = modern.get("engine")
    if isinstance(engine, dict) and "inference" in engine:
        sampler = engine.pop("inference")
        if engine.get("type") != OWN_SAMPLER:
            engine["type"] = sampler
    return modern


def _move(tables: dict[str, Any], old: str, new: str) -> None:
    """Moves a value to its new place, unless there is one."""
    source, last = _table(tables, old)
    target, name = _table(tables, new, make=last in source)
    if last in source and name not in target:
        target[name] = source.pop(last)


def _table(tables: dict[str, Any], name: str, make: bool = False) -> tuple[dict[str, Any], str]:
    """The table that holds the setting of a dotted name, and its key there; an empty one if there is none."""
    *way, last = name.split(".")
    table = tables
    for key in way:
        inner = table.setdefault(key, {}) if make else table.get(key)
        table = inner if isinstance(inner, dict) else {}
    return table, last
