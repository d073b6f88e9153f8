"""Sound inputs -> hostile ones: bytes and texts with pieces replaced, JSON values with parts exchanged."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, TypeVar

from hypothesis import strategies as st

Text = TypeVar("Text", str, bytes)

MOST_COPIES = 2000
"""Times a piece is repeated: nesting and length are attacks of their own."""

NUMBERS = (b"\0\0\0\0", b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", b"\0\0\0\x80", b"\x01\0\0\0", b"\0\0\x10\0")
TOKENS = ("<|im_end|>", "<|image_pad|>", "<image>", "</answer>", "<7>", "\0", "\n", "\r\n", "\u2028", "\ud800",
          "\ufeff", "'", '"', "\\", "$(reboot)", "`reboot`", ";reboot;", "%s%n", "../../etc/passwd",
          "{{7*7}}")  # fmt: skip


@st.composite
def _damaged(draw: st.DrawFn, seeds: Sequence[Any], pieces: st.SearchStrategy[Any]) -> Any:
    data = draw(st.sampled_from(seeds))
    for _ in range(draw(st.integers(0, 5))):
        start = draw(st.integers(0, len(data)))
        length = draw(st.sampled_from((0, 0, 1, 2, 4, 16, 256, len(data))))
        rest = data[start + length :]
        kind = draw(st.sampled_from(("piece", "drop", "copy", "repeat", "splice", "cut")))
        if kind == "piece":
            data = data[:start] + draw(pieces) + rest
        elif kind == "drop":
            data = data[:start] + rest
        elif kind == "copy":
            data = data[: start + length] + data[start : start + length] + rest
        elif kind == "repeat":
            piece = data[start : start + min(length, 32)]
            data = data[:start] + piece * draw(st.integers(1, MOST_COPIES)) + rest
        elif kind == "splice":
            other = draw(st.sampled_from(seeds))
            data = data[:start] + other[draw(st.integers(0, len(other))) :]
        else:
            data = data[:start]
    return data


def damaged_bytes(seeds: Sequence[bytes], words: Sequence[bytes] = ()) -> st.SearchStrategy[bytes]:
    """`words` are pieces of the format that are worth putting in wrong places."""
    return _damaged(list(seeds), st.sampled_from([*NUMBERS, *words]) | st.binary(max_size=8))


def damaged_text(seeds: Sequence[str], words: Sequence[str] = ()) -> st.SearchStrategy[str]:
    return _damaged(list(seeds), st.sampled_from([*TOKENS, *words]) | st.text(max_size=8))


# --- JSON --------------------------------------------------------------------------------------------------------

SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(TOKENS)
    | st.sampled_from([0, -1, 1 << 63, 10**400, "", [], {}, "0" * 64])
)  # fmt: skip
VALUES = st.recursive(SCALARS, lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text(max_size=4), v, max_size=3))


@st.composite
def _changed(draw: st.DrawFn, value: Any) -> Any:
    """`value` with one part of it, at any depth, exchanged, dropped or doubled."""
    if not isinstance(value, dict | list) or not value or draw(st.integers(0, 6)) == 0:
        return draw(VALUES)
    key = draw(st.sampled_from(list(value) if isinstance(value, dict) else range(len(value))))
    kind = draw(st.sampled_from(("inside", "inside", "inside", "drop", "more")))
    copy = value.copy()
    if kind == "inside":
        copy[key] = draw(_changed(value[key]))
    elif kind == "drop":
        del copy[key]
    elif isinstance(copy, list):
        copy.append(copy[key])
    else:
        copy[draw(st.text(max_size=6))] = copy[key]
    return copy


@st.composite
def damaged_json(draw: st.DrawFn, seeds: Sequence[Any]) -> Any:
    """Values, not texts; what they hold may be what JSON cannot."""
    value = draw(st.sampled_from(list(seeds)))
    for _ in range(draw(st.integers(1, 3))):
        value = draw(_changed(value))
    return value


def dumped(value: Any) -> str:
    return json.dumps(value)


@st.composite
def damaged_json_text(draw: st.DrawFn, seeds: Sequence[Any]) -> str:
    """A text that mostly is JSON."""
    if draw(st.integers(0, 3)):
        return dumped(draw(damaged_json(seeds)))
    return draw(damaged_text([dumped(seed) for seed in seeds], ["[" * 50_000, '{"a":' * 50_000, "NaN", "1e999"]))
