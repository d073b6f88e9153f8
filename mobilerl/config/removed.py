"""Settings of earlier versions, with the value that each of them has now."""

from __future__ import annotations

from typing import Any

REMOVED: dict[str, Any] = {
    "tiny.vision_hidden": 32,
    "tiny.vision_layers": 1,
    "sft.lesson_share": 0.15,
    "sft.lesson_rate": 2e-3,
    "sft.source_buffer": 256,
    "pages.phone_seed": 1,
    "pages.survey_phones": 5,
    "pages.survey_steps": 150,
    "pages.warmup": 0.02,
    "dpo.warmup": 0.02,
    "algorithm.curriculum.rest": 0.2,
    "algorithm.critic.hidden": 256,
    "algorithm.critic.batch": 256,
}


def drop_removed(data: dict[str, Any]) -> dict[str, Any]:
    """A saved recipe without them, so that its run can be resumed. ValueError for a value other than today's."""
    for name, fixed in REMOVED.items():
        *sections, field = name.split(".")
        holder: Any = data
        for section in sections:
            holder = holder.get(section) if isinstance(holder, dict) else None
        if isinstance(holder, dict) and field in holder and holder.pop(field) != fixed:
            raise ValueError(f"{name} was removed and is always {fixed!r}; resume with the version that began the run")
    return data
