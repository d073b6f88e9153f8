"""Progress of a run on the console: one line per iteration, the current activity, and the estimated time left."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.text import Text

from mobilerl.envs.base import DeviceReport
from mobilerl.policy.unreadable import MANY
from mobilerl.system.terminal import duration, fit, make_console

RECENT = 20
"""Number of recent iterations from which the time left is estimated."""
LINE_EVERY_S = 300.0
"""Interval of lines about an iteration that takes longer, in a file."""
INDENT = 11 * " "
"""Indent of continuation lines."""
INVALID = "rollout/invalid/"
NAMED = 4
"""Maximum number of devices that a line names."""
PHASES = ("rollout", "update", "publish")


class TimeLeft:
    """Estimates the time until a run reaches its iterations, time limit or environment steps, whichever is first."""

    def __init__(
        self, iterations: int | None, max_minutes: float | None = None, max_env_steps: int | None = None
    ) -> None:
        max_s = None if max_minutes is None else 60.0 * max_minutes
        limits = {"iteration": iterations, "time_s": max_s, "rollout/env_steps": max_env_steps}
        self._limits = {key: limit for key, limit in limits.items() if limit is not None}
        self._recent: deque[Mapping[str, Any]] = deque(maxlen=RECENT + 1)

    def after(self, metrics: Mapping[str, Any]) -> float | None:
        """Seconds left after the iteration of `metrics`; None while there is too little to estimate from."""
        if metrics.get("time_s") is None:
            return None
        self._recent.append(metrics)
        first, last = self._recent[0], self._recent[-1]
        estimates = []
        for key, limit in self._limits.items():
            gain = (last.get(key) or 0) - (first.get(key) or 0)
            if gain > 0:
                estimates.append((limit - last[key]) * (last["time_s"] - first["time_s"]) / gain)
        return max(0.0, min(estimates)) if estimates else None


def describe_status(iteration: int, ended: int, wanted: int, status: Mapping[str, float]) -> str:
    """Episodes of an iteration and a collector's `status`: `iteration 12: 18 of 32 episodes; devices: 40 leased`."""
    devices = ", ".join(
        f"{n:g} {name.removeprefix('fleet/')}" for name, n in status.items() if n and name.startswith("fleet/")
    )
    episodes = f": {min(ended, wanted)} of {wanted} episodes" if wanted else ""
    return f"iteration {iteration}{episodes}" + (f"; devices: {devices}" if devices else "")


class ProgressView:
    """Prints the metrics of each iteration in one line, with continuation lines if they do not fit.

    On a terminal, a bar below shows the current activity and the time left.
    """

    def __init__(
        self,
        iterations: int | None = None,
        console: Console | None = None,
        max_minutes: float | None = None,
        max_env_steps: int | None = None,
    ) -> None:
        self._iterations = iterations
        self._time_left = TimeLeft(iterations, max_minutes, max_env_steps)
        self._began = 0.0
        self._ends: float | None = None
        """Start of the run (earlier starts included) and its likely end, on the monotonic clock."""
        self._console = console or make_console()
        self._last_success: float | None = None
        self._bar: Progress | None = None

    def __enter__(self) -> ProgressView:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def status(self, text: str) -> None:
        """Shows the current activity, if the output is a terminal."""
        if not self._console.is_terminal:
            return
        if self._bar is None:
            columns = (TextColumn("{task.description}", style="dim", markup=False), BarColumn(bar_width=20))
            self._bar = Progress(*columns, TextColumn("{task.fields[left]}"), console=self._console, transient=True)
            self._bar.add_task("", total=None, left="")
            self._bar.start()
        values: dict[str, Any] = {"description": text}
        if self._ends is not None:
            now = time.monotonic()
            left = f"left {duration(max(0.0, self._ends - now))}"
            values |= {"completed": now - self._began, "total": self._ends - self._began, "left": left}
        self._bar.update(self._bar.task_ids[0], **values)

    @contextmanager
    def watching(self, describe: Callable[[], str]) -> Iterator[None]:
        """Updates the current activity from `describe` every second, or prints it now and then if the output is not a
        terminal. Needs a running event loop."""

        async def show() -> None:
            while not self._console.is_terminal:
                await asyncio.sleep(LINE_EVERY_S)
                self.say(describe())
            while True:
                self.status(describe())
                await asyncio.sleep(1.0)

        showing = asyncio.get_running_loop().create_task(show())
        try:
            yield
        finally:
            showing.cancel()

    def say(self, text: str) -> None:
        """Prints a line."""
        self._console.print(fit(text, self._console.width), markup=False, highlight=False, soft_wrap=True)

    def update(self, metrics: Mapping[str, Any], devices: Sequence[DeviceReport] = ()) -> None:
        """Prints the line of one iteration, leaving out metrics that it does not have. Of `devices` it names those that
        are out of use."""
        total = f"/{self._iterations}" if self._iterations else ""
        line = Text(f"iter {metrics['iteration']:>4}{total}", style="bold")
        line.append("  ").append_text(self._success(metrics.get("rollout/success_rate")))
        parts = _parts(metrics, [d.name for d in devices if d.state == "quarantined"])
        left = self._time_left.after(metrics)
        if left is not None:
            parts.append(f"left {duration(left)}")
            self._began, self._ends = time.monotonic() - metrics["time_s"], time.monotonic() + left
        used = line.cell_len
        for part in parts:
            used += 2 + cell_len(part)
            if used > self._console.width:
                used = len(INDENT) + cell_len(part)
                line.append(f"\n{INDENT}").append(part, style="not bold")
            else:
                line.append("  ").append(part, style="not bold")
        self._console.print(line, soft_wrap=True)

    def _success(self, rate: float | None) -> Text:
        if rate is None:
            return Text("success    --  ", style="dim")
        change = 0.0 if self._last_success is None else rate - self._last_success
        self._last_success = rate
        arrow, style = ("↑", "green") if change > 0.0005 else ("↓", "red") if change < -0.0005 else ("→", "dim")
        return Text(f"success {100 * rate:5.1f}% ", style="not bold").append(arrow, style=style)


