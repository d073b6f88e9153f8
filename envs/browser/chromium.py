"""One Chromium process with the pages of a fleet. It is started when it is first needed, and again when it has died."""

from __future__ import annotations

import asyncio
import shutil
from contextlib import suppress

from playwright.async_api import Browser, Error, Playwright, async_playwright

from mobilerl.envs.base import InfraError
from mobilerl.envs.browser.gate import Gate
from mobilerl.envs.browser.page import Page
from mobilerl.envs.browser.web import Web

PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome")
ARGUMENTS = (
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",  # not around the proxy
    "--disable-gpu",
    # the first is Playwright's, whose list this one replaces; a new document takes a quarter less without a new frame
    "--enable-features=CDPScreenshotNewSurface,RenderDocument:level/crashed-frame",
)
MADE_AT_ONCE, MAKE_S = 4, 30.0
"""Number of pages that are made at the same time, and the time limit for one."""
HOW_TO_GET = "apt-get install chromium, or `playwright install --with-deps chromium`"


class Chromium:
    """Must be opened, used and closed in one event loop. `timeout_s` is for one command."""

    def __init__(self, web: Web, program: str = "", timeout_s: float = 10.0) -> None:
        self.web, self._program, self._timeout_s = web, program, timeout_s
        self._gate = Gate(web.sites)
        self._playwright: Playwright | None = None
        self._browser: Browser | None = None
        self._starting, self._making = asyncio.Lock(), asyncio.Semaphore(MADE_AT_ONCE)
        self._address = ""
        self.starts = 0
        """How often it was started."""

    async def open(self) -> None:
        """Raises InfraError when there is no Chromium that starts."""
        try:
            self._address = await self._gate.start()
            self._playwright = await async_playwright().start()
            await self._running()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Ends Chromium with all pages. Does nothing when it is not open."""
        await self._stop()
        if self._playwright is not None:
            with suppress(Error):
                await self._playwright.stop()
            self._playwright = None
        await self._gate.close()

    async def _stop(self) -> None:
        browser, self._browser = self._browser, None
        if browser is not None:
            with suppress(Error, TimeoutError):
                async with asyncio.timeout(self._timeout_s):
                    await browser.close()

    async def _running(self) -> Browser:
        async with self._starting:
            if self._browser is None or not self._browser.is_connected():
                assert self._playwright is not None
                program = self._program or next(filter(None, map(shutil.which, PROGRAMS)), None)
                try:
                    self._browser = await self._playwright.chromium.launch(
                        executable_path=program,
                        args=ARGUMENTS,
                        proxy={"server": self._address, "bypass": ",".join(["<-loopback>", *self.web.addresses])},
                        handle_sigint=False,
                        handle_sigterm=False,
                        handle_sighup=False,
                    )
                except Error as error:
                    said = str(error).strip().splitlines()[0]
                    raise InfraError(f"Chromium does not start: {said} ({HOW_TO_GET})") from None
                self.starts += 1
            return self._browser

    async def new_page(self) -> Page:
        """A page in a context of its own, which shares nothing with the others. A browser that does not make one is
        ended, since it must be hanging."""
        async with self._making:
            browser = await self._running()
            try:
                async with asyncio.timeout(MAKE_S):
                    return await self._new_page(browser)
            except (Error, TimeoutError) as error:
                if isinstance(error, TimeoutError) and browser is self._browser:
                    await self._stop()
                raise InfraError(f"Chromium makes no page: {str(error) or f'no answer within {MAKE_S:g} s'}") from None

    async def _new_page(self, browser: Browser) -> Page:
        web = self.web
        context = await browser.new_context(
            viewport={"width": web.width, "height": web.height},
            device_scale_factor=web.scale,
            is_mobile=True,
            has_touch=True,
            accept_downloads=False,
            service_workers="block",
        )
        tab = await context.new_page()
        page = Page(web, context, tab, await context.new_cdp_session(tab), self._timeout_s)
        await page.prepare()
        return page
