"""`Page`: one page as a phone. Coordinates are 0-999 of its screen."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Collection, Coroutine
from typing import Any
from urllib.parse import urlsplit

from playwright.async_api import BrowserContext, CDPSession, Error
from playwright.async_api import Page as Tab

from mobilerl.envs.base import COORD_MAX, Action, InfraError, LongPress, Swipe, Type
from mobilerl.envs.browser.scripts import CLICKED, PICKER, PREPARE_FIELD, SETTLE, VIEWPORT
from mobilerl.envs.browser.snapshot import ARGUMENTS
from mobilerl.envs.browser.tab import BadStatus, WatchedTab, first_line, together
from mobilerl.envs.browser.tree import to_xml
from mobilerl.envs.browser.web import Web
from mobilerl.envs.device import MAX_WAIT_S, TOO_LONG, too_long
from mobilerl.envs.live_device import NO_FIELD

CLICK_MS, SETTLE_MS = 300, 2000
"""The longest time from a tap to its click, which some taps do not have, and until a page is used that does not come to
rest."""
GARBAGE_EVERY = 4
"""Interval in episodes."""
LONG_PRESS_S, SWIPE_S, SWIPE_MOVES = 0.8, 0.2, 8


class Page(WatchedTab):
    """Every method raises InfraError if the page or its browser does not answer as a working one does.

    What happens in a page beside the actions (dialogs, new windows) is in `events`, which `act` empties.
    """

    def __init__(self, web: Web, context: BrowserContext, tab: Tab, session: CDPSession, timeout_s: float) -> None:
        super().__init__(context, tab, session, timeout_s)
        self.web = web
        self._first = 0
        """Place of the first page of the episode in the history, behind which there is nothing to go back to."""
        self._cleared = 0
        self._shown: tuple[float, float] = (web.width, web.height)
        """Width and height in CSS pixels of the part of the page that is on the screen."""

    # --- episodes ----------------------------------------------------------------------------------------------

    async def prepare(self) -> None:
        """Called once for a new page."""
        await self.send("Page.enable")
        screen = {"width": self.web.width, "height": self.web.height, "deviceScaleFactor": self.web.scale}
        # as the context does, but for these commands, whose screenshots would otherwise be of the scale 1
        await self.send("Emulation.setDeviceMetricsOverride", mobile=True, **screen)
        viewport = VIEWPORT % json.dumps(self.web.viewport) if self.web.viewport else ""
        source = PICKER + viewport
        await self.send("Page.addScriptToEvaluateOnNewDocument", source=source, worldName="phone")

    async def open(self, url: str, seconds: float | None = None) -> None:
        """Loads a page, from which Back leads nowhere. `seconds` replaces the time limit of commands. Raises BadStatus
        if the server does not give it."""
        seconds = self._timeout_s if seconds is None else seconds
        answer = await self._do(self._tab.goto(url, timeout=1000 * seconds), seconds)
        if answer is not None and answer.status >= 400:
            raise BadStatus(f"{url} answered {answer.status}")
        await self.begin()

    async def begin(self) -> None:
        """Makes the page as it is the first of an episode."""
        self._first = (await self.send("Page.getNavigationHistory"))["currentIndex"]
        self.events.clear()

    async def clear(self) -> None:
        """Forgets cookies and whatever else the page stored, and now and then the documents of earlier episodes."""
        parts = urlsplit(self._tab.url)
        work: list[Coroutine[Any, Any, object]] = [self._do(self._context.clear_cookies())]
        if parts.scheme in ("http", "https"):
            origin = f"{parts.scheme}://{parts.netloc}"
            work.append(self.send("Storage.clearDataForOrigin", origin=origin, storageTypes="all"))
        await asyncio.gather(*work)
        self._cleared += 1
        if self._cleared % GARBAGE_EVERY == 0:  # Chromium keeps up to a hundred MB of them
            await self.send("HeapProfiler.collectGarbage")

    async def ping(self) -> None:
        await self.run("() => 1")

    async def close(self) -> None:
        """Closes the page with its context. Never waits for a page that hangs for longer than the time limit."""
        self._lose("the page was closed")
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._context.close()
        except (Error, TimeoutError) as error:
            raise InfraError(f"the page cannot be closed: {first_line(error)}") from None

    # --- observations ------------------------------------------------------------------------------------------

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels."""
        return round(self.web.width * self.web.scale), round(self.web.height * self.web.scale)

    async def tree(self, hidden: Collection[str] = (), ask: str = "() => null") -> tuple[str, Any]:
        """The UI tree of the page once it has settled, without the elements whose ids are `hidden`, and what the
        function `ask` of JavaScript returns then. Draws nothing."""
        (zoom, left, top, *focus), said = await self.run(SETTLE % ask, SETTLE_MS)
        captured = await self.send("DOMSnapshot.captureSnapshot", **ARGUMENTS)
        self._shown = self.web.width / zoom, self.web.height / zoom
        return to_xml(captured, (left, top, *self._shown), zoom * self.web.scale, focus, hidden), said

    async def screenshot(self) -> bytes:
        """The screen as PNG."""
        said = await self.send("Page.captureScreenshot", format="png", optimizeForSpeed=True)
        return base64.b64decode(said["data"])

    # --- actions -----------------------------------------------------------------------------------------------

    async def act(self, action: Action) -> str:
        """Carries out an action. Returns why it had no effect and what happened meanwhile, or ""."""
        self.events.clear()
        match action.kind:
            case "tap":
                point = self._point(action.x, action.y)
                await self._do(together(self._evaluate(CLICKED, CLICK_MS), self._tab.touchscreen.tap(*point)))
            case "long_press" | "swipe":
                await self._touch(action)
            case "type":
                return await self._type(action)
            case "enter":
                await self._do(self._tab.keyboard.press("Enter"))
            case "back":
                return await self._back()
            case "wait":
                await asyncio.sleep(min(max(action.seconds, 0.0), MAX_WAIT_S))
            case "launch" | "home":
                return "there are no other apps than this page"
            case _:
                raise TypeError(f"{action.kind} is not an action of a device")
        return ""

    def take_events(self) -> str:
        """What happened in the page since the last action began, as a note."""
        said, self.events = "; ".join(dict.fromkeys(self.events)), []
        return said

    def _point(self, x: int, y: int) -> tuple[float, float]:
        """CSS pixels on the screen from relative coordinates."""
        width, height = self._shown
        return min(max(x * width / COORD_MAX, 0), width - 1), min(max(y * height / COORD_MAX, 0), height - 1)

    async def _touch(self, action: LongPress | Swipe) -> None:
        start = self._point(action.x, action.y)
        end = self._point(action.x2, action.y2) if isinstance(action, Swipe) else start
        await self._finger("touchStart", start)
        if isinstance(action, LongPress):
            await asyncio.sleep(LONG_PRESS_S)
        else:
            for number in range(1, SWIPE_MOVES + 1):
                part = number / SWIPE_MOVES
                await asyncio.sleep(SWIPE_S / SWIPE_MOVES)
                await self._finger("touchMove", _between(start, end, part))
            await asyncio.sleep(SWIPE_S / 2)  # without a pause the page would go on scrolling
        await self._finger("touchEnd")

    async def _finger(self, kind: str, *points: tuple[float, float]) -> None:
        await self.send("Input.dispatchTouchEvent", type=kind, touchPoints=[{"x": x, "y": y} for x, y in points])

    async def _type(self, action: Type) -> str:
        text = action.text
        if too_long(text):
            return TOO_LONG
        ready = await self.run(PREPARE_FIELD, text)
        if ready not in ("type", "replace"):
            return "" if ready == "done" else ready or NO_FIELD
        if ready == "replace":
            await self._do(self._tab.keyboard.press("Backspace"))
        await self._do(self._tab.keyboard.type(text))
        return ""

    async def _back(self) -> str:
        history = await self.send("Page.getNavigationHistory")
        place = history["currentIndex"]
        if place <= self._first:
            return "there is no page to go back to"
        await self.send("Page.navigateToHistoryEntry", entryId=history["entries"][place - 1]["id"])
        return ""


def _between(start: tuple[float, float], end: tuple[float, float], part: float) -> tuple[float, float]:
    return start[0] + part * (end[0] - start[0]), start[1] + part * (end[1] - start[1])
