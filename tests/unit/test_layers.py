"""Imports point down through LAYERS, and never in a circle.

Imports inside functions count. Those for types count only for circles.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PURE = tuple(
    f"mobilerl.algorithms.{name}" for name in ("advantages", "losses", "rewards", "values", "checks", "shares")
)
LAYERS = (
    ("mobilerl.cli",),
    ("mobilerl.benchmarks", "mobilerl.adapters", "mobilerl.api", "mobilerl.doctor", "mobilerl.viewer"),
    ("mobilerl.reachagent",),
    ("mobilerl.sft",),
    ("mobilerl.training",),
    ("mobilerl.suites",),
    ("mobilerl.eval",),
    ("mobilerl.rollout", "mobilerl.algorithms"),
    ("mobilerl.judge", "mobilerl.engines"),
    PURE,
    ("mobilerl.inference",),
    ("mobilerl.models", "mobilerl.policy"),
    ("mobilerl.records",),
    ("mobilerl.config",),
    ("mobilerl.envs",),
)
"""Highest first. Modules of one layer may import each other only where the test for circles allows it."""


def modules() -> dict[str, Path]:
    found = {}
    for top in ("mobilerl", "mobilerl/envs", "mobilerl/sft"):  # rglob does not follow links
        for path in (ROOT / top).rglob("*.py"):
            if path.name == "__main__.py":  # a command
                continue
            found[".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")] = path
    return found


def imported(path: Path, known: set[str], types: bool) -> Iterator[str]:
    """Names of the `known` modules that a file imports; those that it imports only for `types` if asked for."""

    def visit(node: ast.AST) -> Iterator[str]:
        for child in ast.iter_child_nodes(node):
            if not types and isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
                continue
            if isinstance(child, ast.Import):
                yield from (alias.name for alias in child.names)
            elif isinstance(child, ast.ImportFrom) and child.module:
                for alias in child.names:
                    full = f"{child.module}.{alias.name}"
                    yield full if full in known else child.module
            else:
                yield from visit(child)

    return (name for name in visit(ast.parse(path.read_text())) if name in known)


def layer(module: str) -> int | None:
    """That of the longest prefix; None for modules that any layer may use."""
    named = {prefix: level for level, prefixes in enumerate(LAYERS) for prefix in prefixes}
    matching = [prefix for prefix in named if module == prefix or module.startswith(f"{prefix}.")]
    return named[max(matching, key=len)] if matching else None


def test_no_import_points_up() -> None:
    known = modules()
    wrong = [
        f"{name} imports {other}"
        for name, path in known.items()
        for other in imported(path, set(known), types=False)
        if (a := layer(name)) is not None and (b := layer(other)) is not None and b < a
    ]
    assert not wrong, "\n".join(sorted(set(wrong)))


def test_modules_do_not_import_each_other_in_a_circle() -> None:
    known = modules()
    graph = {name: set(imported(path, set(known), types=True)) - {name} for name, path in known.items()}
    done: set[str] = set()
    path: list[str] = []

    def visit(name: str) -> None:
        if name in path:
            raise AssertionError(" -> ".join([*path[path.index(name) :], name]))
        if name not in done:
            path.append(name)
            for other in sorted(graph[name]):
                visit(other)
            path.pop()
            done.add(name)

    for name in sorted(graph):
        visit(name)
