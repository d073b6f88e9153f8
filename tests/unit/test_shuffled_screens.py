"""Screenshots of other episodes, as a control."""

from __future__ import annotations

import asyncio

from mobilerl.eval.shuffled import ShuffledScreens
from mobilerl.records.engine import Sampling


class Seen:
    def __init__(self) -> None:
        self.images = []

    async def act(self, messages, images, sampling, key=""):
        self.images.append((key, *images))


def test_prompts_get_the_screens_of_other_episodes_at_their_step():
    seen = Seen()
    policy = ShuffledScreens(seen, seed=0)
    for step in range(3):
        for key in "abcd":
            asyncio.run(policy.act([], [f"{key}{step}".encode()], Sampling(0.0, 1), key))
    assert seen.images[0] == ("a", b"a0")  # there was no other yet
    for number, (key, image) in enumerate(seen.images[1:], 1):
        owner, step = image.decode()
        assert owner != key and (int(step) == number // 4 or key == "a")
