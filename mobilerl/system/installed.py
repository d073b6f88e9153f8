"""Whether a package is installed, without importing it."""

from __future__ import annotations

from importlib import util


def is_installed(package: str) -> bool:
    """False also for a mere folder of that name in the current one, which Python takes for a package without files:
    docker/ of a clone, or wandb/ with offline runs."""
    spec = util.find_spec(package)
    return spec is not None and spec.origin is not None
