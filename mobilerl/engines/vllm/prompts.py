"""Prompts in the form in which vLLM takes them."""

from __future__ import annotations

from collections.abc import Sequence


def collapse(ids: Sequence[int], image_token_id: int) -> list[int]:
    """The prompt with one placeholder per image: vLLM repeats them itself.

    Images never touch: every family writes a token that ends one and a token that begins the next.
    """
    return [t for i, t in enumerate(ids) if t != image_token_id or i == 0 or ids[i - 1] != image_token_id]
