"""All task templates by name."""

from __future__ import annotations

from envs.phone.tasks import notes
from envs.phone.tasks.base import Template

TEMPLATES: dict[str, type[Template]] = {cls.__name__: cls for module in (notes,) for cls in module.TEMPLATES}
