"""The cache of patches never returns another image's patches and never grows beyond its limit."""

from __future__ import annotations

import numpy as np

from mobilerl.models import images as module
from mobilerl.models.images import Images


class Counting(Images):
    cuts = 0

    def _cut(self, png):
        """Patches that identify the image."""
        self.cuts += 1
        number = int(png)
        size = 1100 if number == 9 else 400
        return np.full((size, 1, 1), number, np.uint8), np.array([1, size, 1])


def test_the_most_recently_used_patches_are_kept_up_to_the_limit(monkeypatch):
    monkeypatch.setattr(module, "CACHE_BYTES", 1000)
    images = Counting(processor=None, max_pixels=None)
    # Two images of 400 bytes fit; image 9 is larger than the cache.
    for number, computed in ((1, True), (2, True), (1, False), (3, True), (1, False), (2, True), (9, True), (9, False)):
        before = images.cuts
        patches, _ = images.patches(b"%d" % number)
        assert set(patches.flatten()) == {number}
        assert (images.cuts > before) == computed
