"""All task templates by name."""

from __future__ import annotations

from envs.phone.tasks import calculator, calendar_app, clock, notes, todo
from envs.phone.tasks.base import Template

_MODULES = (notes, calculator, calendar_app, clock, todo)

TEMPLATES: dict[str, type[Template]] = {cls.__name__: cls for module in _MODULES for cls in module.TEMPLATES}
