"""A tab of Chromium that is watched: calls have deadlines, and what happens beside them is noted."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from playwright.async_api import BrowserContext, CDPSession, Dialog, Error, Page

from mobilerl.envs.base import InfraError

T = TypeVar("T")
NAVIGATED = re.compile("navigat|execution context|context with specified id|promise was collected", re.IGNORECASE)
"""Parts of Chromium's messages when the page was replaced while a script ran in it."""


class BadStatus(InfraError):
    """The server has answered that there is no such page, or that it has failed."""


class WatchedTab:
    """`events` are notes on dialogs and new windows, which are closed at once."""

    def __init__(self, context: BrowserContext, tab: Page, session: CDPSession, timeout_s: float) -> None:
        self._context, self._tab, self._session, self._timeout_s = context, tab, session, timeout_s
        self.events: list[str] = []
        self._gone: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """Resolved with the reason when the page has crashed or was closed."""
        tab.on("crash", lambda _: self._lose("the page has crashed"))
        tab.on("close", lambda _: self._lose("the page was closed"))
        tab.on("dialog", self._dismiss)
        context.on("page", self._close_window)

    async def send(self, method: str, **arguments: Any) -> dict[str, Any]:
        """A command of the Chrome DevTools Protocol."""
        return await self._do(self._session.send(method, arguments))

    async def run(self, script: str, argument: Any = None, seconds: float | None = None) -> Any:
        """The value of a function of JavaScript, which is repeated once in the new page if the page was replaced."""
        return await self.repeat(lambda tab: self._evaluate(script, argument), seconds)

    async def _evaluate(self, script: str, argument: Any = None) -> Any:
        """As Playwright's method for functions, in a third of its time."""
        said = await self._session.send(
            "Runtime.evaluate",
            {"expression": f"({script})({json.dumps(argument)})", "awaitPromise": True, "returnByValue": True},
        )
        if fault := said.get("exceptionDetails"):
            raise Error(fault.get("exception", {}).get("description") or fault["text"])
        return said["result"].get("value")

    async def use(self, work: Callable[[Page], Coroutine[Any, Any, T]], seconds: float | None = None) -> T:
        """The result of what `work` does with Playwright's page."""
        return await self._do(work(self._tab), seconds)

    async def repeat(self, work: Callable[[Page], Coroutine[Any, Any, T]], seconds: float | None = None) -> T:
        """As `use`, once more in the new page if the page was replaced meanwhile."""
        try:
            return await self.use(work, seconds)
        except InfraError as error:
            if not NAVIGATED.search(str(error)):
                raise
        await self.use(lambda tab: tab.wait_for_load_state("domcontentloaded"))
        return await self.use(work, seconds)

    @property
    def gone(self) -> str:
        """Why the page is lost, or ""."""
        return self._gone.result() if self._gone.done() else ""

    def _lose(self, reason: str) -> None:
        if not self._gone.done():
            self._gone.set_result(reason)

    async def _dismiss(self, dialog: Dialog) -> None:
        self.events.append(f"a dialog was dismissed: {dialog.message[:200]}")
        await self._quietly(dialog.dismiss())

    async def _close_window(self, window: Page) -> None:
        if window != self._tab:
            self.events.append("a new window was closed")
            await self._quietly(window.close())

    async def _quietly(self, work: Coroutine[Any, Any, object]) -> None:
        """For what has failed if the page is gone, which `_do` will find."""
        try:
            await work
        except Error as error:
            self._lose(first_line(error))

    async def _do(self, work: Coroutine[Any, Any, T], seconds: float | None = None) -> T:
        """The result of a call of Playwright. Other errors than Chromium's mean that this code is wrong."""
        seconds = self._timeout_s if seconds is None else seconds
        task = asyncio.ensure_future(work)
        ends: set[asyncio.Future[Any]] = {task, self._gone}
        try:
            await asyncio.wait(ends, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            raise InfraError(self.gone or f"the page does not answer within {seconds:g} s")
        except Error as error:
            raise InfraError(self.gone or first_line(error)) from None
        finally:
            if not task.done():
                task.cancel()


def first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


async def together(waiting: Coroutine[Any, Any, object], acting: Coroutine[Any, Any, object]) -> None:
    """Begins to wait for something, then does it. A page that is left meanwhile gives no answer, and needs none."""
    answers = await asyncio.gather(waiting, acting, return_exceptions=True)
    if faults := [a for a in answers if isinstance(a, BaseException) and not NAVIGATED.search(str(a))]:
        raise faults[0]
