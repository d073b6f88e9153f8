"""An embedded phone with a stand-in for map.me. Takes the arguments of `python -m mobilerl.envs.phone`."""

from __future__ import annotations

import sys

from mobilerl.envs.phone import serve
from mobilerl.envs.phone.app import App, Page
from mobilerl.envs.phone.apps import catalogue
from mobilerl.envs.phone.ui import Screen
from mobilerl.envs.phone.widgets import button, item


class MapMeStandIn(App):
    """Two pages with the words of map.me's that the judges of AndroidLab's navigation tasks look for."""

    package = "com.mapswithme.maps.pro"
    label = "Map stand-in"
    authority = "mapme"
    icon = "map"
    color = "#1E88E5"

    def page_main(self, page: Page) -> Screen:
        rows = [item(to, on_tap=lambda to=to: self.go("route", to=to)) for to in ("OpenAI", "Stanford University")]
        return Screen("Search", rows)

    def page_route(self, page: Page) -> Screen:
        start = button("Start", lambda: self.toast("Route started"))
        return Screen("Route", [item("My location"), item(page.args["to"]), start], on_up=self.up)


if __name__ == "__main__":
    catalogue.APPS = (*catalogue.APPS, MapMeStandIn)
    sys.exit(serve.main())
