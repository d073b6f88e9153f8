"""A file with the newest metrics in Prometheus' text format, for the textfile collector of its node_exporter."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

from mobilerl.system.atomic_files import write_atomic
from mobilerl.training.mirror import End, Mirror, Row, numbers

STATES = ("running", *get_args(End))
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


class Prometheus(Mirror):
    """Replaces a file atomically at every iteration and at the end. The label `run` is the run directory."""

    def __init__(self, path: Path, run_dir: Path) -> None:
        self._path, self._run = path, str(run_dir.resolve()).translate(_ESCAPES)
        self._row: Row = {}
        self._logged_at: float | None = None

    def log(self, row: Row) -> None:
        self._row, self._logged_at = row, time.time()
        self._write("running")

    def close(self, end: End = "finished") -> None:
        self._write(end)

    def _write(self, state: str) -> None:
        write_atomic(self._path, "".join(self._lines(state)).encode())

    def _lines(self, state: str) -> Iterator[str]:
        states = [(f',state="{name}"', float(name == state)) for name in STATES]
        yield from self._metric("run_state", "1 for the state that the run is in", *states)
        if self._logged_at is not None:
            yield from self._metric("iteration", "Newest iteration", ("", self._row["iteration"]))
            yield from self._metric("iteration_timestamp_seconds", "When it ended", ("", self._logged_at))
        # Two keys must not become one name, or the collector rejects the whole file.
        found = {re.sub(r"\W", "_", key, flags=re.ASCII): (key, value) for key, value in numbers(self._row).items()}
        for name, (key, value) in found.items():
            yield from self._metric(name, f"{key} of metrics.jsonl", ("", value))

    def _metric(self, name: str, text: str, *values: tuple[str, float]) -> Iterator[str]:
        """Lines of a gauge. `values` are pairs of further labels and the value."""
        yield f"# HELP mobilerl_{name} {text.translate(_ESCAPES)}\n# TYPE mobilerl_{name} gauge\n"
        for labels, value in values:
            yield f'mobilerl_{name}{{run="{self._run}"{labels}}} {float(value)!r}\n'
