"""Actions in one fixed form (a kind, two points, a text), for libraries that need a fixed action space."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mobilerl.envs.base import ACTION_TYPES, COORD_MAX, Action, Task

KINDS: tuple[str, ...] = tuple(kind for kind in ACTION_TYPES if kind != "invalid")
COORDINATES = ("x", "y", "x2", "y2")


def flat_action(kind: str, x: int = 0, y: int = 0, x2: int = 0, y2: int = 0, text: str = "") -> Action:
    """Makes the action of `kind` from the arguments that it uses. `text` is the text to type, app to open or answer.

    Raises ValueError for an unknown kind or a coordinate outside 0-999.
    """
    if kind not in KINDS:
        raise ValueError(f"action kind is {kind!r}; choose one of {', '.join(KINDS)}")
    if not all(0 <= v <= COORD_MAX for v in (x, y, x2, y2)):
        raise ValueError(f"action coordinates are {(x, y, x2, y2)}; each must be within 0-{COORD_MAX}")
    given: dict[str, Any] = {"x": x, "y": y, "x2": x2, "y2": y2, "text": text, "app": text, "message": text}
    cls = ACTION_TYPES[kind]
    return cls(**{name: value for name, value in given.items() if name in cls.__dataclass_fields__})


def select_task(splits: Mapping[str, Sequence[Task]], split: str, seed: int, index: int | None) -> Task:
    """Task `index` of a split, or one that depends on `seed`. Raises ValueError if there is none."""
    tasks = splits.get(split, ())
    index = seed % max(1, len(tasks)) if index is None else index
    if not 0 <= index < len(tasks):
        sizes = ", ".join(f"{len(of)} in {name!r}" for name, of in splits.items())
        raise ValueError(f"there is no task {index} in {split!r}: there are {sizes}, numbered from 0")
    return tasks[index]
