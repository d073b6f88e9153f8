"""Causal language models, which read a screen as text. Imports neither torch nor transformers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mobilerl.config import AgentSection, ConfigError
from mobilerl.models.hub import source

TEXT_TYPES = ("llama", "qwen2", "qwen3")
"""`model_type` in config.json of the language models whose attention `mobilerl.models.attention` computes."""
FULL = "full_attention"
"""The kind of layers that rows can be packed for."""


def is_text_model(config: Any) -> bool:
    """Whether a model has no vision tower, by its config.json or transformers' config."""
    vision = config.get("vision_config") if isinstance(config, Mapping) else getattr(config, "vision_config", None)
    return vision is None


def is_supported(config: Any) -> bool:
    """Whether a text model, by transformers' config, can be sampled from and trained here."""
    layers = getattr(config, "layer_types", None) or (FULL,)
    return config.model_type in TEXT_TYPES and set(layers) == {FULL}


def holds_text_model(folder: str | Path) -> bool:
    """Whether a checkpoint folder holds a supported text model. Anything else is reported where it is loaded."""
    try:
        config = json.loads((source(folder, "config.json") / "config.json").read_text())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(config, dict) and config.get("model_type") in TEXT_TYPES and is_text_model(config)


def check_screenshots(folder: str | Path, agent: AgentSection) -> None:
    """Raises ConfigError for screenshots in the prompts of a text model."""
    if agent.screenshots and holds_text_model(folder):
        raise ConfigError(
            f"agent.screenshots = {agent.screenshots}, but {folder} reads text only (its config.json has no "
            "vision_config): set it to 0, or take a vision-language model"
        )
