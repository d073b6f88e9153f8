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


def check_screenshots(model: str | Path, agent: AgentSection) -> None:
    """Raises ConfigError for screenshots in the prompts of a text model. `model` is a checkpoint folder."""
    file = source(model, "config.json") / "config.json"
    try:
        config = json.loads(file.read_text())
    except (OSError, ValueError, RecursionError):  # reported where the file is needed
        return
    if agent.screenshots and isinstance(config, dict) and is_text_model(config):
        raise ConfigError(
            f"agent.screenshots = {agent.screenshots}, but {file} has no vision_config, so the model reads text only: "
            "set it to 0, or take a vision-language model"
        )
