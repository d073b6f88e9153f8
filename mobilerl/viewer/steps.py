"""One step of a trajectory for the page, with the UI element that its action touched."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from envs.base import COORD_MAX
from mobilerl.policy.screen import parse_screen, shortened

MAX_BARS = 160
"""Bars for the log-probabilities of a reply. A bar shows the minimum of its tokens, so unlikely ones stay visible."""
MAX_TEXT = 300
"""Characters of an element's text that are shown."""
_SCREEN = re.compile(r"[0-9a-f]{64}")


def step_for_page(step: Mapping[str, Any], advantage: float | None) -> dict[str, Any]:
    """Raises KeyError or TypeError for a step that is not as docs/files.md says."""
    observation, completion = step["observation"], step["completion"]
    logprobs, screen = completion["logprobs"], observation["screenshot"]
    width, height = observation["width"], observation["height"]
    return {
        "screen": screen if _SCREEN.fullmatch(screen) else "",
        "width": width,
        "height": height,
        "app": observation["app"],
        "thought": step["thought"],
        "reply": completion["text"],
        "action": step["action"],
        "element": touched_element(observation["xml"], step["action"], width, height),
        "timings": {name: round(seconds, 4) for name, seconds in step["timings"].items()},
        "note": step.get("note", ""),
        "prompt_tokens": len(completion["prompt_ids"]),
        "reply_tokens": len(completion["token_ids"]),
        "images": len(step["images"]),
        "logprob": round(sum(logprobs), 4) if logprobs else None,
        "logprobs": _bars(logprobs),
        "version": completion["version"],
        "advantage": advantage,
    }


def _bars(values: Sequence[float]) -> list[float]:
    width = -(-len(values) // MAX_BARS) or 1
    return [round(min(values[i : i + width]), 3) for i in range(0, len(values), width)]


def touched_element(xml: str, action: Mapping[str, Any], width: int, height: int) -> dict[str, Any] | None:
    """The element that `action` (a dict with its `kind`) touches on a screen of `width` x `height` px.

    For a tap, long press or swipe the one at its start, for typing the focused one. `box` is in px. None for other
    actions, where there is no element, and for a dump that cannot be parsed.
    """
    screen = parse_screen(xml, width, height)
    element = None
    if action["kind"] in ("tap", "long_press", "swipe"):
        element = screen.at(action["x"], action["y"])
    elif action["kind"] == "type":
        element = next((e for e in screen.elements if "focused" in e.states), None)
    if element is None:
        return None
    return {
        "class": element.cls,
        "text": shortened(element.text, MAX_TEXT),
        "box": [round(v * side / COORD_MAX) for v, side in zip(element.box, (width, height) * 2, strict=True)],
        "states": [*element.actions, *element.states],
    }
