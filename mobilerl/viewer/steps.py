"""One step of a trajectory as the page shows it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from mobilerl.viewer.hits import element_hit

BARS = 160
"""Log-probabilities of a longer reply are shown by the lowest of neighbours: an unlikely token must stay visible."""
_SCREEN = re.compile(r"[0-9a-f]{64}")


def step_of(step: Mapping[str, Any], advantage: float | None) -> dict[str, Any]:
    """KeyError or TypeError for a step that is not as docs/files.md says."""
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
        "hit": element_hit(observation["xml"], step["action"], width, height),
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
    width = -(-len(values) // BARS) or 1
    return [round(min(values[i : i + width]), 3) for i in range(0, len(values), width)]
