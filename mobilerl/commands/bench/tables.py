"""Results and comparisons as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mobilerl.tables import make_console, make_table


def print_results(results: Any) -> None:
    """A list of rows as a table; of a mapping, its single values below each other and each list in it as a table."""
    if isinstance(results, Mapping):
        single = {k: v for k, v in results.items() if not isinstance(v, list)}
        print_table([{"what": k, "value": v} for k, v in single.items()])
        for value in results.values():
            if isinstance(value, list):
                print_table(value)
    else:
        print_table(results)


def print_table(rows: Sequence[Mapping[str, object]]) -> None:
    if not rows:
        return
    table = make_table(*rows[0])
    for row in rows:
        table.add_row(*(f"{v:.4g}" if isinstance(v, float) else str(v) for v in row.values()))
    make_console().print(table)
