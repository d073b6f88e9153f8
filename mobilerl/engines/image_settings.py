"""What a checkpoint's folder says of its pictures. Imports no transformers: a dry run reads it too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

MAX_PIXELS = "mobilerl_max_pixels"
"""Where an image processor's file says what `engine.max_pixels` was in training."""


def image_settings(path: Path) -> dict[str, Any] | None:
    """What a checkpoint's folder says of its image processor, if it does."""
    for name in ("preprocessor_config.json", "processor_config.json"):
        if (path / name).is_file():
            settings = json.loads((path / name).read_text())
            return settings.get("image_processor", settings)
    return None
