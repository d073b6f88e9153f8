"""Worked examples in the prompt, and the question that a judge must answer correctly before it is used.

The images in screens/ were taken from the embedded phone and reduced to 64 colors. They are files, so that a prompt
keeps its hash if the phone's appearance changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

SCREENS = Path(__file__).parent / "screens"


@dataclass(frozen=True, slots=True)
class Case:
    """One question to the judge."""

    instruction: str
    screenshot: bytes
    """PNG of the final screen."""
    actions: tuple[str, ...] = ()
    """Last actions in words, oldest first."""
    answer: str | None = None
    """None if the agent did not say that it was done, "" if it said only that."""
    before: Mapping[int, bytes] = field(default_factory=dict)
    """PNGs of earlier screens, by the index of the action in `actions` that was taken on each."""


@dataclass(frozen=True, slots=True)
class Example:
    """One question and its correct response."""

    screen: str
    """Name of a file in screens/, without suffix."""
    words: str
    """What the screen shows, in words."""
    instruction: str
    actions: tuple[str, ...]
    answer: str
    expected: str
    seen: str
    success: bool

    @property
    def case(self) -> Case:
        return Case(self.instruction, (SCREENS / f"{self.screen}.png").read_bytes(), self.actions, self.answer)

    @property
    def response(self) -> str:
        return f"Q: {self.expected}\nA: {self.seen}\nStatus: {'success' if self.success else 'failure'}"


EXAMPLES = (
    Example(
        screen="alarm",
        words="The alarms of the Clock app: 9:40 on, 14:30 on, 19:35 on, 20:10 off. A note says: Alarm set for 14:30.",
        instruction="Set an alarm for 14:30 in Clock",
        actions=("tap 14", "tap 30"),
        answer="",
        expected="The list of alarms should hold one for 14:30, and it should be switched on.",
        seen="The list holds 14:30 with its switch on, and the note confirms it.",
        success=True,
    ),
    Example(
        screen="contact",
        words="The form New contact, with a tick at the top right. First name Iris, Last name Weber, Phone 63 21 94. "
        "The cursor stands in the field Phone over an open keyboard.",
        instruction="Create a contact for Iris Weber with the phone number 63 21 94",
        actions=("tap Phone", "type 63 21 94"),
        answer="",
        expected="The contact should be saved: a page or a list with Iris Weber, or a note that she was saved.",
        seen="All fields are right, but the form is still open for editing. Nothing was saved.",
        success=False,
    ),
    Example(
        screen="price",
        words="The category Kitchen of the Shop app: Kettle 38.00, Toaster 92.00, Blender 68.00, Teapot 3.50, "
        "Pan 4.50, Mug 58.50, Bowl 81.00, Knife 55.00, Scale 27.00, Grill.",
        instruction="Look up the price of the Toaster in Kitchen",
        actions=("open Shop", "tap Kitchen"),
        answer="92.00",
        expected="The answer should be the price that Shop shows for the Toaster.",
        seen="The list of Kitchen shows the Toaster for 92.00, and the answer is 92.00.",
        success=True,
    ),
    Example(
        screen="cart",
        words="The page of the article Knife in the Shop app: 86.00, in stock, quantity 3, button Add to cart. A note "
        "says: Added to cart.",
        instruction="Put two of the Knife in the shopping cart",
        actions=("tap More", "tap Add to cart"),
        answer="The two knives are in the cart.",
        expected="The Knife should have been added to the cart with quantity 2.",
        seen="It was added to the cart, but the quantity is 3. What the agent says does not match the screen.",
        success=False,
    ),
)

PROBE = Example(
    screen="home",
    words="The home screen of the phone: the time 15:34, Sunday 15 October, and the icons of twelve apps.",
    instruction="Set an alarm for 6:45 in Clock",
    actions=(),
    answer="",
    expected="The list of alarms should hold one for 6:45, and it should be switched on.",
    seen="The phone shows its home screen. Nothing was done.",
    success=False,
)
