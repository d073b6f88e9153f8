"""All task templates by name."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from types import ModuleType

from envs.phone.tasks.base import Template

MODULES = "settings contacts messages notes calculator calendar_app clock todo files shop music maps".split()
"""Modules of this folder, in the order in which their templates are listed."""


def _templates(module: ModuleType) -> Iterator[type[Template]]:
    """The templates that a module defines, in the order of its text; a leading underscore marks a base class."""
    for name, value in vars(module).items():
        if isinstance(value, type) and value.__module__ == module.__name__ and not name.startswith("_"):
            yield value


TEMPLATES: dict[str, type[Template]] = {
    cls.__name__: cls for name in MODULES for cls in _templates(import_module(f"envs.phone.tasks.{name}"))
}
