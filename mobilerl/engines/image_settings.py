"""What a checkpoint's folder says of its pictures. Imports no transformers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mobilerl.config import ConfigError

MAX_PIXELS = "mobilerl_max_pixels"
"""Where an image processor's file says what `engine.max_pixels` was in training."""


def image_settings(path: Path) -> dict[str, Any] | None:
    """What a checkpoint's folder says of its image processor, if it does. Raises ConfigError for what is no JSON."""
    for name in ("preprocessor_config.json", "processor_config.json"):
        if (path / name).is_file():
            return _read(path / name)
    return None


def _read(file: Path) -> dict[str, Any]:
    try:
        settings = json.loads(file.read_text())
        settings = settings.get("image_processor", settings)
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        raise ConfigError(f"{file} cannot be read ({error}); take that of the model the weights are from") from None
    return settings
