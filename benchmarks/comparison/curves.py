"""Learning curves: success in training against environment steps, a panel for each group of variants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.comparison.plan import Group
from benchmarks.comparison.runs import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BINS = 20
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's palette, safe for colour blindness."""
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 2)), (0, (1, 1)))
WIDTH, PANEL_HEIGHT, DPI = 10.0, 3.4, 110


@dataclass(frozen=True, slots=True)
class Curve:
    """`steps`: middles of equal parts of the budget; success rates there: mean, minimum and maximum of the seeds."""

    steps: tuple[float, ...]
    mean: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    seeds: int


def learning_curve(runs: Sequence[Run], budget: int) -> Curve | None:
    """Curves of the online runs without a fault; None if there are none.

    Episodes and successes are interpolated within iterations, so that algorithms with short and long iterations are
    averaged over the same parts of the budget: at most `BINS`, and no more than the shortest run has iterations.
    """
    online = [run for run in runs if run.points and not run.training_fault]
    if not online:
        return None
    edges = np.linspace(0, budget, 1 + min(BINS, *(len(run.points) for run in online)))
    rates = np.array([_rates(run, edges) for run in online])
    middles = (edges[1:] + edges[:-1]) / 2
    shown = (middles, rates.mean(axis=0), rates.min(axis=0), rates.max(axis=0))
    return Curve(*(tuple(float(value) for value in values) for values in shown), seeds=len(online))


def _rates(run: Run, edges: np.ndarray) -> np.ndarray:
    counts = np.array([(0, 0, 0), *((p.steps, p.episodes, p.successes) for p in run.points)], float)
    episodes, successes = (np.diff(np.interp(edges, counts[:, 0], counts[:, i])) for i in (1, 2))
    return successes / episodes


def draw(path: Path, groups: Sequence[Group], titles: Mapping[str, str], curves: Mapping[str, Curve]) -> bool:
    """Writes a PNG with a panel for each group that has a curve. False, and no file, if there is none."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    shown = [group for group in groups if any(name in curves for name in group.members)]
    if not shown:
        return False
    columns = min(2, len(shown))
    rows = -(-len(shown) // columns)
    size = (WIDTH, PANEL_HEIGHT * rows + 0.4)
    figure, axes = pyplot.subplots(rows, columns, figsize=size, squeeze=False, sharey=True, layout="constrained")
    for axis, group in zip(axes.flat, shown, strict=False):
        _panel(axis, group, titles, curves)
    for axis in axes.flat[len(shown) :]:
        axis.remove()
    figure.suptitle("Success in training, mean of the seeds (band: minimum to maximum)", fontsize=11)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=DPI, metadata={"Software": None})
    pyplot.close(figure)
    return True


def _panel(axis: Axes, group: Group, titles: Mapping[str, str], curves: Mapping[str, Curve]) -> None:
    for i, name in enumerate(group.members):
        if (curve := curves.get(name)) is None:
            continue
        style = {"color": COLOURS[i % len(COLOURS)], "linestyle": DASHES[i % len(DASHES)]}
        seeds = f"{curve.seeds} seed{'s' if curve.seeds > 1 else ''}"
        steps = np.array(curve.steps) / 1000
        axis.plot(steps, 100 * np.array(curve.mean), **style, linewidth=1.8, label=f"{titles[name]} ({seeds})")
        if curve.seeds > 1:
            low, high = 100 * np.array(curve.low), 100 * np.array(curve.high)
            axis.fill_between(steps, low, high, color=style["color"], alpha=0.15, linewidth=0)
    axis.set_title(group.title, fontsize=10, loc="left", fontweight="bold")
    axis.set_xlabel("environment steps, thousands")
    axis.set_ylabel("success, %")
    axis.tick_params(labelbottom=True, labelleft=True)
    axis.grid(alpha=0.25, linewidth=0.6)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(fontsize=8, frameon=False, loc="best")
