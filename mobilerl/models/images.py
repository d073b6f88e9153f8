"""Converts PNGs to inputs of a vision tower like the checkpoints' image processors, but several times faster.

Patches are cut from 8-bit pixels, cached as such, and normalized on the device that needs them. Tests compare them with
the processors of transformers, which do all of it in floating point.
"""

from __future__ import annotations

import hashlib
import io
import os
import sys
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch.nn.functional import interpolate

from mobilerl.envs.device import open_image
from mobilerl.models.transfer import to_device
from mobilerl.system.free_memory import main_memory

THREADS = min(8, os.cpu_count() or 1)
_POOL = ThreadPoolExecutor(THREADS, "images")
"""Threads help because Pillow reads and torch resizes without the GIL. More than eight do not (docs/results.md)."""
CACHE_BYTES = max(256 * 2**20, main_memory() // 20)
"""Size of the cache of patches in bytes, three per pixel: an iteration's images are to stay for all its epochs. With
128 GB of main memory it is 6.4 GB, or 4,000 images of half a megapixel, in each process that learns."""

RESAMPLING = {Image.Resampling.BILINEAR: "bilinear", Image.Resampling.BICUBIC: "bicubic"}
"""Names of torch for the `resample` of image processors."""

Patches = tuple[np.ndarray, np.ndarray]
"""uint8 (N, channels, patch_size ** 2) in the processor's order, and grid (3,): time, height and width in patches."""


class Images:
    """Resizes images and cuts them into patches. Thread-safe. `max_pixels` None uses the processor's own limit.

    `processor` is None for a text model, which sees no image.
    """

    def __init__(self, processor: Any, max_pixels: int | None) -> None:
        self.processor, self.max_pixels = processor, max_pixels
        self._cache: OrderedDict[bytes, Patches] = OrderedDict()
        self._cached_bytes = 0
        self._lock = threading.Lock()
        """Episodes encode in the event loop's thread while sampling and training collate in others."""

    def size_seen(self, width: int, height: int) -> tuple[int, int]:
        """Height and width at which the model sees an image of this size."""
        processor = self.processor
        if processor is None:
            return height, width
        factor = self._reduction(width, height)
        height, width = -(-height // factor), -(-width // factor)
        limits = self.limits() or processor.size
        resize = sys.modules[type(processor).__module__].smart_resize
        if self._frames > 1:
            resize = partial(resize, self._frames, temporal_factor=self._frames)
        return resize(
            height,
            width,
            factor=processor.patch_size * processor.merge_size,
            min_pixels=limits["shortest_edge"],
            max_pixels=limits["longest_edge"],
        )

    def tokens(self, png: bytes) -> int:
        """Number of tokens of an image, from the header of its PNG."""
        height, width = self.size_seen(*Image.open(io.BytesIO(png), formats=("PNG",)).size)
        return height * width // (self.processor.patch_size * self.processor.merge_size) ** 2

    def scale(self, png: bytes) -> Image.Image:
        """The image at the size at which the model sees it.

        An inference engine's image processor then has nothing to resize and makes the same number of tokens.
        """
        return Image.fromarray(self._scale_pixels(png))

    def patches(self, png: bytes) -> Patches:
        name = hashlib.sha256(png).digest()  # the PNG itself as a key would be kept longer than its trajectory
        with self._lock:
            if (hit := self._cache.get(name)) is not None:
                self._cache.move_to_end(name)
                return hit
        cut = self._cut(png)
        self._remember(name, cut)
        return cut

    def prepare(self, pngs: Iterable[bytes]) -> list[Future[Patches]]:
        """Computes the `patches` of several images in threads."""
        return [_POOL.submit(self.patches, png) for png in pngs]

    def values(self, patches: Sequence[np.ndarray], device: torch.device | str | int = "cpu") -> torch.Tensor:
        """`pixel_values` of several images, float32 (N, channels x frames x patch_size ** 2), computed on `device`."""
        processor = self.processor
        scale = processor.rescale_factor if processor.do_rescale else 1.0
        mean, std = (processor.image_mean, processor.image_std) if processor.do_normalize else ([0.0], [1.0])
        mean, std = (to_device(torch.tensor(v, dtype=torch.float32), device).view(1, -1, 1) for v in (mean, std))
        _, channels, size = patches[0].shape
        lengths = [len(raw) for raw in patches]
        made = _empty((sum(lengths), channels, processor.temporal_patch_size, size), device)
        for part, raw in zip(made.split(lengths), patches, strict=True):
            part.copy_(to_device(torch.from_numpy(raw), device).float().mul_(scale / std).sub_(mean / std).unsqueeze(2))
        return made.flatten(1)

    def _scale_pixels(self, png: bytes) -> np.ndarray:
        """uint8 (H, W, 3) pixels at the size at which the model sees the image."""
        image = open_image(png)
        if image.mode != "RGB":  # converting would copy it even if it is RGB
            image = image.convert("RGB")
        height, width = self.size_seen(image.width, image.height)
        factor = self._reduction(image.width, image.height)
        small = image.reduce(factor) if factor > 1 else image
        return _resize(np.array(small), height, width, RESAMPLING[self.processor.resample])

    def _cut(self, png: bytes) -> Patches:
        pixels = self._scale_pixels(png)
        patch, merge = self.processor.patch_size, self.processor.merge_size
        rows, columns = pixels.shape[0] // patch, pixels.shape[1] // patch
        split = pixels.reshape(rows // merge, merge, patch, columns // merge, merge, patch, -1)
        ordered = np.ascontiguousarray(split.transpose(0, 3, 1, 4, 6, 2, 5))
        return ordered.reshape(rows * columns, -1, patch * patch), np.array([1, rows, columns])

    def _reduction(self, width: int, height: int) -> int:
        """Factor of a cheap box reduction that precedes bicubic resizing, which is slow on a full screen."""
        return max(1, int((width * height / self.max_pixels) ** 0.5)) if self.max_pixels else 1

    @property
    def _frames(self) -> int:
        """Number of times that the limits count a pixel: GLM repeats a still image for all frames of a patch."""
        processor = self.processor
        return processor.temporal_patch_size if type(processor).__name__.startswith("Glm") else 1

    def limits(self) -> dict[str, int]:
        """The processor's `size` with `max_pixels` (its "edges" are areas); {} without `max_pixels`."""
        if not self.max_pixels:
            return {}
        most = self.max_pixels * self._frames
        return {"shortest_edge": min(self.processor.size["shortest_edge"], most), "longest_edge": most}

    def _remember(self, name: bytes, cut: Patches) -> None:
        with self._lock:
            if name in self._cache:
                return
            self._cache[name] = cut
            self._cached_bytes += _entry_bytes(name, cut)
            while self._cached_bytes > CACHE_BYTES and len(self._cache) > 1:
                self._cached_bytes -= _entry_bytes(*self._cache.popitem(last=False))


def _resize(pixels: np.ndarray, height: int, width: int, mode: str) -> np.ndarray:
    """Resizes uint8 (H, W, channels) pixels with torch, which takes a third of Pillow's time. Few pixels are rounded
    differently, as by the processors of transformers that use torchvision."""
    image = torch.from_numpy(pixels).permute(2, 0, 1).unsqueeze(0)  # in memory still (H, W, channels)
    resized = interpolate(image, (height, width), mode=mode, antialias=True)
    return resized[0].permute(1, 2, 0).contiguous().numpy()


def _empty(shape: Sequence[int], device: torch.device | str | int) -> torch.Tensor:
    """Allocates a tensor. On the CPU this uses numpy, which asks for huge pages: four images of a megapixel are 100 MB
    of new memory, and mapping it in small pages would take most of the time."""
    if torch.device(device).type == "cpu":
        return torch.from_numpy(np.empty(shape, dtype=np.float32))
    return torch.empty(shape, device=device)


def _entry_bytes(name: bytes, cut: Patches) -> int:
    """Size of a cache entry in bytes."""
    return len(name) + cut[0].nbytes + cut[1].nbytes
