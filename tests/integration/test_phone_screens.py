"""What the phone's images show is what its trees hold, on every screen that the experts visit.

The screens are shown in several scripts, both themes, three font sizes, and on phones and tablets, upright and turned.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from itertools import combinations, product

import pytest

from mobilerl.envs.phone import fonts, render
from mobilerl.envs.phone.app import Page
from mobilerl.envs.phone.apps.catalogue import APPS
from mobilerl.envs.phone.canvas import Written
from mobilerl.envs.phone.console import State, restore_snapshot, take_snapshot
from mobilerl.envs.phone.env import PhoneEnv
from mobilerl.envs.phone.looks import SYMBOLS
from mobilerl.envs.phone.phone import Phone
from mobilerl.envs.phone.tasks.catalogue import TEMPLATES
from mobilerl.envs.phone.tasks.expert import ExpertAgent
from mobilerl.envs.phone.tasks.suite import make_task
from mobilerl.envs.phone.transport import InProcessTransport
from mobilerl.envs.phone.ui import Bounds, Node, Screen, Tree

LETTERS = "abcdefghijklmnopqrstuvwxyz"
SCRIPTS = {
    "Latin, Greek, Cyrillic": "абцдефгхийклмнопярстувжкыз",
    "Arabic": "ابتثجحخدذرزسشصضطظعغفقكلمنه",
    "Devanagari": "अबचदएफगहइजकलमनओपखरसतउवशषयझ",
    "Chinese, Japanese, Korean": "的一是不了人我在有他这中大来上国个到说们为子和你地出",
}
"""The letters that stand for a to z."""
SIZES = ("0.85", "1.0", "1.3")
DISPLAYS = {
    "portrait": ("0", None),
    "landscape": ("1", None),
    "tablet": ("0", (800, 1280)),
    "turned": ("1", (800, 1280)),
}
"""`user_rotation`, and the size in dp if it is not that of a phone."""
OVERHANG = 4
"""How far letters reach below their line, in dp. A line that is partly cut off or covered is not noted as written."""
PER_SCREEN = int(os.environ.get("PHONE_SCREEN_WAYS", "3"))
"""Combinations of theme, font size and display in which each script shows a screen, of 24; together the screens see
all, and `PHONE_SCREEN_WAYS=24` shows every screen in all of them."""


class TranslatedPhone(Phone):
    """Shows its texts in other letters, once `letters` are set."""

    letters = ""

    def _assembled(self, screen: Screen, package: str, page: Page, keyboard: bool = False, snack: str = "") -> Tree:
        shown = [screen, screen.side] if screen.side else [screen]
        tops = [n for s in shown for n in (*s.body, *s.actions, *filter(None, (s.bottom, s.footer, s.hint)))]
        for part in shown:
            part.title = self.translated(part.title)
        if screen.dialog:
            screen.dialog.title = self.translated(screen.dialog.title)
            tops += [*screen.dialog.body, *screen.dialog.buttons]
        for node in (n for top in tops for n in top.walk()):
            node.text, node.hint = self.translated(node.text), self.translated(node.hint)
        return super()._assembled(screen, package, page, keyboard, self.translated(snack))

    def translated(self, text: str) -> str:
        return text.translate(str.maketrans(LETTERS + LETTERS.upper(), 2 * self.letters)) if self.letters else text


@pytest.fixture(scope="module")
def screens() -> list[State]:
    """Every kind of screen that an expert meets, once."""
    phone, found = TranslatedPhone(APPS), {}
    env = PhoneEnv(transport=InProcessTransport(phone), screenshots=False)

    async def walk(template: str) -> None:
        observation = await env.reset(make_task(template, 0))
        agent, done = ExpertAgent(env.template), False
        while not done:
            page, app = phone.panel or phone.foreground.page, phone.foreground
            kind = (
                phone.window_package,
                page.name,
                page.dialog,
                len(page.dialog_args),
                app.snack != "",
                page.focus != "",
            )
            found.setdefault((*kind, page.args.get("tab"), page.args.get("index")), take_snapshot(phone))
            result = await env.step(agent.act(observation))
            observation, done = result.observation, result.done

    for template in TEMPLATES:
        asyncio.run(walk(template))
    return list(found.values())


def arrange(phone: TranslatedPhone, state: State, locale: str, theme: str, size: str, display: str) -> None:
    restore_snapshot(phone, state)
    rotation, tablet = DISPLAYS[display]
    phone.settings["system"]["system_locales"] = locale
    phone.settings["secure"]["ui_night_mode"] = theme
    phone.settings["system"] |= {"font_scale": size, "user_rotation": rotation, "accelerometer_rotation": "0"}
    phone.display.size_override, phone.display.density_override = tablet, tablet and 160


def overlap(a: Bounds, b: Bounds, more_than: int = 0) -> bool:
    across, down = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    return across > more_than and down > more_than


def faults(phone: Phone) -> Iterator[str]:
    written: list[Written] = []
    render.image(phone, written)
    for line in written:
        left, top, right, bottom = line.box
        if left < 0 or top < 0 or right > phone.width or bottom > phone.height:
            yield f"outside the screen: {line}"
        if fonts.missing(line.shown):
            yield f"drawn as boxes: {line}"
    yield from (f"overlap: {a} {b}" for a, b in combinations(written, 2) if overlap(a.box, b.box, more_than=1))
    for node, bounds in shown_texts(phone):
        if not any(overlap(line.box, bounds) and line.text in node.text for line in written):
            yield f"in the tree and not in the picture: {node.text} {bounds}"


def shown_texts(phone: Phone) -> Iterator[tuple[Node, Bounds]]:
    """The nodes whose text can be seen whole, with their bounds in px."""
    tree = phone.tree()
    snack = next((n.bounds for n in tree.root.walk() if n.look == "snack"), (0, 0, 0, 0))

    def walk(node: Node, view: Bounds) -> Iterator[Node]:
        whole = view[1] <= node.bounds[1] and node.bounds[3] + OVERHANG <= view[3]
        if node.text and node.text not in SYMBOLS and not node.password and whole:
            if node.look == "snack" or not overlap(node.bounds, snack, more_than=-OVERHANG):
                yield node
        for child in node.children:
            yield from walk(child, node.bounds if node.look in ("body", "viewport") else view)

    for node in walk(tree.window, tree.root.bounds):
        left, top, right, bottom = (round(side * phone.scale) for side in node.bounds)
        yield node, (left, top, right, bottom)


@pytest.mark.parametrize(
    ("locale", "script"), [*(("en-US", script) for script in ("", *SCRIPTS)), ("de-DE", ""), ("ar-EG", "Arabic")]
)
def test_images_show_what_the_trees_hold(screens, locale, script):
    if script and script not in fonts.stack():
        pytest.skip(f"no font for {script} here: apt-get install {fonts.PACKAGES}")
    phone = TranslatedPhone(APPS)
    phone.letters = SCRIPTS.get(script, "") if locale == "en-US" else ""
    ways = list(product(("1", "2"), SIZES, DISPLAYS))
    assert len(screens) > 80
    panes = set()
    for i, state in enumerate(screens):
        for way in (ways[(5 * i + 7 * k) % len(ways)] for k in range(PER_SCREEN)):
            arrange(phone, state, locale, *way)
            found = list(faults(phone))
            panes.add(len(phone.tree().panes))
            assert not found, f"{phone.window_package} {phone.foreground.page.name}, {way}: {found[:5]}"
    assert panes == {0, 1, 2}


@pytest.mark.parametrize("locale", ["en-US", "de-DE", "ar-EG"])
def test_the_default_look_cuts_nothing(screens, locale):
    """At the default font size on a phone there is room for all texts."""
    if locale == "ar-EG" and "Arabic" not in fonts.stack():
        pytest.skip(f"no font for Arabic here: apt-get install {fonts.PACKAGES}")
    phone, written = TranslatedPhone(APPS), []
    for state in screens:
        arrange(phone, state, locale, "1", "1.0", "portrait")
        render.image(phone, written)
    assert written and [w.text for w in written if w.shown != w.text] == []
