"""The codec's cache of pixels never returns another picture's pixels and never grows beyond its limit."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from mobilerl.models import codec as module
from mobilerl.models.codec import Codec


class Tokenizer(SimpleNamespace):
    def __len__(self):
        return 1


class Processor:
    merge_size = 1
    calls = 0

    def __call__(self, images, return_tensors):
        """Pixels that identify the picture."""
        self.calls += 1
        number = int(images[0])
        size = 1100 if number == 9 else 100
        return {"pixel_values": np.full((size, 1), number, np.float64), "image_grid_thw": np.array([[1, size, 1]])}


def test_the_most_recently_used_pixels_are_kept_up_to_the_limit(monkeypatch):
    monkeypatch.setattr(module, "PIXEL_CACHE_BYTES", 1000)
    config = SimpleNamespace(image_token_id=1, get_text_config=lambda: SimpleNamespace(vocab_size=0))
    processor = Processor()
    codec = Codec(Tokenizer(eos_token_id=0, pad_token_id=0, added_tokens_decoder={}), processor, config)
    codec._reduced = lambda png: png
    # Two pictures of 400 bytes fit; picture 9 is larger than the cache.
    for number, computed in ((1, True), (2, True), (1, False), (3, True), (1, False), (2, True), (9, True), (9, False)):
        before = processor.calls
        patches, _ = codec.pixels(b"%d" % number)
        assert set(patches.flatten()) == {number}
        assert (processor.calls > before) == computed
