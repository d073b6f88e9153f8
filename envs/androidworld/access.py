"""Two ways to observe and control AndroidWorld's phone: over adb, or through AndroidWorld's own HTTP routes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from mobilerl.envs.androidworld.client import AndroidWorldClient
from mobilerl.envs.androidworld.tasks import resolve
from mobilerl.envs.base import COORD_MAX, Action, Launch, LongPress, Observation, Swipe, Tap, Transport, Type, Wait
from mobilerl.envs.blocking import OneAtATime
from mobilerl.envs.device import MAX_WAIT_S, no_app
from mobilerl.envs.live_device import LiveDevice, Settle, png_size


class AdbAccess:
    """Access over adb: screenshot, UI tree and foreground app in about a second; text is typed unchanged."""

    settle: str
    """When a screen counts as settled, in words."""

    def __init__(self, transport: Transport, apps: Mapping[str, str], settle: Settle | None = None) -> None:
        self.device = LiveDevice(transport, apps, settle)
        self.settle = str(self.device.settle)
        self._apps = apps
        self._call = OneAtATime()

    async def connect(self) -> None:
        """Raises InfraError unless the phone is ready for use."""
        await self._call(self.device.check)

    async def prepare(self) -> None:
        """Called at the start of an episode."""
        await self._call(self.device.prepare)

    async def observe(self, step: int) -> Observation:
        return await self._call(lambda: self._observe(step))

    def _observe(self, step: int) -> Observation:
        screenshot, xml = self.device.observe()
        return Observation(screenshot, *self.device.size(), xml, self.device.foreground_app(), step)

    async def check(self) -> None:
        """Raises InfraError when the phone has rebooted since `prepare`."""
        await self._call(self.device.check_boot)

    async def act(self, action: Action) -> str:
        """Returns why the action was not carried out (such as launching an unknown app), or ""."""
        if isinstance(action, Launch) and (label := resolve(action.app, self._apps)):
            action = Launch(self._apps[label])
        return await self._call(lambda: self.device.act(action))


class HttpAccess:
    """Access through `/screenshot` and `/execute_action`: no UI tree, no foreground app, 15 s and more for each screen.

    AndroidWorld's actions are coarser than ours. A swipe becomes a scroll of the whole screen in its direction. Typing
    needs a position to tap, for which the last tap is used; it drops non-ASCII characters, so such text is refused, and
    it always ends with Enter.
    """

    settle = "AndroidWorld's: 3 equal element lists 0.5 s apart, at most 6 s"

    def __init__(self, client: AndroidWorldClient, apps: Mapping[str, str]) -> None:
        self._client, self._apps = client, apps
        self._size = (1, 1)
        self._touched: tuple[int, int] | None = None

    async def connect(self) -> None:
        """Does nothing: the server's health is all that can be checked."""

    async def prepare(self) -> None:
        self._touched = None

    async def check(self) -> None:
        """Does nothing: a reboot cannot be detected over HTTP."""

    async def observe(self, step: int) -> Observation:
        png = await self._client.screenshot()
        self._size = png_size(png)
        return Observation(png, *self._size, xml="", app="", step=step)

    async def act(self, action: Action) -> str:
        if isinstance(action, Wait):
            await asyncio.sleep(min(max(action.seconds, 0.0), MAX_WAIT_S))
            return ""
        fields = self._fields(action)
        if isinstance(fields, str):
            return fields
        await self._client.execute(**fields)
        return ""

    def _fields(self, action: Action) -> dict[str, Any] | str:
        """The action in AndroidWorld's format, or why it has none. Refused actions would break the server's adb."""
        if isinstance(action, Tap | LongPress):
            width, height = self._size
            x = min(max(action.x * width // COORD_MAX, 0), width - 1)
            y = min(max(action.y * height // COORD_MAX, 0), height - 1)
            self._touched = x, y
            return {"action_type": "click" if isinstance(action, Tap) else "long_press", "x": x, "y": y}
        if isinstance(action, Swipe):
            return {"action_type": "scroll", "direction": scroll_direction(action)}
        if isinstance(action, Type):
            if not action.text.isascii():
                return "this phone can only be sent ASCII text"
            if self._touched is None:
                return "no text field was tapped before"
            x, y = self._touched
            return {"action_type": "input_text", "text": action.text, "x": x, "y": y, "clear_text": True}
        if isinstance(action, Launch):
            label = resolve(action.app, self._apps)
            return {"action_type": "open_app", "app_name": label.lower()} if label else no_app(action.app)
        names = {"back": "navigate_back", "home": "navigate_home", "enter": "keyboard_enter"}
        return {"action_type": names[action.kind]}


Access = AdbAccess | HttpAccess


def scroll_direction(swipe: Swipe) -> str:
    """Direction of a scroll by the content that comes into view, as AndroidWorld names it: opposite to the finger."""
    dx, dy = swipe.x2 - swipe.x, swipe.y2 - swipe.y
    if abs(dy) >= abs(dx):
        return "down" if dy < 0 else "up"
    return "right" if dx < 0 else "left"
