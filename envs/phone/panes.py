"""Screens of `EXPANDED` dp width or more: a list beside the page opened from it, and tabs in a rail on the left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mobilerl.envs.phone.layout import assemble, dialog_window, enlarge, place
from mobilerl.envs.phone.ui import APP_BAR, NAV_BAR, RAIL, STATUS_BAR, Node, Screen, Tree, keyboard_height

LIST_PANE = 360
TAB_PITCH = 72


@dataclass(frozen=True, slots=True)
class ListDetail:
    """The names of an app's pages that stand on the left and on the right of a wide screen; others take all of it."""

    lists: tuple[str, ...]
    details: tuple[str, ...]
    hint: str
    """Stands on the right while nothing is open."""


def assemble_panes(
    screen: Screen,
    package: str,
    height: int,
    scrolls: Sequence[int],
    keyboard: bool,
    snack: str,
    width: int,
    font_scale: float,
    dialog_scroll: int,
) -> Tree:
    """Lays out a screen with a `side`, a `hint` or tabs. Each pane scrolls by itself: `scrolls`, from the left."""
    keys = keyboard_height(height) if keyboard else 0
    parts = [part for part in (screen.side, screen) if part is not None]
    dialog, screen.dialog = screen.dialog, None
    root, left = Node(cls="android.widget.FrameLayout", look="window", bounds=(0, 0, width, height)), 0
    if parts[0].bottom is not None:
        root.children.append(_rail(parts[0].bottom, height, font_scale))
        parts[0].bottom, left = None, RAIL
    panes = []
    for part, scroll in zip(parts, scrolls, strict=True):
        wide = LIST_PANE if part is screen.side or part.hint else width - left
        pane = assemble(part, package, height, scroll, keyboard, snack if part is screen else "", wide, font_scale)
        _move(pane, left)
        panes.append(pane)
        left += wide
    root.children += [pane.root for pane in panes]
    if screen.hint is not None:
        top = STATUS_BAR + APP_BAR
        enlarge(screen.hint, font_scale)
        place(screen.hint, left, top, width - left, height - top - keys - NAV_BAR)
        root.children.append(screen.hint)
    tree = Tree(root, root, panes[-1].scroll_max, panes[-1].body, keyboard, dialog, panes=tuple(panes))
    if dialog is not None:
        tree.window, tree.dialog_scroll_max = dialog_window(
            dialog, package, width, height, keys, font_scale, dialog_scroll
        )
    return tree


def _rail(tabs: Node, height: int, font_scale: float) -> Node:
    """The tabs of a bottom bar below one another, in the middle of the left edge."""
    enlarge(tabs, font_scale)
    rail = Node(look="rail", children=tabs.children, bounds=(0, 0, RAIL, height))
    pitch = min(TAB_PITCH, (height - STATUS_BAR - NAV_BAR) // len(tabs.children))
    top = (height - pitch * len(tabs.children)) // 2
    for i, tab in enumerate(tabs.children):
        place(tab, 0, top + i * pitch, RAIL, pitch)
    return rail


def _move(tree: Tree, right: int) -> None:
    """Moves a laid-out pane to the right."""
    for node in tree.root.walk():
        x1, y1, x2, y2 = node.bounds
        node.bounds = (x1 + right, y1, x2 + right, y2)
    tree.body = (tree.body[0] + right, tree.body[1], tree.body[2] + right, tree.body[3])
