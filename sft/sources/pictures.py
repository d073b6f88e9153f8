"""Screenshots of the data sets -> PNGs that are known to decode to the size they claim."""

from __future__ import annotations

import io
import struct
import zlib

from PIL import Image

from sft.sources.report import Reject

MOST_PIXELS = 64_000_000
_PNG = b"\x89PNG\r\n\x1a\n"
_BROKEN = (OSError, SyntaxError, ValueError, EOFError, struct.error, zlib.error, Image.DecompressionBombError)
"""What Pillow raises on damaged images."""


def checked_png(data: bytes, width: int, height: int) -> bytes:
    """`data` itself if it is a PNG, and another image format as a PNG. Raises Reject.

    The whole image is decoded: a file whose end is missing opens without complaint.
    """
    _check_size(width, height)
    try:
        with Image.open(io.BytesIO(data)) as image:
            if image.size != (width, height):
                raise Reject("screenshot has another size than stated")
            image.load()
            if data.startswith(_PNG):
                return data
            return _encoded(image.convert("RGB"))
    except _BROKEN:
        raise Reject("screenshot does not decode") from None


def png_of_pixels(data: bytes, width: int, height: int, channels: int) -> bytes:
    """A PNG of raw pixels: height x width x channels bytes. Raises Reject when it is neither that nor an image file."""
    _check_size(width, height)
    if channels not in (3, 4) or len(data) != width * height * channels:
        return checked_png(data, width, height)
    return _encoded(Image.frombytes("RGB" if channels == 3 else "RGBA", (width, height), data).convert("RGB"))


def _check_size(width: int, height: int) -> None:
    if width <= 0 or height <= 0 or width * height > MOST_PIXELS:
        raise Reject("screenshot has an impossible size")


def _encoded(image: Image.Image) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "PNG", compress_level=3)
    return buffer.getvalue()
