"""Imports what a section names in its code: its algorithm, or the module of its suite."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from mobilerl.config.flags import ConfigError


def load_named(name: str, where: str) -> Any:
    """The module, or with `module:attribute` what is in it. `where` is the field with the name, for messages.

    Raises ConfigError if there is none of that name, and ModuleNotFoundError for a package that the module needs.
    """
    module, _, attribute = name.partition(":")
    try:
        found = import_module(module)
        return getattr(found, attribute) if attribute else found
    except ModuleNotFoundError as error:
        if not f"{module}.".startswith(f"{error.name}."):
            raise
        reason = str(error)
    except AttributeError:
        reason = f"{module} has no {attribute!r}"
    raise ConfigError(
        f"{where} = {name!r} cannot be imported ({reason}): correct the name, or install its package here"
    )
