"""Settings that had other names before: an old name is refused with the new one."""

from __future__ import annotations

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
