"""Conversions shared by all sources: features, coordinates, texts, images, and steps up to the first fault."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol, TypeVar

from PIL import Image

from mobilerl.envs.base import COORD_MAX
from mobilerl.envs.device import IMAGE_ERRORS, MOST_PIXELS, PNG_SIGNATURE
from mobilerl.policy.sanitize import encodable
from mobilerl.sft.sources.report import Counts, Reject
from mobilerl.sft.sources.schema import Demonstration, RecordedStep

T = TypeVar("T")
FORMATS = ("PNG", "JPEG", "WEBP")
"""Accepted image formats; Pillow's other decoders are less robust against damaged files."""
MAX_ASPECT = 200
"""Aspect ratio from which the models' image processors reject an image."""


class Wanted(Protocol):
    def __call__(self, key: str, split: str = "", /) -> bool:
        """Whether the episode with this key is in the requested split. `split`: as stated by the source itself."""


class Reader(Protocol):
    """One data format."""

    NAME: str

    def files(self, path: Path) -> list[Path]:
        """Arguments for `read`, in a fixed order. Raises ValueError if there are none."""

    def read(self, file: Path, wanted: Wanted, counts: Counts) -> Iterable[Demonstration]:
        """Yields the wanted episodes. Faults are counted, never raised."""


def attempt(counts: Counts, convert: Callable[..., T], *args: Any) -> T | None:
    """Returns the converted episode, or None if it is rejected, which is counted."""
    try:
        return convert(*args)
    except Reject as reason:
        counts.rejected_episodes[str(reason)] += 1
        return None


def up_to_fault(makers: Iterable[Callable[[], RecordedStep]]) -> tuple[tuple[RecordedStep, ...], str, int]:
    """The steps before the first rejected one, the reason of the rejection, and the number of steps after it."""
    makers, steps = list(makers), []
    for made, make in enumerate(makers, start=1):
        try:
            steps.append(make())
        except Reject as reason:
            return tuple(steps), str(reason), len(makers) - made
    return tuple(steps), "", 0


def relative(value: Any, size: float) -> int:
    """Converts a coordinate to 0-999 on a screen of this width or height. Raises Reject for one off the screen."""
    finite = isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))
    if isinstance(value, bool) or not finite:
        raise Reject("coordinate is not a number")
    if not 0 <= value <= size:
        raise Reject("coordinate outside the screen")
    return round(value * COORD_MAX / size)


def text_of(value: Any, name: str) -> str:
    """A non-empty text without surrounding whitespace. Raises Reject for anything else."""
    if isinstance(value, bytes):
        try:
            value = value.decode("utf-8")
        except UnicodeDecodeError:
            raise Reject(f"{name} is not UTF-8") from None
    if not isinstance(value, str) or not value.strip():
        raise Reject(f"{name} is empty")
    if encodable(value) != value:  # JSON can contain lone surrogates
        raise Reject(f"{name} is not UTF-8")
    return value.strip()


def column(features: dict[str, list[Any]], name: str, kind: type, length: int | None = None) -> list[Any]:
    """The values of a feature. Raises Reject if they are missing, or of another type or number."""
    values = features.get(name, [])
    if not values or not all(isinstance(v, kind) for v in values):
        raise Reject(f"feature {name} is missing or of another type")
    if length is not None and len(values) != length:
        raise Reject(f"feature {name} has the wrong number of values")
    return values


def checked_png(data: bytes, width: int, height: int) -> bytes:
    """Converts an image file of this size to PNG, decoding it completely to detect truncation. Raises Reject."""
    check_size(width, height)
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            if image.size != (width, height):
                raise Reject("screenshot has another size than stated")
            image.load()
            return data if data.startswith(PNG_SIGNATURE) else _as_png(image)
    except IMAGE_ERRORS:
        raise Reject("screenshot does not decode") from None


def png_of_pixels(data: bytes, width: int, height: int, channels: int) -> bytes:
    """Converts raw pixels (height x width x channels bytes) or an image file to PNG. Raises Reject."""
    check_size(width, height)
    if channels not in (3, 4) or len(data) != width * height * channels:
        return checked_png(data, width, height)
    return _as_png(Image.frombytes("RGB" if channels == 3 else "RGBA", (width, height), data))


def size_of(data: bytes) -> tuple[int, int]:
    """Width and height from the header of an image file. Raises Reject."""
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            return image.size
    except IMAGE_ERRORS:
        raise Reject("screenshot does not decode") from None


def check_size(width: int, height: int) -> None:
    """Raises Reject for sizes that image processors reject."""
    if min(width, height) <= 0 or width * height > MOST_PIXELS or max(width, height) >= MAX_ASPECT * min(width, height):
        raise Reject("screenshot has an impossible size")


def _as_png(image: Image.Image) -> bytes:
    buffer = io.BytesIO()
    image.convert("RGB").save(buffer, "PNG", compress_level=3)
    return buffer.getvalue()
