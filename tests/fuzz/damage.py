"""Strategies that turn valid inputs into hostile ones: damaged bytes, texts and JSON values."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from typing import Any, TypeVar

from hypothesis import strategies as st

Text = TypeVar("Text", str, bytes)

MAX_COPIES = 2000
"""Maximum repetitions of a piece, as an attack by nesting or length."""

NUMBERS = (b"\0\0\0\0", b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", b"\0\0\0\x80", b"\x01\0\0\0", b"\0\0\x10\0")
TOKENS = (
    *("<|im_end|>", "<|image_pad|>", "<image>", "</answer>", "<7>", "\0", "\n", "\r\n", "\u2028", "\ud800", "\ufeff"),
    *("'", '"', "\\", "$(reboot)", "`reboot`", ";reboot;", "%s%n", "../../etc/passwd", "{{7*7}}"),
)


@st.composite
def _damaged(draw: st.DrawFn, seeds: Sequence[Any], pieces: st.SearchStrategy[Any]) -> Any:
    data = draw(st.sampled_from(seeds))
    for _ in range(draw(st.integers(0, 5))):
        start = draw(st.integers(0, len(data)))
        length = draw(st.sampled_from((0, 0, 1, 2, 4, 16, 256, len(data))))
        rest = data[start + length :]
        kind = draw(st.sampled_from(("insert", "drop", "repeat", "cut")))
        if kind == "insert":
            data = data[:start] + draw(pieces) + rest
        elif kind == "drop":
            data = data[:start] + rest
        elif kind == "repeat":
            piece = data[start : start + min(length, 32)]
            data = data[:start] + piece * draw(st.integers(1, MAX_COPIES)) + rest
        else:
            data = data[:start]
    return data


def damaged_bytes(seeds: Sequence[bytes], words: Sequence[bytes] = ()) -> st.SearchStrategy[bytes]:
    """`words` are pieces of the format to insert in wrong places."""
    return _damaged(list(seeds), st.sampled_from([*NUMBERS, *words]) | st.binary(max_size=8))


def damaged_text(seeds: Sequence[str], words: Sequence[str] = ()) -> st.SearchStrategy[str]:
    return _damaged(list(seeds), st.sampled_from([*TOKENS, *words]) | st.text(max_size=8))


# --- JSON --------------------------------------------------------------------------------------------------------

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(TOKENS)
    | st.sampled_from([0, -1, 1 << 63, 10**400, "", [], {}, "0" * 64])
)
VALUES = st.recursive(SCALARS, lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text(max_size=4), v, max_size=3))


@st.composite
def damaged_json(draw: st.DrawFn, seeds: Sequence[Any]) -> Any:
    """Values rather than text, with parts replaced, dropped or added; they may contain what JSON cannot represent."""
    root = [copy.deepcopy(draw(st.sampled_from(seeds)))]
    for _ in range(draw(st.integers(1, 3))):
        holder, key = root, 0
        while isinstance(inside := holder[key], dict | list) and inside and draw(st.integers(0, 4)):
            holder, key = (
                inside,
                draw(st.sampled_from(list(inside) if isinstance(inside, dict) else range(len(inside)))),
            )
        kind = draw(st.sampled_from(("replace", "replace", "drop", "add")))
        if kind == "add" and isinstance(holder, dict):
            holder[draw(st.text(max_size=6))] = holder[key]
        elif kind == "drop" and holder is not root:
            del holder[key]
        else:
            holder[key] = draw(VALUES)
    return root[0]


@st.composite
def damaged_json_text(draw: st.DrawFn, seeds: Sequence[Any]) -> str:
    """Text that usually is JSON."""
    if draw(st.integers(0, 3)):
        return json.dumps(draw(damaged_json(seeds)))
    return draw(damaged_text([json.dumps(seed) for seed in seeds], ["[" * 50_000, '{"a":' * 50_000, "NaN", "1e999"]))
