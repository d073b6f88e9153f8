"""Pop-ups that interrupt an episode: harmless when dismissed, a detour when obeyed.

They appear over the app in front, have the focus until they are answered, and are planned from the phone's seed.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from mobilerl.envs.phone.app import Host
from mobilerl.envs.phone.ui import Dialog
from mobilerl.envs.phone.widgets import label, text_button

SYSTEM_UI, STORE = "com.android.systemui", "com.android.vending"
PERMISSIONS = "com.android.permissioncontroller"
LAST_INPUT = 4
"""Pop-ups appear after the first to the fourth input: short episodes meet them too."""


@dataclass(frozen=True, slots=True)
class Popup:
    """`decline` and `accept` are button labels ("": no such button); accepting leads to the app `leads_to`, or home."""

    package: str
    title: str
    text: str
    decline: str
    accept: str = ""
    leads_to: str = ""

    def dialog(self, phone: Host) -> Dialog:
        def decline() -> None:
            phone.close_popup()

        def accept() -> None:
            phone.close_popup()
            target = phone.app(self.leads_to) if self.leads_to else None
            phone.open((target or phone.launcher).package)

        t = phone.t
        buttons = [text_button(t(self.decline), decline)]
        if self.accept:
            buttons.append(text_button(t(self.accept), accept))
        return Dialog(t(self.title), [label(t(self.text))], buttons)


CATALOGUE = (
    Popup(STORE, "Enjoying this app?", "Tell others what you think of it.", "Not now", "Rate", "Shop"),
    Popup(SYSTEM_UI, "Battery low", "15 % left. Turn on battery saver?", "No thanks", "Settings", "Settings"),
    Popup(SYSTEM_UI, "System update", "An update is ready to install.", "Later", "Install now"),
    Popup(PERMISSIONS, "Allow notifications?", "The app wants to send you news.", "Deny", "Manage", "Settings"),
    Popup(STORE, "Try premium", "No adverts for one month.", "No thanks", "Try it", "Shop"),
    Popup(SYSTEM_UI, "Storage almost full", "Some functions may not work.", "Dismiss", "Free up", "Files"),
    Popup(SYSTEM_UI, "USB connected", "This device is charging.", "OK"),
    Popup(SYSTEM_UI, "What is new", "We made this app faster.", "Got it"),
)


def schedule(rng: random.Random, rate: float) -> dict[int, Popup]:
    """Input number -> pop-up. One with probability `rate`, and a second one with a quarter of it."""
    plan: dict[int, Popup] = {}
    for chance in (rate, rate / 4):
        when, popup, draw = rng.randint(1, LAST_INPUT), rng.choice(CATALOGUE), rng.random()
        if draw < chance and when not in plan:
            plan[when] = popup
    return plan