def _parts(metrics: Mapping[str, Any], quarantined: Sequence[str]) -> list[str]:
    formats = {
        "rollout/trajectories_per_min": "ep/min {:.0f}",
        "rollout/episode_len": "len {:.1f}",
        "rollout/reward": "reward {:.3f}",
        "train/loss": "loss {:.3g}",
        "train/grad_norm": "grad norm {:.2g}",
        "train/neg_logp": "-log p {:.2g}",
        "train/kl": "kl {:.2g}",
        "replay/size": "replay {:.0f}",
        "replay/fraction": "replay share {:.0%}",
    }
    parts = [form.format(metrics[key]) for key, form in formats.items() if metrics.get(key) is not None]
    if skipped := metrics.get("train/skipped_steps"):
        parts.append(f"skipped steps {skipped:.0f}")
    held_out = [f"{name.removeprefix('eval/')} {rate:.0%}" for name, rate in metrics.items() if name[:5] == "eval/"]
    if held_out:
        parts.append(f"held out: {', '.join(held_out)}")
    if (rate := metrics.get("rollout/invalid_rate") or 0.0) > MANY:
        parts.append(f"unreadable responses {rate:.0%} ({_reasons(metrics)})")
    if tasks := _counts(metrics, "curriculum", ("active", "cooling", "removed")):
        parts.append(f"tasks {tasks}")
    if faults := _counts(metrics, "fleet", ("quarantined", "replaced", "failures")):
        named = f" ({', '.join(quarantined[:NAMED])}{', ...' if quarantined[NAMED:] else ''})" if quarantined else ""
        parts.append(f"devices {faults.replace(' quarantined', f' quarantined{named}')}")
    seconds = {phase: metrics.get(f"time/{phase}_s") or 0.0 for phase in PHASES}
    if total := sum(seconds.values()):
        shares = ", ".join(f"{phase} {value / total:.0%}" for phase, value in seconds.items())
        parts.append(f"{total:.1f}s ({shares})")
    return parts


def _reasons(metrics: Mapping[str, Any]) -> str:
    """Shares of the reasons for invalid responses, largest first: `no_call 30%, cut_off 4%`."""
    found = {name.removeprefix(INVALID): rate for name, rate in metrics.items() if name.startswith(INVALID) and rate}
    return ", ".join(f"{why} {rate:.0%}" for why, rate in sorted(found.items(), key=lambda item: -item[1]))


def _counts(metrics: Mapping[str, Any], prefix: str, names: tuple[str, ...]) -> str:
    """The counts above zero: `40 active, 3 cooling`."""
    return ", ".join(f"{n:.0f} {name}" for name in names if (n := metrics.get(f"{prefix}/{name}")))
