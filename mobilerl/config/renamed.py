"""Settings that had other names before. Old names are still understood, with a line that says the new one."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

RENAMED = {
    "collect": "rollout",
    "algorithm.skip_above": "algorithm.max_response_prob",
    "algorithm.replay.gamma": "algorithm.replay.fraction",
    "algorithm.loss.agg": "algorithm.loss.loss_aggregation",
    "algorithm.loss.is_cap": "algorithm.loss.tis_cap",
    "algorithm.loss.recompute_old": "algorithm.loss.recompute_old_logprobs",
}
"""Old to new names, of settings or of whole sections."""


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
            print(f"{flag} is called --{new} now", file=sys.stderr)
            word = f"--{new}{sign}{value}"
        modern.append(word)
    return modern


def modern_tables(tables: Mapping[str, Any], where: str = "") -> dict[str, Any]:
    """The content of a recipe with the new names of settings. `where` is the file to name, if any."""
    modern = deepcopy(dict(tables))
    for old, new in RENAMED.items():
        *way, last = old.split(".")
        name, table = new.rpartition(".")[2], modern
        for key in way:
            table = inner if isinstance(inner := table.get(key), dict) else {}
        if last in table and name not in table:
            table[name] = table.pop(last)
            if where:
                print(f"{where}: {old} is called {new} now", file=sys.stderr)
    return modern
