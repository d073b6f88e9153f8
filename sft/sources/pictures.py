"""Screenshots of the data sets -> PNGs that are known to decode to the size they claim."""

from __future__ import annotations

import io
import struct
import zlib

from PIL import Image

from envs.device import MOST_PIXELS, PNG_SIGNATURE
from sft.sources.report import Reject

FORMATS = ("PNG", "JPEG", "WEBP")
"""Of image files. Pillow knows many more, whose readers are less sure on damaged files."""
SLIMMEST = 200
"""Length of a picture against its width from which on the models' processors refuse it."""
_BROKEN = (OSError, SyntaxError, ValueError, EOFError, IndexError, struct.error, zlib.error,
           Image.DecompressionBombError)  # fmt: skip
"""What Pillow raises on damaged images."""


def checked_png(data: bytes, width: int, height: int) -> bytes:
    """`data` itself if it is a PNG, and another image format as a PNG. Raises Reject.

    The whole image is decoded: a file whose end is missing opens without complaint.
    """
    check_size(width, height)
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            if image.size != (width, height):
                raise Reject("screenshot has another size than stated")
            image.load()
            if data.startswith(PNG_SIGNATURE):
                return data
            return _encoded(image.convert("RGB"))
    except _BROKEN:
        raise Reject("screenshot does not decode") from None


def png_of_pixels(data: bytes, width: int, height: int, channels: int) -> bytes:
    """A PNG of raw pixels: height x width x channels bytes. Raises Reject when it is neither that nor an image file."""
    check_size(width, height)
    if channels not in (3, 4) or len(data) != width * height * channels:
        return checked_png(data, width, height)
    return _encoded(Image.frombytes("RGB" if channels == 3 else "RGBA", (width, height), data).convert("RGB"))


def size_of(data: bytes) -> tuple[int, int]:
    """Width and height that an image file states. Raises Reject."""
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            return image.size
    except _BROKEN:
        raise Reject("screenshot does not decode") from None


def check_size(width: int, height: int) -> None:
    """Raises Reject for a size that no model's processor takes."""
    if min(width, height) <= 0 or width * height > MOST_PIXELS or max(width, height) >= SLIMMEST * min(width, height):
        raise Reject("screenshot has an impossible size")


def _encoded(image: Image.Image) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "PNG", compress_level=3)
    return buffer.getvalue()
