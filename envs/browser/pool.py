"""A pool's devices that are pages of one Chromium."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from mobilerl.envs.base import Health, InfraError, MobileEnv
from mobilerl.envs.browser.chromium import Chromium
from mobilerl.envs.browser.page import Page

MakeEnv = Callable[[str, Page], MobileEnv]
"""(device id, page) -> environment of the device."""


class BrowserDevice:
    """Implements `mobilerl.envs.pool.PooledDevice`."""

    def __init__(self, device_id: str, page: Page, make_env: MakeEnv) -> None:
        self.page = page
        self.env = make_env(device_id, page)

    async def refresh(self) -> bool:
        """Returns False for a page that is lost or does not answer: a new one takes less time than to wait for it."""
        try:
            await self.page.clear()
        except InfraError:
            return False
        return True

    async def check(self) -> Health:
        try:
            await self.page.ping()
        except InfraError as error:
            return Health(False, str(error))
        return Health(True)

    async def lost(self) -> bool:
        return bool(self.page.gone)

    async def destroy(self, failed: bool = False) -> None:
        try:
            await self.env.close()
        finally:
            await self.page.close()


class BrowserProvider:
    """Implements `mobilerl.envs.pool.Provider`. `numbers` are the places' numbers among the run's devices."""

    replaces = True

    def __init__(self, numbers: Sequence[int], chromium: Chromium, make_env: MakeEnv) -> None:
        self._numbers, self._chromium, self._make_env = tuple(numbers), chromium, make_env

    def name(self, number: int) -> str:
        return f"page-{self._numbers[number]}"

    async def open(self) -> None:
        await self._chromium.open()

    async def create(self, number: int, generation: int) -> BrowserDevice:
        device_id = self.name(number) if generation == 0 else f"{self.name(number)}.{generation}"
        return BrowserDevice(device_id, await self._chromium.new_page(), self._make_env)

    async def discard(self, number: int, failed: bool = True) -> None:
        """Does nothing: an unfinished context ends with the browser."""

    async def wait_for_return(self, number: int) -> None:
        """Waits forever: a page that cannot be made is tried again when its quarantine ends."""
        await asyncio.get_running_loop().create_future()

    async def close(self) -> None:
        await self._chromium.close()
