"""Checks of a checkpoint's files that load no weights."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

from mobilerl.config import ConfigError


def check_files(folder: Path) -> None:
    """Raises ConfigError unless its config is a vision-language model's and its weights are whole."""
    try:
        if not (folder / "adapter_config.json").is_file() and "vision_config" not in _config(folder):
            raise ValueError("config.json has no vision_config")
        for path in sorted(folder.glob("*.safetensors")):
            _check_weights(path)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, struct.error) as error:
        raise _unreadable(folder, error) from None


def vocabulary_size(folder: Path) -> int:
    """Number of token ids of the model. Raises ConfigError when the config does not say."""
    try:
        config = _config(folder)
        return (config.get("text_config") or config)["vocab_size"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise _unreadable(folder, error) from None


def _config(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "config.json").read_text())


def _check_weights(path: Path) -> None:
    """Compares the size of a *.safetensors file with the one its header gives."""
    size = path.stat().st_size
    with path.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        if length > size:
            raise ValueError(f"{path.name} is cut short")
        tensors = json.loads(file.read(length))
    tensors.pop("__metadata__", None)
    expected = 8 + length + max((t["data_offsets"][1] for t in tensors.values()), default=0)
    if size < expected:
        raise ValueError(f"{path.name} has {size} of {expected} bytes")


def _unreadable(folder: Path, error: Exception) -> ConfigError:
    reason = f"{type(error).__name__}: {' '.join(str(error).split())[:150]}"
    return ConfigError(f"{folder} cannot be read as a vision-language checkpoint ({reason})")
