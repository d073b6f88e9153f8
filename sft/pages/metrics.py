"""ReachAgent's metrics: IoU and text accuracy of steps and of whole flows, and task success on the page graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from envs.base import COORD_MAX
from sft.pages.actions import COMPLETE, PageAction, same_action
from sft.pages.graph import PageGraph
from sft.pages.rewards import Goal, advance, finished, first_state

MARGIN = 0.14
"""Share of the screen's width (height) that the golden box grows by on either side."""
LONGEST = 15
"""Steps that an agent has for a task in the published test."""
MEASURES = {
    "step IoU": "step_iou", "step text": "step_text", "task IoU": "task_iou", "task text": "task_text",
    "task success": "success",
}  # fmt: skip
"""What tables show, and the names of it in results.json: fields of `Accuracy`, and success."""

Step = tuple[PageAction | None, PageAction]
"""What the agent did (None: nothing that could be read) and what is golden."""


def iou_correct(predicted: PageAction | None, golden: PageAction) -> bool:
    """Whether the predicted box meets the golden one, grown by the margin. Without one kinds are compared.

    As published it looks at boxes only: another action on the right element counts.
    """
    if predicted is None or golden.box is None:
        return predicted is not None and predicted.kind == golden.kind
    if predicted.box is None:
        return False
    (x1, y1, x2, y2), (gx1, gy1, gx2, gy2) = predicted.box, golden.box
    grown = MARGIN * COORD_MAX
    return x1 <= gx2 + grown and x2 >= gx1 - grown and y1 <= gy2 + grown and y2 >= gy1 - grown


def text_correct(predicted: PageAction | None, golden: PageAction) -> bool:
    """Kind, and name (click, long click, input), direction (scroll) exactly; an input's text by `SAME_TEXT`."""
    if predicted is None or predicted.kind != golden.kind:
        return False
    if golden.kind == "scroll":
        return predicted.direction == golden.direction
    # The box is the other metric's.
    return same_action(PageAction(golden.kind, predicted.name, golden.box, text=predicted.text), golden)


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Shares of 1."""

    step_iou: float
    step_text: float
    task_iou: float
    task_text: float
    steps: int
    tasks: int


def accuracy(flows: Sequence[Sequence[Step]]) -> Accuracy:
    """Step level: mean over all steps of all flows. Task level: share of flows whose every step is right.

    Raises ValueError without flows, or for one without steps.
    """
    if not flows or not all(flows):
        raise ValueError("there is no accuracy of no flows, or of a flow without steps")
    iou = [[iou_correct(*step) for step in flow] for flow in flows]
    text = [[text_correct(*step) for step in flow] for flow in flows]
    steps, tasks = sum(map(len, flows)), len(flows)
    return Accuracy(
        step_iou=sum(map(sum, iou)) / steps,
        step_text=sum(map(sum, text)) / steps,
        task_iou=sum(map(all, iou)) / tasks,
        task_text=sum(map(all, text)) / tasks,
        steps=steps,
        tasks=tasks,
    )


def succeeds(graph: PageGraph, goal: Goal, actions: Sequence[PageAction], most: int = LONGEST) -> bool:
    """Whether an agent's actions meet the goal on the graph: all subtasks done, then `complete`, in `most` steps.

    An action that the page does not offer, or whose outcome is not known, ends the attempt.
    """
    state = first_state(graph, goal)
    for action in actions[:most]:
        if action == COMPLETE:
            return finished(goal, state)
        if action.slot not in graph.pages[state.page].actions:
            return False
        after = advance(graph, goal, state, action)
        if after is None:
            return False
        state = after
    return False
