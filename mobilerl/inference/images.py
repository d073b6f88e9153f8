"""Screenshots in messages to an OpenAI-compatible server."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from PIL import Image

if TYPE_CHECKING:
    from mobilerl.policy.actor import Messages


def with_images(messages: Messages, images: Sequence[bytes], max_pixels: int | None = None) -> list[dict[str, Any]]:
    """Converts messages to OpenAI's format: each image part becomes a data URL of the next PNG, scaled down if it has
    more than `max_pixels`. A message without images becomes a string, which all servers accept for all roles."""
    left = iter(images)
    return [{**m, "content": _content(m["content"], left, max_pixels)} for m in messages]


def _content(parts: Sequence[dict[str, Any]], left: Iterator[bytes], max_pixels: int | None) -> Any:
    if not any(part["type"] == "image" for part in parts):
        return "".join(part["text"] for part in parts)
    return [image_part(next(left), max_pixels) if part["type"] == "image" else part for part in parts]


def image_part(png: bytes, max_pixels: int | None = None) -> dict[str, Any]:
    """Image part of a message, as a data URL."""
    data = base64.b64encode(png if max_pixels is None else shrunk(png, max_pixels)).decode("ascii")
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}


def shrunk(png: bytes, max_pixels: int) -> bytes:
    """Scales an image down to at most `max_pixels`, keeping its aspect ratio; returns it unchanged if small enough."""
    image = Image.open(io.BytesIO(png))
    size = shrunk_size(image.width, image.height, max_pixels)
    if size == image.size:
        return png
    data = io.BytesIO()
    image.convert("RGB").resize(size, Image.Resampling.LANCZOS).save(data, "PNG", compress_level=1)
    return data.getvalue()


def shrunk_size(width: int, height: int, max_pixels: int | None) -> tuple[int, int]:
    """Width and height that `shrunk` gives an image."""
    scale = math.sqrt(max_pixels / (width * height)) if max_pixels else 1.0
    return (width, height) if scale >= 1 else (max(1, int(width * scale)), max(1, int(height * scale)))


def blank() -> bytes:
    """A gray square PNG, to test whether a server accepts images."""
    data = io.BytesIO()
    Image.new("RGB", (64, 64), "gray").save(data, "PNG")
    return data.getvalue()
