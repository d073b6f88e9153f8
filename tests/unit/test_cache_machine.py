"""The codec's cache of pixels: it never gives another picture's pixels, and never grows beyond its limit."""

from __future__ import annotations

import hashlib
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from mobilerl.engines import codec as module
from mobilerl.engines.codec import Codec

LIMIT = 4000
NAMES = st.sampled_from([b"%d" % i for i in range(9)])


def digest(png: bytes) -> bytes:
    return hashlib.sha256(png).digest()


class Processor:
    merge_size = 1
    made = 0

    def __call__(self, images, return_tensors):
        """float32 pixels that tell the picture apart, of sizes that differ: 40 to 4400 bytes."""
        self.made += 1
        number = int(images[0])
        size = 1100 if number == 8 else 10 * (number + 1)
        return {"pixel_values": np.full((size, 1), number, np.float64), "image_grid_thw": np.array([[1, size, 1]])}


class CacheMachine(RuleBasedStateMachine):
    @initialize()
    def start(self):
        self.processor = Processor()
        tokenizer = SimpleNamespace(eos_token_id=0, pad_token_id=0, added_tokens_decoder={}, __len__=lambda: 1)
        config = SimpleNamespace(image_token_id=1, get_text_config=lambda: SimpleNamespace(vocab_size=0))
        self.codec = Codec(_Sized(tokenizer), self.processor, config)
        self.codec._reduced = lambda png: png
        self.used: list[bytes] = []

    @rule(name=NAMES)
    def ask(self, name):
        before = self.processor.made
        fresh = digest(name) not in self.codec._pixels
        patches, grid = self.codec.pixels(name)
        assert patches.dtype == np.float32 and set(patches.flatten()) == {float(name)}
        assert list(grid) == [1, len(patches), 1]
        assert self.processor.made - before == fresh
        self.used = [n for n in self.used if n != name] + [name]

    @rule(name=NAMES)
    def made_by_two_threads_at_once(self, name):
        patches, grid = self.codec.pixels(name)
        self.codec._remember(digest(name), (patches.copy(), grid))
        self.used = [n for n in self.used if n != name] + [name]

    @invariant()
    def the_account_is_right_and_the_newest_are_kept(self):
        kept = list(self.codec._pixels)
        size = sum(32 + patches.nbytes + grid.nbytes for patches, grid in self.codec._pixels.values())
        assert self.codec._cached_bytes == size and (size <= LIMIT or len(kept) == 1)
        assert kept == [digest(name) for name in self.used[len(self.used) - len(kept) :]]


class _Sized:
    """A namespace with a length, as tokenizers have one."""

    def __init__(self, inner):
        self.__dict__.update(vars(inner))

    def __len__(self):
        return 1


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(module, "PIXEL_CACHE_BYTES", LIMIT)


TestCache = CacheMachine.TestCase
TestCache.settings = settings(max_examples=40, stateful_step_count=30)
TestCache = pytest.mark.usefixtures("small")(TestCache)
