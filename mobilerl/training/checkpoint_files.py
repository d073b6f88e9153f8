"""Quick checks of a checkpoint's files, without loading weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mobilerl.config import ConfigError
from mobilerl.models.hub import source
from mobilerl.models.text_models import TEXT_TYPES, is_text_model


def check_files(folder: Path) -> None:
    """Raises ConfigError unless the folder holds a model with complete weight files."""
    from safetensors import SafetensorError, safe_open

    try:
        config = _config(folder)
        if is_text_model(config) and config.get("model_type") not in TEXT_TYPES:
            raise ValueError(f"config.json has no vision_config, and no model_type of {', '.join(TEXT_TYPES)}")
        for path in sorted(folder.glob("*.safetensors")):
            try:
                safe_open(path, "pt")  # compares the header with the size of the file
            except SafetensorError as error:
                raise ValueError(f"{path.name}: {error}") from None
    except ConfigError:
        raise
    except (OSError, ValueError, TypeError) as error:
        raise _unreadable(folder, error) from None


def vocabulary_size(folder: Path) -> int:
    """Vocabulary size of the model. Raises ConfigError if its config.json does not give one."""
    try:
        config = _config(folder)
        return (config.get("text_config") or config)["vocab_size"]
    except ConfigError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise _unreadable(folder, error) from None


def _config(folder: Path) -> dict[str, Any]:
    return json.loads((source(folder, "config.json") / "config.json").read_text())


def _unreadable(folder: Path, error: Exception) -> ConfigError:
    reason = f"{type(error).__name__}: {' '.join(str(error).split())[:150]}"
    return ConfigError(f"{folder} cannot be read as a checkpoint ({reason})")
