"""What every mirror of metrics.jsonl can do, and the guard that keeps its errors away from the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from PIL import Image

from mobilerl.models.checkpoint_folder import one_line
from mobilerl.system.terminal import say

Row = Mapping[str, Any]
End = Literal["finished", "stopped", "failed"]
"""How a run ended: by itself, by a signal, or with an error."""
Level = Literal["INFO", "WARN", "ERROR"]


class Mirror:
    """Shows the metrics of one run in another tool. A mirror shows what it can, and ignores the rest."""

    def log(self, row: Row) -> None:
        """Shows a line of metrics.jsonl."""

    def images(self, iteration: int, images: Sequence[Image.Image]) -> None:
        """Shows episodes of an iteration."""

    def alert(self, title: str, text: str, level: Level) -> None:
        """Sends a message to the people who watch the run."""

    def close(self, end: End = "finished") -> None:
        """Ends the mirror; nothing follows."""


class Guarded(Mirror):
    """A mirror whose errors do not end the run. The first is reported; later calls are tried all the same."""

    def __init__(self, name: str, open_: Callable[[], Mirror]) -> None:
        self.name = name
        self._reported = False
        self._mirror = self._try(open_) or Mirror()

    def log(self, row: Row) -> None:
        self._try(lambda: self._mirror.log(row))

    def images(self, iteration: int, images: Sequence[Image.Image]) -> None:
        self._try(lambda: self._mirror.images(iteration, images))

    def alert(self, title: str, text: str, level: Level) -> None:
        self._try(lambda: self._mirror.alert(title, text, level))

    def close(self, end: End = "finished") -> None:
        self._try(lambda: self._mirror.close(end))

    def _try(self, call: Callable[[], Mirror | None]) -> Mirror | None:
        try:
            return call()
        except Exception as error:  # of any kind: trackers raise their own, those of networks, and those of disks
            if not self._reported:
                reason = f"{type(error).__name__}: {one_line(error)}"
                say(f"{self.name}: {reason}; the run goes on, and metrics.jsonl has every iteration", stderr=True)
            self._reported = True
            return None


def numbers(row: Row) -> dict[str, float]:
    """The numbers of a line, except its iteration."""
    return {key: value for key, value in row.items() if isinstance(value, int | float) and key != "iteration"}
