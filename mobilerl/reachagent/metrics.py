"""ReachAgent's metrics: IoU and text accuracy per step and per flow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mobilerl.envs.base import COORD_MAX
from mobilerl.reachagent.actions import PageAction, same_action

MARGIN = 0.14
"""Fraction of the screen's width (height) by which the golden box is enlarged on each side."""
MAX_STEPS = 15
"""Step budget of a task in the published test."""
MEASURES = {
    "step IoU": "step_iou",
    "step text": "step_text",
    "task IoU": "task_iou",
    "task text": "task_text",
    "task success": "success",
}
"""Measures by their name in tables, with their name in results.json: keys of `accuracy`, and success."""


def iou_correct(predicted: PageAction | None, golden: PageAction) -> bool:
    """Whether the predicted box overlaps the enlarged golden box; actions without a box are compared by kind.

    `predicted` is None for a response that is not an action of the page. As published, only boxes count, so that
    another action on the right element is correct.
    """
    if predicted is None or golden.box is None:
        return predicted is not None and predicted.kind == golden.kind
    if predicted.box is None:
        return False
    (x1, y1, x2, y2), (gx1, gy1, gx2, gy2) = predicted.box, golden.box
    grown = MARGIN * COORD_MAX
    return x1 <= gx2 + grown and x2 >= gx1 - grown and y1 <= gy2 + grown and y2 >= gy1 - grown


def text_correct(predicted: PageAction | None, golden: PageAction) -> bool:
    """Whether kind and name (click, long click, input) or direction (scroll) agree, and texts up to `SAME_TEXT`."""
    if predicted is None or predicted.kind != golden.kind:
        return False
    if golden.kind == "scroll":
        return predicted.direction == golden.direction
    # Boxes are compared by iou_correct.
    return same_action(PageAction(golden.kind, predicted.name, golden.box, text=predicted.text), golden)


def accuracy(flows: Sequence[Mapping[str, Sequence[bool]]]) -> dict[str, float]:
    """Computes `step_*`, the mean over all steps, `task_*`, the fraction of flows with all steps correct, and counts.

    A flow has the correctness of its steps, "iou" and "text".
    """
    steps, tasks = sum(len(flow["iou"]) for flow in flows), len(flows)
    rates: dict[str, float] = {"steps": steps, "tasks": tasks}
    for kind in ("iou", "text"):
        rates[f"step_{kind}"] = sum(sum(flow[kind]) for flow in flows) / steps
        rates[f"task_{kind}"] = sum(all(flow[kind]) for flow in flows) / tasks
    return rates
