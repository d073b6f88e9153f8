"""Fuzz targets: a strategy of hostile examples, and a check that must hold for each of them.

The search is not guided by coverage; the strategies start from valid inputs and damage them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis.strategies import SearchStrategy


@dataclass(frozen=True)
class Target:
    """`check(example)` raises for an example that is handled wrongly."""

    name: str
    examples: SearchStrategy[Any]
    check: Callable[[Any], None]
