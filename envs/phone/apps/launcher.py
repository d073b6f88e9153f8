"""The home screen: the time, the date and a tile for every app."""

from __future__ import annotations

from functools import partial

from mobilerl.envs.phone.app import App, Page
from mobilerl.envs.phone.languages.dates import full_day
from mobilerl.envs.phone.ui import COLUMN, LOW_SCREEN, TEXT, Node, Screen
from mobilerl.envs.phone.widgets import grid, spacer, tile

COLUMNS, WIDE_COLUMNS = 4, 6


class Launcher(App):
    package = "com.android.launcher"
    label = "Home"
    authority = "launcher"
    icon = "home"
    color = "#3B5B8C"

    def page_main(self, page: Page) -> Screen:
        now = self.phone.now
        clock = Node(cls=TEXT, text=self.phone.clock, look="clock", size=52, align="center", height=72)
        day = Node(cls=TEXT, text=full_day(self.t, now), look="clock", size=15, align="center", height=28)
        apps = [a for a in self.phone.apps.values() if a is not self]
        tiles = [tile(a.t(a.label), a.icon, a.color, partial(self.phone.open, a.package)) for a in apps]
        width, height = self.phone.size_dp
        above, below = (36, 28) if height >= LOW_SCREEN else (4, 4)
        rows = grid(tiles, COLUMNS if width <= COLUMN else WIDE_COLUMNS)
        return Screen(self.t("Home"), [spacer(above), clock, day, spacer(below), *rows], bar=False)
