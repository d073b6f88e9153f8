"""The fleet board: each device's state over time, how busy it was, and its faults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mobilerl.train.boards import FLEET_FILE
from mobilerl.train.tracking import read_metrics

COLUMNS = 240
"""Iterations of a longer run are shown by several to a column."""
LETTERS = {"leased": "l", "ready": "i", "refreshing": "f", "starting": "s", "quarantined": "q"}


def fleet_board(run: Path, index: Mapping[str, Any]) -> dict[str, Any]:
    """{columns, devices, missing}. `columns` are [first, last] iterations. A device is

    {place, device, state, busy, faults, reason, episodes, busy_columns, states, fault_columns}

    where `states` has one letter per column (l leased, i idle, f being refreshed, s starting, q quarantined, "-" not
    there: what took most of the column's time), `busy_columns` whole per cents, `fault_columns` the counts of the
    columns that have any, as [column, faults]. A run without fleet.jsonl has the devices of its stored trajectories,
    with their `episodes` alone.
    """
    episodes = [0] * len(index["devices"])
    for row in index["rows"]:
        episodes[row[7]] += 1
    stored = dict(zip(index["devices"], episodes, strict=True))
    rows = read_metrics(run / FLEET_FILE)
    if not rows:
        devices = [_unknown(name, count) for name, count in sorted(stored.items())]
        text = f"The run has no {FLEET_FILE}: when each device was busy or failed is not known."
        return {"columns": [], "devices": devices, "missing": [text]}
    try:
        return _noted(rows, stored)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{run / FLEET_FILE}: not as mobilerl.train.boards writes it: {error!r}") from error


def _unknown(name: str, episodes: int) -> dict[str, Any]:
    return {"place": name, "device": name, "state": "unknown", "busy": None, "faults": None, "reason": "",
            "episodes": episodes, "busy_columns": [], "states": "", "fault_columns": []}  # fmt: skip


def _noted(rows: Sequence[Mapping[str, Any]], stored: Mapping[str, int]) -> dict[str, Any]:
    wide = -(-len(rows) // COLUMNS)
    columns = [rows[i : i + wide] for i in range(0, len(rows), wide)]
    places = dict.fromkeys(place for row in rows for place in row["devices"])
    spans = [[column[0]["iteration"], column[-1]["iteration"]] for column in columns]
    return {"columns": spans, "devices": [_device(p, columns, stored) for p in places], "missing": []}


def _device(
    place: str, columns: Sequence[Sequence[Mapping[str, Any]]], stored: Mapping[str, int]
) -> dict[str, Any]:  # fmt: skip
    found: dict[str, Any] = {"place": place, "device": "", "state": "unknown", "reason": ""}
    busy_columns, states, faults, names = [], [], [], set()
    for number, column in enumerate(columns):
        there = [row["devices"][place] for row in column if place in row["devices"]]
        shares = _mean([entry["shares"] for entry in there if entry["shares"]])
        states.append(LETTERS.get(max(shares, key=lambda s: shares[s]), "-") if shares else "-")
        busy_columns.append(round(100 * shares.get("leased", 0.0)))
        if failed := sum(entry["faults"] for entry in there):
            faults.append([number, failed])
        for entry in there:
            names.add(entry["device"])
            found |= {k: entry[k] for k in ("device", "state", "reason") if entry.get(k)}
    present = [b for b, s in zip(busy_columns, states, strict=True) if s != "-"]
    return found | {
        "busy": sum(present) / (100 * len(present)) if present else None,
        "faults": sum(n for _, n in faults),
        "episodes": sum(stored.get(name, 0) for name in names),
        "busy_columns": busy_columns,
        "states": "".join(states),
        "fault_columns": faults,
    }


def _mean(shares: Sequence[Mapping[str, float]]) -> dict[str, float]:
    names = dict.fromkeys(name for share in shares for name in share)
    return {name: sum(share.get(name, 0.0) for share in shares) / len(shares) for name in names}
