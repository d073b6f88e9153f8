"""Names of apps -> packages, by the table and the rule of AndroidLab's `templates/packages.py`. It is read, not run."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path

FILE = Path("templates/packages.py")
TABLE = "apps_dict"


def read_packages(checkout: Path) -> dict[str, str]:
    """The table of a checkout, in its order; empty where it has none that can be read."""
    try:
        tree = ast.parse((checkout / FILE).read_text(encoding="utf-8"))
        value = next(ast.literal_eval(node.value) for node in tree.body if _assigns_table(node))
        return {str(name): str(package) for name, package in dict(value).items()}
    except (OSError, SyntaxError, ValueError, TypeError, StopIteration):
        return {}


def find_package(name: str, packages: Mapping[str, str]) -> str:
    """The package of the app whose name is nearest to `name` in edits: AndroidLab finds `bluecoins` as `bleucoins`."""
    if name in packages:
        return packages[name]
    plain = _plain(name)
    return packages.get(plain) or packages[min(packages, key=lambda known: _edits(plain, _plain(known)))]


def _assigns_table(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == TABLE for t in node.targets)


def _plain(name: str) -> str:
    return name.replace(" ", "").lower()


def _edits(a: str, b: str) -> int:
    """Levenshtein's distance."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, start=1):
        above, row = row, [i]
        for j, y in enumerate(b, start=1):
            row.append(min(above[j] + 1, row[-1] + 1, above[j - 1] + (x != y)))
    return row[-1]
