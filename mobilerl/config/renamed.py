"""Settings that had other names before. Old names are still understood, with a line that says the new one."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
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
    if name in RENAMED:
        return RENAMED[name]
    return f"{RENAMED[section]}.{rest}" if dot and section in RENAMED else None


def modern_flags(words: Sequence[str]) -> list[str]:
    """Command-line words with the new names of settings."""
    modern = []
    for word in words:
        flag, sign, value = word.partition("=")
        if flag.startswith("--") and (new := new_name(flag[2:])):
            _say(flag, f"--{new}")
            word = f"--{new}{sign}{value}"
        modern.append(word)
    return _with_engine(modern)


def modern_tables(tables: Mapping[str, Any], where: str = "") -> dict[str, Any]:
    """The content of a recipe with the new names of settings. `where` is the file to name, if any."""
    modern = deepcopy(dict(tables))
    for old, new in RENAMED.items():
        if _move(modern, old, new) and where:
            _say(f"{where}: {old}", new)
    engine = modern.get("engine")
    if isinstance(engine, dict) and "inference" in engine:
        sampler = engine.pop("inference")
        if engine.get("type") != OWN_SAMPLER:
            engine["type"] = sampler
        if where:
            _say(f"{where}: {SAMPLER}", ENGINE)
    return modern


def _move(tables: dict[str, Any], old: str, new: str) -> bool:
    """Moves a value to its new place, unless there is one; whether it did."""
    source, last = _table(tables, old)
    if last not in source:
        return False
    target, name = _table(tables, new, make=True)
    if name in target:
        return False
    target[name] = source.pop(last)
    return True


def _table(tables: dict[str, Any], name: str, make: bool = False) -> tuple[dict[str, Any], str]:
    """The table that holds the setting of a dotted name, and its key there; an empty one if there is none."""
    *way, last = name.split(".")
    table = tables
    for key in way:
        inner = table.setdefault(key, {}) if make else table.get(key)
        table = inner if isinstance(inner, dict) else {}
    return table, last


def _with_engine(words: list[str]) -> list[str]:
    """Words whose sampler of an engine, which has no flag now, is the engine itself."""
    if not any(word.partition("=")[0] == f"--{SAMPLER}" for word in words):
        return words
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for name in (SAMPLER, ENGINE):
        parser.add_argument(f"--{name}", dest=name, nargs="?")
    given, others = parser.parse_known_args(words)
    engine, sampler = vars(given)[ENGINE], vars(given)[SAMPLER]
    _say(f"--{SAMPLER}", f"--{ENGINE}")
    return [*others, f"--{ENGINE}={engine if engine == OWN_SAMPLER else sampler}"]


def _say(old: str, new: str) -> None:
    print(f"{old} is called {new} now", file=sys.stderr)
