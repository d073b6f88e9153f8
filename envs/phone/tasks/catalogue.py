"""All task templates by name.

Installed packages add theirs as entry points of the group `mobilerl.phone_tasks`, which are read when one is looked up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from operator import attrgetter
from types import ModuleType

from mobilerl.envs.phone.tasks import board
from mobilerl.envs.phone.tasks.base import Template
from mobilerl.envs.plugins import LazyDict, with_plugins

APPS = "settings contacts messages notes calculator calendar_app clock todo files shop music maps"
UNSEEN = "unseen_dev unseen_test_people unseen_test_things unseen_test_apps"
MODULES = [*APPS.split(), *UNSEEN.split()]
"""Modules of this folder, in the order in which their templates are listed."""


def _defined_in(module: ModuleType) -> Iterator[type[Template]]:
    """The templates that a module defines, in the order of its text; a leading underscore marks a base class."""
    for name, value in vars(module).items():
        if isinstance(value, type) and value.__module__ == module.__name__ and not name.startswith("_"):
            yield value


def _all() -> dict[str, type[Template]]:
    own = {
        cls.__name__: cls for name in MODULES for cls in _defined_in(import_module(f"mobilerl.envs.phone.tasks.{name}"))
    }
    return with_plugins(own, "mobilerl.phone_tasks", Template, attrgetter("__name__"))


TEMPLATES: Mapping[str, type[Template]] = LazyDict(_all)
ONLY_NAMED: Mapping[str, type[Template]] = {cls.__name__: cls for cls in _defined_in(board)}
"""Templates that are used only where `tasks.templates` or `--template` names them."""
