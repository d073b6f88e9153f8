"""What installs a module that could not be imported."""

from __future__ import annotations

import re

from mobilerl.doctor.packages import TORCH_FIRST, requirements

PACKAGE_OF = {"yaml": "pyyaml", "PIL": "pillow"}
"""Modules that are not called as their package is."""


def installs(module: str | None) -> str:
    """A command for the extra that brings the module; "" for one that mobilerl does not ask for.

    The extra is the first of pyproject.toml that names the package itself.
    """
    top = (module or "").partition(".")[0]
    package = PACKAGE_OF.get(top, top).lower().replace("_", "-")
    for extra, lines in requirements().items():
        if package in (re.split(r"[\s\[<>=!~;]", line, maxsplit=1)[0].lower().replace("_", "-") for line in lines):
            whole = f"pip install 'mobilerl[{extra}]'" if extra else "pip install mobilerl"
            return f"pip install {TORCH_FIRST}, then {whole}" if package == "torch" else whole
    return ""
