"""Comparing a table before and after: what tasks require is exactly one change."""

from __future__ import annotations

from typing import Any

Row = dict[str, Any]


def added(before: list[Row], after: list[Row]) -> list[Row]:
    """The new rows, without their ids; [] when an old row is missing or changed."""
    if after[: len(before)] != before:
        return []
    return [{k: v for k, v in row.items() if k != "_id"} for row in after[len(before) :]]


def edited(rows: list[Row], row_id: int, **values: str | int | float) -> list[Row]:
    """`rows` with other values in one of them."""
    return [{**row, **values} if row["_id"] == row_id else row for row in rows]
