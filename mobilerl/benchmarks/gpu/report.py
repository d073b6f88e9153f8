"""Report of a phase: figures, and checks of correctness."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the report. `ok` is None for a figure, which cannot fail."""

    phase: str
    name: str
    values: dict[str, float | int | str]
    ok: bool | None = None

    def __str__(self) -> str:
        shown = ", ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in self.values.items())
        mark = {None: "", True: "ok      ", False: "FAILED  "}[self.ok]
        return f"{self.phase:12}{mark}{self.name}{': ' if shown else ''}{shown}"

    def as_row(self) -> dict[str, object]:
        return {"phase": self.phase, "name": self.name, "ok": "" if self.ok is None else self.ok, **self.values}


class Report:
    """`folder` is the same for all phases of a benchmark."""

    def __init__(self, phase: str, send: Callable[[Line], None], folder: Path) -> None:
        self.phase, self.folder, self._send = phase, folder, send

    def figure(self, name: str, **values: float | int | str) -> None:
        self._send(Line(self.phase, name, values))

    def check(self, name: str, value: float, limit: float) -> None:
        """Reports a check, which passes if `value` is at most `limit`."""
        self._send(Line(self.phase, name, {"found": value, "limit": limit}, ok=value <= limit))

    def failure(self, text: str) -> None:
        self._send(Line(self.phase, text, {}, ok=False))


def device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def wait() -> None:
    """Waits for the GPU, so that a clock can be read."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
