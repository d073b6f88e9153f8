"""Draws the sheets of phone screens in this folder: `python docs/images/phone_screens.py [FOLDER]`.

Every screen is reached by touches on a fresh phone with the same content. A folder gets each screen in full size, too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from mobilerl.envs.phone import render
from mobilerl.envs.phone.app import Page
from mobilerl.envs.phone.apps.catalogue import APPS
from mobilerl.envs.phone.panels import QUICK_SETTINGS, SHADE
from mobilerl.envs.phone.phone import Phone

SEED = 7
GAP, BACKGROUND = 12, (189, 193, 198)
COLORS = 256
UPRIGHT, TURNED, TABLET, TABLET_UPRIGHT = (360, 720), (720, 360), (1280, 800), (800, 1280)

Step = str | int | Callable[[Phone], object]
"""A text or a description to touch, the number of a row to touch, or anything else to be done."""


@dataclass(frozen=True)
class Shot:
    """`steps` lead to it from the app's first screen; no app: the home screen."""

    app: str
    steps: tuple[Step, ...] = ()
    size: tuple[int, int] = UPRIGHT
    dark: bool = False
    font: str = "1.0"

    def draw(self) -> Image.Image:
        phone = Phone(APPS)
        phone.reset(SEED)
        phone.settings["system"]["font_scale"] = self.font
        phone.settings["secure"]["ui_night_mode"] = "2" if self.dark else "1"
        phone.settings["system"]["user_rotation"] = "1" if self.size[0] > self.size[1] else "0"
        phone.display.size_override = (2 * min(self.size), 2 * max(self.size))
        phone.display.density_override = 320
        phone.invalidate()
        if self.app:
            phone.launch(phone.app(self.app).package)
        for step in self.steps:
            take(phone, step)
        return render.draw_screen(phone)


def take(phone: Phone, step: Step) -> None:
    if callable(step):
        step(phone)
        phone.invalidate()
        return
    nodes = list(phone.tree().window.walk())
    if isinstance(step, int):
        node = [n for n in nodes if n.look in ("row", "card") and n.clickable][step]
    else:
        node = next(n for n in nodes if step in (n.text, n.desc, n.hint))
    left, top, right, bottom = node.bounds
    phone.tap((left + right) / 2 * phone.scale, (top + bottom) / 2 * phone.scale)


def typed(text: str) -> Step:
    return lambda phone: phone.text(text)


def panel(name: str) -> Step:
    return lambda phone: phone.show_panel(Page(name))


def news(phone: Phone) -> None:
    phone.app("Messages").insert("messages", address="Ελένη Παππά", body="see you at noon", read=0)
    phone.notifications["sale"] = ("Sale today", "Everything for the garden")


def talk(phone: Phone) -> None:
    messages = phone.app("Messages")
    for body, kind in (
        ("Zoë, Привет!", 1),
        ("see you at noon", 2),
        ("Καλημέρα, the train is late", 1),
        ("no problem", 2),
    ):
        messages.insert("messages", address="Иван Петров", body=body, type=kind)


LIGHT = (
    Shot(""),
    Shot("Contacts"),
    Shot("Contacts", (1,)),
    Shot("Contacts", (1, "Edit")),
    Shot("Messages", (talk,)),
    Shot("Messages", (talk, 0)),
    Shot("Notes"),
    Shot("Calculator", ("1", "2", "×", "7")),
    Shot("Calendar"),
    Shot("Calendar", ("Month",)),
    Shot("Clock"),
    Shot("Clock", ("Add alarm",)),
    Shot("Tasks"),
    Shot("Shop"),
    Shot("Music", (1,)),
    Shot("Maps"),
)
DARK = (
    Shot("Settings", dark=True),
    Shot("Settings", ("Display",), dark=True),
    Shot("Settings", ("Display", "Font size"), dark=True),
    Shot("", (news, panel(SHADE)), dark=True),
    Shot("", (panel(QUICK_SETTINGS),), dark=True),
    Shot("Shop", ("Books", 1), dark=True),
    Shot("Music", (1, "Navigate up"), dark=True),
    Shot("Files", ("Documents",), dark=True, font="1.3"),
    Shot("", size=TURNED),
    Shot("Music", (1,), size=TURNED),
    Shot("Calculator", size=TURNED, dark=True),
    Shot("Messages", (talk, 0, "Text message"), size=TURNED, dark=True),
    Shot("Clock", ("Timer",), size=TURNED),
    Shot("Calendar", ("Add event", "Date"), size=TURNED, dark=True),
    Shot("Maps", (0,), size=TURNED),
    Shot("Tasks", size=TURNED, dark=True),
)
TABLETS = (
    Shot("", size=TABLET),
    Shot("Contacts", (1,), size=TABLET),
    Shot("Messages", (talk, 0), size=TABLET, dark=True),
    Shot("Settings", ("Display",), size=TABLET),
    Shot("Notes", size=TABLET, dark=True),
    Shot("Music", (1,), size=TABLET),
    Shot("Shop", ("Books", 1), size=TABLET, dark=True),
    Shot("Calendar", ("Month", "23", 0), size=TABLET),
    Shot("Contacts", (1, "Edit", typed("a")), size=TABLET),
    Shot("Clock", (1, "Time"), size=TABLET, dark=True),
    Shot("Settings", size=TABLET_UPRIGHT),
    Shot("Shop", size=TABLET_UPRIGHT, dark=True),
)


def sheet(rows: list[tuple[list[Image.Image], int]]) -> Image.Image:
    """Rows of images, each of its own height, side by side and as wide as the widest row."""
    scaled = [
        [p.resize((round(p.width * high / p.height), high), Image.Resampling.LANCZOS) for p in row]
        for row, high in rows
    ]
    wide = max(sum(p.width + GAP for p in row) for row in scaled) + GAP
    page = Image.new("RGB", (wide, GAP + sum(row[0].height + GAP for row in scaled)), BACKGROUND)
    y = GAP
    for row in scaled:
        x = (wide - sum(p.width + GAP for p in row) + GAP) // 2
        for image in row:
            page.paste(image, (x, y))
            x += image.width + GAP
        y += row[0].height + GAP
    return page.quantize(COLORS, kmeans=2, dither=Image.Dither.NONE)


def main(folder: Path | None) -> None:
    out = folder or Path(__file__).parent
    light, dark, tablets = ([shot.draw() for shot in shots] for shots in (LIGHT, DARK, TABLETS))
    sheets = {
        "phone-light": [(light[:8], 480), (light[8:], 480)],
        "phone-dark-and-turned": [(dark[:8], 480), (dark[8:12], 240), (dark[12:], 240)],
        "phone-tablets": [(tablets[:3], 400), (tablets[3:6], 400), (tablets[6:9], 400), (tablets[9:], 400)],
    }
    for name, rows in sheets.items():
        sheet(rows).save(out / f"{name}.png", optimize=True)
    if folder is not None:
        for name, images in (("light", light), ("dark", dark), ("tablets", tablets)):
            for i, image in enumerate(images):
                image.save(out / f"{name}-{i:02d}.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
