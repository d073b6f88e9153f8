"""mobilerl: online reinforcement learning for agents that use phones."""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"
_PUBLIC = {
    "Agent": "mobilerl.api",
    "PhoneEnv": "mobilerl.envs.phone.env",
    "evaluate": "mobilerl.api",
    "load_recipe": "mobilerl.config",
    "make_task": "mobilerl.envs.phone.tasks.suite",
    "train": "mobilerl.training",
}
__all__ = ["Agent", "PhoneEnv", "evaluate", "load_recipe", "make_task", "train"]  # noqa: F822 - see __getattr__


def __getattr__(name: str) -> Any:
    """Imports public names when they are first used, so that commands without a model start without torch."""
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_PUBLIC[name]), name)
