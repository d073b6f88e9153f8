"""One step of a trajectory for the page: the action, the UI element that it touched, and the model's input."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mobilerl.envs.base import COORD_MAX
from mobilerl.policy.screen import Element, Screen, parse_screen, shorten

MAX_BARS = 160
"""Maximum number of bars for the log-probabilities of a response, each the minimum of its tokens."""
MAX_TEXT = 300
"""Maximum characters shown of an element's text."""
Decode = Callable[[Sequence[int]], str]
"""Decodes token ids to text."""
_SCREEN = re.compile(r"[0-9a-f]{64}")
_REPEATED = re.compile(r"(<[^<>\s]{1,40}>)\1{3,}")


def step_for_page(
    step: Mapping[str, Any], advantage: float | None, decode: Decode | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The step, and the model's input: `prompt`, null without `decode`, and the `elements` of the screen.

    Raises KeyError or TypeError for a step that is not in the format of docs/files.md.
    """
    observation, completion = step["observation"], step["completion"]
    logprobs, image = completion["logprobs"], observation["screenshot"]
    width, height = observation["width"], observation["height"]
    screen = parse_screen(observation["xml"], width, height)
    shown = {
        "screen": image if _SCREEN.fullmatch(image) else "",
        "width": width,
        "height": height,
        "app": observation["app"],
        "thought": step["thought"],
        "response": completion["text"],
        "action": step["action"],
        "element": touched_element(screen, step["action"]),
        "timings": {name: round(seconds, 4) for name, seconds in step["timings"].items()},
        "note": step.get("note", ""),
        "prompt_tokens": len(completion["prompt_ids"]),
        "response_tokens": len(completion["token_ids"]),
        "images": len(step["images"]),
        "logprob": round(sum(logprobs), 4) if logprobs else None,
        "logprobs": _bars(logprobs),
        "version": completion["version"],
        "advantage": advantage,
    }
    ids = completion["prompt_ids"]
    prompt = _with_counts(decode(ids)) if decode and ids else None
    elements = [_element(e, screen) | {"depth": e.depth} for e in screen.elements]
    return shown, {"prompt": prompt, "elements": elements, "unreadable": screen.error}


def _with_counts(prompt: str) -> str:
    """Abbreviates the many placeholders of an image in a prompt to `<token>×N`."""
    return _REPEATED.sub(lambda found: f"{found[1]}×{len(found[0]) // len(found[1])}", prompt)


def _bars(values: Sequence[float]) -> list[float]:
    width = -(-len(values) // MAX_BARS) or 1
    return [round(min(values[i : i + width]), 3) for i in range(0, len(values), width)]


def touched_element(screen: Screen, action: Mapping[str, Any]) -> dict[str, Any] | None:
    """Element that `action` (a dict with its `kind`) touches.

    For a tap, long press or swipe it is the one at the start, for typing the focused one. `box` is in px. None for
    other actions, if there is no element, and for a dump that could not be parsed.
    """
    element = None
    if action["kind"] in ("tap", "long_press", "swipe"):
        element = screen.at(action["x"], action["y"])
    elif action["kind"] == "type":
        element = next((e for e in screen.elements if "focused" in e.states), None)
    return None if element is None else _element(element, screen)


def _element(element: Element, screen: Screen) -> dict[str, Any]:
    sides = (screen.width, screen.height) * 2
    return {
        "class": element.cls,
        "text": shorten(element.text, MAX_TEXT),
        "box": [round(v * side / COORD_MAX) for v, side in zip(element.box, sides, strict=True)],
        "states": [*element.actions, *element.states],
    }
