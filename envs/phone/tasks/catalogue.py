"""All task templates by name."""

from __future__ import annotations

from envs.phone.tasks import (
    calculator,
    calendar_app,
    clock,
    contacts,
    files,
    maps,
    messages,
    music,
    notes,
    settings,
    settings_names,
    shop,
    todo,
)
from envs.phone.tasks.base import Template

_MODULES = (
    settings,
    settings_names,
    contacts,
    messages,
    notes,
    calculator,
    calendar_app,
    clock,
    todo,
    files,
    shop,
    music,
    maps,
)

TEMPLATES: dict[str, type[Template]] = {cls.__name__: cls for module in _MODULES for cls in module.TEMPLATES}
