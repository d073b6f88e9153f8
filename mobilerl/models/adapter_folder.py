"""The settings of LoRA adapters and their base models. Imports neither torch nor transformers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mobilerl.config import ConfigError
from mobilerl.models.hub_names import hub_id_of, is_hub_id

ADAPTER_FILE = "adapter_config.json"
ADAPTER_WEIGHTS = "adapter_model.safetensors"
BASE = "base_model_name_or_path"
"""Field of `ADAPTER_FILE` with the folder or the Hub id of the base model."""


def is_adapter(folder: str | Path) -> bool:
    return (Path(folder) / ADAPTER_FILE).is_file()


def read_adapter(folder: str | Path) -> dict[str, Any]:
    """The adapter's settings. Raises ConfigError if the file is damaged, or scales the adapter by zero."""
    file = Path(folder) / ADAPTER_FILE
    try:
        settings = json.loads(file.read_text())
        if not isinstance(settings, dict):
            raise ValueError("not an object")
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{file} is damaged: {error}") from None
    alpha = settings.get("lora_alpha", 1)
    if not isinstance(alpha, int | float) or not alpha:
        raise ConfigError(
            f"{file}: lora_alpha is {json.dumps(alpha)}, with which the adapter does not change its base model "
            f"{settings.get(BASE)} and cannot learn: set it to the value of the adapter's training (often r or 2 x r)"
        )
    return settings


def adapter_base(folder: str | Path) -> str:
    """An adapter's base model: the absolute path of its folder, or its Hub id. Raises ConfigError if it is unknown.

    A relative path is relative to the adapter's folder or, as in PEFT, to the working directory. A folder of a Hub
    cache that is gone becomes the Hub id.
    """
    folder = Path(folder)
    name, where = read_adapter(folder).get(BASE), f"{folder / ADAPTER_FILE}: {BASE}"
    fix = "set it to the folder or Hub id (ORG/NAME) of the base model that the adapter was trained on"
    if not isinstance(name, str) or not name:
        raise ConfigError(f"{where} names no base model, and an adapter is only a part of one: {fix}")
    for base in (folder / name, Path(name)):
        if (base / ADAPTER_FILE).is_file():
            raise ConfigError(f"{where} is {name}, which is an adapter and no base model: {fix}")
        if base.is_dir():
            return str(base.resolve())
    if model := hub_id_of(name) or (name if is_hub_id(name) else None):
        return model
    raise ConfigError(f"{where} is {name}, and there is no such base model here: if it has moved, {fix}")
