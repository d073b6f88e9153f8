"""Choice of a model's format: the one in the settings, or that of the published model."""

from __future__ import annotations

import json
from pathlib import Path

from mobilerl.config import AgentSection, FormatName
from mobilerl.models.adapter_folder import adapter_base, is_adapter
from mobilerl.models.hub_names import hub_id_of
from mobilerl.policy.formats import FORMATS

NAMES: tuple[tuple[str, FormatName], ...] = (
    ("mobilerl-9b", "mobilerl-9b"),
    ("ui-tars-1.5", "ui-tars-1.5"),
    ("ui-tars", "ui-tars"),
    ("gui-owl-1.5", "gui-owl-1.5"),
    ("gui-owl", "gui-owl"),
    ("mai-ui", "mai-ui"),
    ("ui-venus-1.5", "ui-venus-1.5"),
    ("ui-venus", "ui-venus"),
    ("autoglm-phone", "autoglm"),
    ("glm-4.1v", "glm-v"),
    ("glm-4.5v", "glm-4.5v"),
    ("glm-4.6v", "glm-4.5v"),  # none of its own is published
    ("qwen3-vl", "qwen3-vl"),
    ("qwen3.5", "qwen3-vl"),  # none of its own is published
    ("qwen2.5-vl", "qwen2.5-vl"),
)
"""Parts of published names, in lower case, and their formats; the first match counts."""
OURS = frozenset({"grounding", "layout", "screen_style", "history_thoughts", "random_marks"})
"""Agent settings that only mobilerl's format has; setting one of them selects that format."""


def published_name(model: str | Path) -> str:
    """Name of a model: a Hub id, the Hub id of a folder in the Hub's cache, or the name of another folder.

    A folder's name is followed by that of an adapter's base model, or by that in its config.json, which older versions
    of transformers wrote.
    """
    path = Path(model)
    if hub_id := hub_id_of(path):
        return hub_id
    if is_adapter(path):
        return f"{path.resolve().name} {published_name(adapter_base(path))}"
    try:
        config = json.loads((path / "config.json").read_text())
        said = config.get("_name_or_path") if isinstance(config, dict) else None
    except (OSError, ValueError):
        return str(model)
    return f"{path.resolve().name} {said if isinstance(said, str) else ''}"


def recognize_format(name: str) -> FormatName | None:
    """Format of the published model with this name; None for other models."""
    return next((format_ for part, format_ in NAMES if part in name.lower()), None)


def with_format(agent: AgentSection, name: str) -> AgentSection:
    """Agent settings for a published model: adds its format and the settings of its published agent.

    Settings that the user set take precedence.
    """
    found = agent.format
    if found is None and OURS.isdisjoint(agent.model_fields_set):
        found = recognize_format(name)
    if found is None:
        return agent
    defaults = {key: value for key, value in FORMATS[found].settings.items() if key not in agent.model_fields_set}
    return agent.model_copy(update={**defaults, "format": found})
