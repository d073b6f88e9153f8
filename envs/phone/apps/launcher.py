"""The home screen: the time, the date and a tile for every app."""

from __future__ import annotations

from functools import partial

from envs.phone.app import App, Page
from envs.phone.ui import TEXT, Node, Screen
from envs.phone.widgets import grid, spacer, tile

COLUMNS = 4


class Launcher(App):
    package = "com.android.launcher"
    label = "Home"
    authority = "launcher"
    icon = "home"
    color = "#3B5B8C"

    def page_main(self, page: Page) -> Screen:
        now = self.phone.now
        date = f"{now:%A} {now.day} {now:%B}"
        clock = Node(cls=TEXT, text=f"{now:%H:%M}", look="clock", size=52, align="center", height=72)
        day = Node(cls=TEXT, text=date, look="clock", size=15, align="center", height=28)
        apps = [a for a in self.phone.apps.values() if a is not self]
        tiles = [tile(a.label, a.icon, a.color, partial(self.phone.open, a.package)) for a in apps]
        return Screen("Home", [spacer(36), clock, day, spacer(28), *grid(tiles, COLUMNS)], bar=False)
