"""Pop-ups that interrupt an episode: harmless when dismissed, a detour when obeyed.

They come up over whatever app is open, own the focus until they are answered, and are planned from the phone's seed.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from envs.phone.ui import Dialog, Handler
from envs.phone.widgets import label, text_button

if TYPE_CHECKING:
    from envs.phone.phone import Phone

LAST_INPUT = 4
"""Pop-ups come up after the first to the fourth input, so that short episodes meet them too."""


@dataclass(frozen=True, slots=True)
class Popup:
    """`decline` and `accept` are button labels ("": no such button); accepting leads to the app `leads_to`, or home."""

    package: str
    title: str
    text: str
    decline: str
    accept: str = ""
    leads_to: str = ""

    def dialog(self, phone: Phone) -> Dialog:
        buttons = [text_button(self.decline, _dismiss(phone))]
        if self.accept:
            buttons.append(text_button(self.accept, _accept(phone, self.leads_to)))
        return Dialog(self.title, [label(self.text)], buttons)


CATALOGUE = (
    Popup("com.android.vending", "Enjoying this app?", "Tell others what you think of it.", "Not now", "Rate", "Shop"),
    Popup("com.android.systemui", "Battery low", "15 % left. Turn on battery saver?", "No thanks", "Settings",
          "Settings"),
    Popup("com.android.systemui", "System update", "An update is ready to install.", "Later", "Install now"),
    Popup("com.android.permissioncontroller", "Allow notifications?", "The app wants to send you news.", "Deny",
          "Manage", "Settings"),
    Popup("com.android.vending", "Try premium", "No adverts for one month.", "No thanks", "Try it", "Shop"),
    Popup("com.android.systemui", "Storage almost full", "Some functions may not work.", "Dismiss", "Free up", "Files"),
    Popup("com.android.systemui", "USB connected", "This device is charging.", "OK"),
    Popup("com.android.systemui", "What is new", "We made this app faster.", "Got it"),
)  # fmt: skip


def schedule(rng: random.Random, rate: float) -> dict[int, Popup]:
    """Input number -> pop-up. One with probability `rate`, and a second one with a quarter of it."""
    plan: dict[int, Popup] = {}
    for chance in (rate, rate / 4):
        when, popup, draw = rng.randint(1, LAST_INPUT), rng.choice(CATALOGUE), rng.random()
        if draw < chance and when not in plan:
            plan[when] = popup
    return plan


def _dismiss(phone: Phone) -> Handler:
    def handler() -> None:
        phone.popup = None

    return handler


def _accept(phone: Phone, leads_to: str) -> Handler:
    def handler() -> None:
        phone.popup = None
        target = phone.app(leads_to) if leads_to else None
        phone.open((target or phone.launcher).package)

    return handler
