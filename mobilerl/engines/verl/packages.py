"""Are the packages this engine drives there, and of versions it knows? Asked before any of them is imported."""

from __future__ import annotations

import os
import warnings
from importlib.metadata import PackageNotFoundError, version

from mobilerl.config import ConfigError

TESTED = {"verl": "0.9.", "ray": "2.", "vllm": "0."}
"""Versions this engine was written for, by their beginning."""


def check_packages() -> None:
    """Raises ConfigError when verl, vLLM or Ray is missing, or of a version this engine does not know."""
    # verl warns of every other training back end that is not installed; vLLM reports all that it finds.
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    warnings.filterwarnings("ignore", message=".* engine is not available", module="verl")
    for name, beginning in TESTED.items():
        try:
            found = version(name)
        except PackageNotFoundError:
            raise ConfigError(
                f'engine.type = "verl" needs {name}: pip install "mobilerl[verl]", or engine.type = "local"'
            ) from None
        if not found.startswith(beginning):
            cure = 'pip install "mobilerl[verl]"'
            raise ConfigError(f"{name} {found} is installed but this engine needs {beginning}x: {cure}")
