"""What the conversions of all sources share: features, points, and steps up to the first that fails."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol, TypeVar

from envs.base import COORD_MAX
from mobilerl.agent.defuse import encodable
from sft.sources.report import Counts, Reject
from sft.sources.schema import Demonstration, RecordedStep

T = TypeVar("T")


class Wanted(Protocol):
    def __call__(self, key: str, split: str = "") -> bool:
        """Whether the episode of this key is of the split being read; `split`: of sources that know it themselves."""


class Reader(Protocol):
    """One data format."""

    def files(self, path: Path) -> list[Path]:
        """What `read` is called with, in a fixed order. Raises ValueError when there is none."""

    def check(self, file: Path) -> None:
        """Raises ValueError when nothing in `file` can be read as this format."""

    def read(self, file: Path, wanted: Wanted, counts: Counts) -> Iterable[Demonstration]:
        """The episodes that are wanted. Faults are counted, never raised."""


def attempt(counts: Counts, convert: Callable[..., T], *args: Any) -> T | None:
    """The converted episode; None, counted, when it is rejected."""
    try:
        return convert(*args)
    except Reject as reason:
        counts.reject_episode(str(reason))
        return None


def up_to_fault(makers: Iterable[Callable[[], RecordedStep]]) -> tuple[tuple[RecordedStep, ...], str, int]:
    """Steps until one is rejected, the reason, and how many came after it."""
    makers, steps = list(makers), []
    for made, make in enumerate(makers, start=1):
        try:
            steps.append(make())
        except Reject as reason:
            return tuple(steps), str(reason), len(makers) - made
    return tuple(steps), "", 0


def relative(value: Any, size: float) -> int:
    """A coordinate of a screen that is `size` wide (or high) in 0-999. Raises Reject unless it is on the screen."""
    finite = isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))
    if isinstance(value, bool) or not finite:
        raise Reject("coordinate is not a number")
    if not 0 <= value <= size:
        raise Reject("coordinate outside the screen")
    return round(value * COORD_MAX / size)


def text_of(value: Any, what: str) -> str:
    """Bytes as text. Raises Reject unless they are UTF-8 and say something."""
    if isinstance(value, bytes):
        try:
            value = value.decode("utf-8")
        except UnicodeDecodeError:
            raise Reject(f"{what} is not UTF-8") from None
    if not isinstance(value, str) or not value.strip():
        raise Reject(f"{what} is empty")
    if encodable(value) != value:  # JSON can name what no tokenizer takes
        raise Reject(f"{what} is not UTF-8")
    return value.strip()


def column(features: dict[str, list[Any]], name: str, kind: type, length: int | None = None) -> list[Any]:
    """The values of a feature. Raises Reject when it is missing, of another type or (if given) of another length."""
    values = features.get(name, [])
    if not values or not all(isinstance(v, kind) for v in values):
        raise Reject(f"feature {name} is missing or of another type")
    if length is not None and len(values) != length:
        raise Reject(f"feature {name} has the wrong number of values")
    return values
