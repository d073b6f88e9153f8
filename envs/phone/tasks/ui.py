"""The screen as the experts use it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple
from xml.etree import ElementTree

from mobilerl.envs.base import COORD_MAX, Action, LongPress, Observation, Swipe, Tap
from mobilerl.envs.phone.languages import ENGLISH
from mobilerl.envs.phone.languages.language import Language
from mobilerl.envs.phone.popups import CATALOGUE

MIDDLE = COORD_MAX // 2
SWIPES = 8
"""The most in one direction: the end of a list whose texts change all the time is not noticed."""

Box = tuple[int, int, int, int]


class Widget(NamedTuple):
    text: str
    desc: str
    hint: str
    cls: str
    scrolls: bool
    box: Box


class UI:
    """The screen as an expert uses it: finds widgets by their text and returns the action that touches them.

    `observe` is called before every action of a script, so each line of a script sees the current screen. Scripts name
    widgets in English: here, and nowhere else, these names become those of the phone's `language`.
    """

    def __init__(self, language: Language = ENGLISH) -> None:
        self._language = language
        self._widgets: list[Widget] = []
        self._size = (1, 1)

    def observe(self, observation: Observation) -> None:
        self._size = (observation.width, observation.height)
        self._widgets = []
        for node in ElementTree.fromstring(observation.xml).iter("node"):
            left, top, right, bottom = (int(v) for v in re.findall(r"-?\d+", node.get("bounds", "")))
            text, desc, hint, cls = (node.get(name, "") for name in ("text", "content-desc", "hint", "class"))
            scrolls = node.get("scrollable") == "true"
            self._widgets.append(Widget(text, desc, hint, cls, scrolls, (left, top, right, bottom)))

    def has(self, name: str, field: bool = False) -> bool:
        return self._find(name, 0, field) is not None

    def texts(self) -> list[str]:
        """Everything that can be read on the screen, in order."""
        return [w.text or w.desc for w in self._widgets if w.text or w.desc]

    def translate(self, text: str) -> str:
        """`text` as it reads on the screen, which may be in another language."""
        readings = self._language.readings(text)
        return next((r for r in readings if any(r in w.text or r in w.desc for w in self._widgets)), text)

    def popup_button(self) -> str | None:
        """The declining button of the pop-up that covers the screen, if one does."""
        for popup in CATALOGUE:
            if self.has(popup.title) and self.has(popup.text) and self.has(popup.decline):
                return popup.decline
        return None

    def tap(self, name: str, nth: int = 0) -> Tap:
        """Taps what reads `name` exactly (text or description); `nth` picks among several, -1 the last."""
        return Tap(*self._centre(name, nth))

    def tap_field(self, nth: int = 0, text: str = "") -> Action:
        """Taps the nth edit field, of those that hold `text` if it is given."""
        boxes = [w.box for w in self._widgets if w.cls.endswith("EditText") and text in ("", w.text)]
        return Tap(*self._point(boxes[nth]))

    def press(self, name: str, nth: int = 0, long: bool = False, field: bool = False) -> Iterator[Action]:
        """Scrolls to what reads `name`, or to the edit field with this hint, and taps it (or holds it down)."""
        yield from self.reach(name, field)
        yield (LongPress if long else Tap)(*self._centre(name, nth, field))

    def scroll_down(self) -> Action:
        """Shows what is below: the finger moves from the middle of the screen to its top."""
        return Swipe(MIDDLE, MIDDLE, MIDDLE, 0)

    def reach(self, name: str, field: bool = False) -> Iterator[Action]:
        """Scrolls until `name` can be seen (nothing to do when it already can): everything that scrolls to its end
        and up again, the page that was opened last before the list beside it."""
        for box in [w.box for w in reversed(self._widgets) if w.scrolls]:
            x = (box[0] + box[2]) * COORD_MAX // (2 * self._size[0])
            for end in (0, COORD_MAX):
                seen: list[Widget] = []
                for _ in range(SWIPES):
                    if self.has(name, field) or seen == self._widgets:
                        break
                    seen = self._widgets
                    yield Swipe(x, MIDDLE, x, end)
        self._centre(name, 0, field)

    def _find(self, name: str, nth: int = 0, field: bool = False) -> Box | None:
        names = set(self._language.readings(name))
        boxes = [w.box for w in self._widgets if not names.isdisjoint((w.hint,) if field else (w.text, w.desc))]
        return boxes[nth] if -len(boxes) <= nth < len(boxes) else None

    def _centre(self, name: str, nth: int, field: bool = False) -> tuple[int, int]:
        box = self._find(name, nth, field)
        if box is None:
            raise LookupError(f"the expert looked for {name!r} on a screen that reads {self.texts()}")
        return self._point(box)

    def _point(self, box: Box) -> tuple[int, int]:
        width, height = self._size
        x, y = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
        return round(x * COORD_MAX / width), round(y * COORD_MAX / height)
