"""A run on the screen: a line per iteration, what goes on now, and an estimate of the time left."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.status import Status as Spinner
from rich.text import Text

RECENT = 20
"""Iterations whose mean time the estimate goes by: the run changes as it learns, and as its devices do."""


class TimeLeft:
    """Estimates how long a run still takes: to its last iteration, to the end of its minutes or of its steps on
    devices, whichever comes first."""

    def __init__(
        self, iterations: int | None, max_minutes: float | None = None, max_env_steps: int | None = None
    ) -> None:
        self._iterations, self._max_minutes, self._max_env_steps = iterations, max_minutes, max_env_steps
        self._seen: deque[tuple[int, float, float]] = deque(maxlen=RECENT + 1)

    def after(self, metrics: Mapping[str, Any]) -> float | None:
        """Seconds left after the iteration of `metrics`; None while nothing can be said.

        A first iteration counts by the time it took itself: what came before it (loading a model) is not repeated.
        """
        iteration, now, steps = metrics["iteration"], metrics.get("time_s"), metrics.get("rollout/env_steps") or 0
        if now is None:
            return None
        if not self._seen:
            took = sum(metrics.get(f"time/{part}_s") or 0.0 for part in ("rollout", "update", "publish"))
            if took:
                played = (metrics.get("rollout/trajectories") or 0) * (metrics.get("rollout/episode_len") or 0)
                self._seen.append((iteration - 1, now - took, steps - played))
        self._seen.append((iteration, now, steps))
        (first, began, fewer), (_, ended, more) = self._seen[0], self._seen[-1]
        estimates = [] if self._max_minutes is None else [60.0 * self._max_minutes - ended]
        if self._iterations is not None and iteration > first:
            estimates.append((self._iterations - iteration) * (ended - began) / (iteration - first))
        if self._max_env_steps is not None and more > fewer:
            estimates.append((self._max_env_steps - more) * (ended - began) / (more - fewer))
        return max(0.0, min(estimates)) if estimates else None


def duration(seconds: float) -> str:
    """`40 s`, `12 min`, `3 h 20 min`, `2 d 5 h`."""
    minutes = round(seconds / 60)
    if seconds < 90:
        return f"{seconds:.0f} s"
    if minutes < 90:
        return f"{minutes} min"
    hours = round(seconds / 3600)
    return f"{minutes // 60} h {minutes % 60} min" if hours < 36 else f"{hours // 24} d {hours % 24} h"


def doing(iteration: int, status: Mapping[str, float]) -> str:
    """What a collector's `status` says is going on: `iteration 12; devices: 40 leased, 2 starting`."""
    fleet = {name.removeprefix("fleet/"): n for name, n in status.items() if n and name.startswith("fleet/")}
    devices = ", ".join(f"{n:g} {name}" for name, n in fleet.items())
    return f"iteration {iteration}" + (f"; devices: {devices}" if devices else "")


class ProgressView:
    """One line per iteration, for a person. On a terminal a spinner below it says what is going on now."""

    def __init__(
        self, iterations: int | None = None, console: Console | None = None, max_minutes: float | None = None,
        max_env_steps: int | None = None,
    ) -> None:  # fmt: skip
        self._iterations = iterations
        self._time_left = TimeLeft(iterations, max_minutes, max_env_steps)
        self._console = console or Console()
        self._last_success: float | None = None
        self._spinner: Spinner | None = None

    def __enter__(self) -> ProgressView:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def status(self, text: str) -> None:
        """Shows what the run is doing. Says nothing where the output is not a terminal."""
        if not self._console.is_terminal:
            return
        if self._spinner is None:
            self._spinner = self._console.status("")
            self._spinner.start()
        self._spinner.update(Text(text, style="dim"))

    @contextmanager
    def watching(self, doing: Callable[[], str]) -> Iterator[None]:
        """Shows every second what `doing` says. Needs a running event loop."""

        async def show() -> None:
            while True:
                self.status(doing())
                await asyncio.sleep(1.0)

        showing = asyncio.get_running_loop().create_task(show())
        try:
            yield
        finally:
            showing.cancel()

    def say(self, text: str) -> None:
        """A line that stays, in between."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def update(self, metrics: Mapping[str, Any]) -> None:
        """Prints the line of one iteration; a metric that is not there is left out."""
        self._console.print(self._line(metrics), soft_wrap=True)

    def close(self) -> None:
        if self._spinner is not None:
            self._spinner.stop()
            self._spinner = None

    def _line(self, metrics: Mapping[str, Any]) -> Text:
        total = f"/{self._iterations}" if self._iterations else ""
        left = self._time_left.after(metrics)
        line = Text(f"iter {metrics['iteration']:>4}{total}", style="bold")
        line.append("  ").append_text(self._success(metrics.get("rollout/success_rate")))
        parts = [
            _part("ep/min", metrics.get("rollout/trajectories_per_min"), ".0f"),
            _part("len", metrics.get("rollout/episode_len"), ".1f"),
            _part("reward", metrics.get("rollout/reward"), ".3f"),
            _part("kl", metrics.get("train/kl"), ".2g"),
            _replay(metrics),
            _curriculum(metrics),
            _fleet(metrics),
            _times(metrics),
            "" if left is None else f"left {duration(left)}",
        ]
        for part in filter(None, parts):
            line.append("  ").append(part, style="not bold")
        return line

    def _success(self, rate: float | None) -> Text:
        if rate is None:
            return Text("success    --  ", style="dim")
        change = 0.0 if self._last_success is None else rate - self._last_success
        self._last_success = rate
        arrow, style = ("↑", "green") if change > 0.0005 else ("↓", "red") if change < -0.0005 else ("→", "dim")
        return Text(f"success {100 * rate:5.1f}% ", style="not bold").append(arrow, style=style)


def _part(label: str, value: float | None, form: str) -> str:
    return "" if value is None else f"{label} {value:{form}}"


def _replay(metrics: Mapping[str, Any]) -> str:
    size, fraction = metrics.get("replay/size"), metrics.get("replay/fraction")
    if size is None:
        return ""
    return f"replay {size:.0f}" + ("" if fraction is None else f" ({100 * fraction:.0f}% of batch)")


def _curriculum(metrics: Mapping[str, Any]) -> str:
    counts = {name: metrics.get(f"curriculum/{name}") for name in ("active", "cooling", "removed")}
    shown = [f"{count:.0f} {name}" for name, count in counts.items() if count is not None]
    return "tasks " + ", ".join(shown) if shown else ""


def _fleet(metrics: Mapping[str, Any]) -> str:
    """What is wrong with the devices of a pool: "" when nothing is."""
    counts = {name: metrics.get(f"fleet/{name}") for name in ("quarantined", "replaced", "failures")}
    shown = [f"{count:.0f} {name}" for name, count in counts.items() if count]
    return "devices " + ", ".join(shown) if shown else ""


def _times(metrics: Mapping[str, Any]) -> str:
    """`12.3s (rollout 71%, update 26%, publish 3%)`: the iteration's seconds and where they went."""
    names = ("rollout", "update", "publish")
    seconds = {name: metrics.get(f"time/{name}_s") for name in names}
    shown = {name: value for name, value in seconds.items() if value is not None}
    total = sum(shown.values())
    if total <= 0:
        return ""
    return f"{total:.1f}s (" + ", ".join(f"{name} {100 * value / total:.0f}%" for name, value in shown.items()) + ")"
