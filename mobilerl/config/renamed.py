"""Settings that had other names, or that are gone: what to do now, and the recipes of runs that have them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
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
REMOVED = {
    "dpo.enabled": ((), "dpo.epochs = 0 runs no DPO"),
    "engine.generate_threads": ((0, 1), "a tiny model samples with one CPU thread, others with engine.threads"),
    "fleet.adb_port": ((5555, 5556), "the image says it: EXPOSE 5555, or 5556"),
    "judge.api_key_env": (("OPENAI_API_KEY",), "the key is read from OPENAI_API_KEY"),
    "judge.max_tokens": ((512, 4096), "a response of the judge may have 4096 tokens"),
    "judge.timeout_s": ((120.0,), "a request to the judge may take 120 s"),
    "judge.votes": ((1,), "one response decides"),
    "pages.walks": ((1000,), "navigation tasks come from 1000 random walks in an app"),
    "phone.density": ((None,), "it follows from phone.width and phone.height; `wm density` changes it on a phone"),
    "rollout.max_retries": ((3,), "an episode is repeated three times after device failures"),
    "suite.free_reward": ((False,), "tasks that are solved from the start teach nothing, and are left out"),
    "suite.seed": ((1000,), "AndroidWorld's training tasks are those of seed 1000"),
    "tracking.alerts": ((True, False), "wandb sends alerts if your account there asks for them"),
    "tracking.trackio": ((False,), "use tracking.wandb or tracking.tensorboard"),
    "train.max_skipped_steps": ((3,), "three skipped optimizer steps in a row end the training"),
    "vllm.timeout_s": ((600.0, 1800.0), "vLLM's starts, updates and requests may take 1800 s"),
}
"""Settings that are gone: the values with which a saved run goes on as before, and what holds now."""
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


def why_gone(name: str) -> str | None:
    """What holds instead of a setting of the dotted `name`, or of its section, that is gone; None for other names."""
    gone = next((REMOVED[part] for part in (name, name.partition(".")[0]) if part in REMOVED), None)
    return gone and f"it was removed, leave it out: {gone[1]}"


def modern_tables(tables: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """A run's saved recipe with the new names of settings, so that it can be resumed.

    A setting that is gone is left out if the run had the value that holds now. `known` are the settings that exist, as
    a package's section may have one of the same name.
    """
    modern = deepcopy(dict(tables))
    for old, new in RENAMED.items():
        _move(modern, old, new)
    if isinstance(dpo := modern.get("dpo"), dict) and dpo.pop("enabled", True) is False:
        dpo["epochs"] = 0
    engine = modern.get("engine")
    if isinstance(engine, dict) and "inference" in engine:
        sampler = engine.pop("inference")
        if engine.get("type") != OWN_SAMPLER:
            engine["type"] = sampler
    for name in REMOVED.keys() - known:
        table, last = _table(modern, name)
        if last in table and table[last] in REMOVED[name][0]:
            del table[last]
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
