"""An embedded phone with a stand-in for map.me, served to an adb server of its own."""

from __future__ import annotations

import asyncio
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import adbutils
from ports import free_port, listens

from envs.phone.adbd import ServedPhone
from envs.phone.app import App, Page
from envs.phone.apps.catalogue import APPS
from envs.phone.phone import Phone
from envs.phone.ui import Screen
from envs.phone.widgets import button, item


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


@contextmanager
def served_phone(home: Path) -> Iterator[tuple[Phone, str]]:
    """The phone, and its address for `--serial`. `home` holds the adb server's keys."""
    port = free_port()
    # Of this machine's emulators the server looks for none: their ports are above this one.
    environment = {**os.environ, "HOME": str(home), "ADB_LOCAL_TRANSPORT_MAX_PORT": "5553"}
    adb = [adbutils.adb_path(), "-P", str(port)]
    (home / ".android").mkdir(parents=True)
    subprocess.run([*adb, "keygen", str(home / ".android/adbkey")], env=environment, check=True, timeout=30)
    server = subprocess.Popen([*adb, "nodaemon", "server"], env=environment, stderr=subprocess.DEVNULL)
    phone = Phone((*APPS, MapMeStandIn), 360, 720)
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    try:
        until = time.monotonic() + 20
        while not listens(port):
            assert time.monotonic() < until and server.poll() is None, "the adb server does not start"
            time.sleep(0.05)
        served = ServedPhone(phone, 0)
        asyncio.run_coroutine_threadsafe(served.start(), loop).result(30)
        yield phone, f"{served.serial}@127.0.0.1:{port}"
        asyncio.run_coroutine_threadsafe(served.stop(), loop).result(30)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        server.kill()
        server.wait()
