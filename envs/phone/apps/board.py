"""A board of tiles, each with an icon, a color and a switch, in an order of its own on every phone.

Nothing on it is written out, so that its tasks show whether an agent sees. It is only on the phones of these tasks.
"""

from __future__ import annotations

import random

from mobilerl.envs.phone.app import App, Page, Row
from mobilerl.envs.phone.ui import IMAGE, Node, Screen
from mobilerl.envs.phone.widgets import flip, grid, mark

COLORS = {
    "red": "#E53935",
    "green": "#43A047",
    "blue": "#1E50E5",
    "yellow": "#FDD835",
    "purple": "#7B1FA2",
    "orange": "#FB8C00",
    "pink": "#F48FB1",
    "brown": "#6D4C41",
    "black": "#202124",
}
ICONS = {
    "star": "star_filled",
    "heart": "heart_filled",
    "moon": "moon",
    "sun": "sun",
    "bell": "bell",
    "house": "home",
    "car": "car",
    "cup": "cup",
    "mail": "mail",
}
COLUMNS = 3


class Board(App):
    package = "com.example.board"
    label = "Board"
    authority = "board"
    icon = "list"
    color = "#5F6368"
    tables = {"tiles": {"color": "", "icon": "", "on": 0}}

    def populate(self, rng: random.Random) -> None:
        """Every color and every icon once."""
        for color, icon in zip(
            rng.sample(sorted(COLORS), len(COLORS)), rng.sample(sorted(ICONS), len(ICONS)), strict=True
        ):
            self.insert("tiles", color=color, icon=icon)

    def page_main(self, page: Page) -> Screen:
        return Screen(self.label, grid([_tile(row) for row in self.db["tiles"]], COLUMNS))


def _tile(row: Row) -> Node:
    """A tile whose whole area flips the switch below its icon."""
    color = COLORS.get(row["color"], "")
    picture = Node(cls=IMAGE, look="tile", icon=ICONS.get(row["icon"], "info"), color=color, height=130)
    switch = Node(axis="row", children=[Node(), mark("Switch", bool(row["on"]), (48, 28)), Node()])
    return Node(
        desc=f"{row['color']} {row['icon']}",
        checkable=True,
        checked=bool(row["on"]),
        height=180,
        children=[picture, switch],
        on_tap=flip(row, "on"),
    )
