"""The screen as the experts use it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree import ElementTree

from envs.base import COORD_MAX, Action, LongPress, Observation, Swipe, Tap
from envs.phone.popups import CATALOGUE


class UI:
    """The screen as an expert uses it: finds widgets by their text and returns the action that touches them.

    `observe` is called before every action of a script, so each line of a script sees the current screen.
    """

    def __init__(self) -> None:
        self._items: list[tuple[str, str, str, tuple[int, int, int, int]]] = []
        self._size = (1, 1)

    def observe(self, observation: Observation) -> None:
        self._size = (observation.width, observation.height)
        self._items = []
        for node in ElementTree.fromstring(observation.xml).iter("node"):
            left, top, right, bottom = (int(v) for v in re.findall(r"-?\d+", node.get("bounds", "")))
            box = (left, top, right, bottom)
            self._items.append((node.get("text", ""), node.get("content-desc", ""), node.get("class", ""), box))

    def has(self, name: str) -> bool:
        return self._find(name) is not None

    def texts(self) -> list[str]:
        """Everything that can be read on the screen, in order."""
        return [t or d for t, d, _, _ in self._items if t or d]

    def popup_button(self) -> str | None:
        """The declining button of the pop-up that covers the screen, if one does."""
        for popup in CATALOGUE:
            if self.has(popup.title) and self.has(popup.text) and self.has(popup.decline):
                return popup.decline
        return None

    def tap(self, name: str, nth: int = 0) -> Action:
        """Taps what reads `name` exactly (text or description); `nth` picks among several, -1 the last."""
        return Tap(*self._centre(name, nth))

    def long_press(self, name: str, nth: int = 0) -> Action:
        return LongPress(*self._centre(name, nth))

    def tap_field(self, nth: int = 0, text: str = "") -> Action:
        """Taps the nth edit field, of those that hold `text` if it is given."""
        boxes = [box for t, _, cls, box in self._items if cls.endswith("EditText") and text in ("", t)]
        return Tap(*self._point(boxes[nth]))

    def scroll_down(self) -> Action:
        """Shows what is below: the finger moves from the middle of the screen to its top."""
        return Swipe(499, 499, 499, 0)

    def reach(self, name: str, swipes: int = 8) -> Iterator[Action]:
        """Scrolls down until `name` can be seen (nothing to do when it already can)."""
        for _ in range(swipes):
            if self.has(name):
                return
            yield self.scroll_down()
        self._centre(name, 0)

    def _find(self, name: str, nth: int = 0) -> tuple[int, int, int, int] | None:
        boxes = [box for text, desc, _, box in self._items if name in (text, desc)]
        return boxes[nth] if -len(boxes) <= nth < len(boxes) else None

    def _centre(self, name: str, nth: int) -> tuple[int, int]:
        box = self._find(name, nth)
        if box is None:
            raise LookupError(f"the expert looked for {name!r} on a screen that reads {self.texts()}")
        return self._point(box)

    def _point(self, box: tuple[int, int, int, int]) -> tuple[int, int]:
        width, height = self._size
        x, y = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
        return round(x * COORD_MAX / width), round(y * COORD_MAX / height)
