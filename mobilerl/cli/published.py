"""What a model card publishes of settings and protocols: what describes learning, and nothing of the machines.

Text that a user writes (paths, addresses, names) is left out unless it is listed here; numbers and choices cannot give
anything away.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, get_args

from pydantic import BaseModel

from mobilerl.config import Recipe

SECTIONS = (
    *("suite", "phone", "agent", "engine", "sft", "pages", "dpo"),
    *("tasks", "rollout", "algorithm", "train", "eval", "judge"),
)
"""Sections of a recipe that describe learning. [fleet], [cluster], [vllm] and [tracking] describe where it ran."""
TEXTS = ("tasks.templates", "judge.model")
"""Settings with text that are published."""
PROTOCOL_TEXTS = frozenset(
    """mobilerl agent agent.format agent.grounding agent.layout agent.screen_style sampling split parts tasks templates
    step_budget budgets_sha256 file_sha256 leak_guard screen languages fleet reset start success screens_and_actions
    androidworld_commit settle androidlab_commit tasks_of_benchmark mode equal_actions date location type_action
    mobilegym_commit actions answers screenshot
    judge_trees judge.model judge.prompt_hash judge.sampling judge.examples judge.unfinished""".split()
)
"""Keys of a protocol whose text is published."""


def settings(recipe: Recipe) -> dict[str, Any]:
    """The published settings that differ from the defaults, by dotted name, as JSON values."""
    mine, defaults = (dict(_of(r, "")) for r in (recipe, Recipe()))
    return {name: value for name, value in mine.items() if name not in defaults or defaults[name] != value}


def protocol(values: Mapping[str, Any]) -> dict[str, Any]:
    """The published part of a protocol."""
    return {key: value for key, value in values.items() if key in PROTOCOL_TEXTS or not _has_text(value)}


def _of(section: BaseModel, prefix: str) -> Iterator[tuple[str, Any]]:
    for field, info in type(section).model_fields.items():
        name, value = prefix + field, getattr(section, field)
        if not prefix and field not in SECTIONS:
            continue
        if isinstance(value, BaseModel):
            yield from _of(value, f"{name}.")
        elif isinstance(value, tuple) and value and isinstance(value[0], BaseModel):
            inner = f"{name}."
            yield name, [{key.removeprefix(inner): item for key, item in _of(entry, inner)} for entry in value]
        elif name in TEXTS or not _is_text(info.annotation):
            yield name, list(value) if isinstance(value, tuple) else value


def _is_text(annotation: Any) -> bool:
    """Whether a type has free text, unlike a choice of words."""
    return annotation is str or any(map(_is_text, get_args(annotation)))


def _has_text(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(map(_has_text, value.values()))
    return isinstance(value, str) or (isinstance(value, list) and any(map(_has_text, value)))
