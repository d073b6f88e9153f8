"""`PageEnv`: what environments on a page of Chromium have in common."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, ClassVar

from mobilerl.envs.base import Health, InfraError, Observation, Task, TaskFault

if TYPE_CHECKING:
    from mobilerl.envs.browser.page import Page


class PageEnv:
    """Base class. The page belongs to its provider."""

    hidden: ClassVar[Collection[str]] = ()
    """Ids of elements that are not in the tree."""
    ask: ClassVar[str]
    """Function of JavaScript that is called at every observation."""

    def __init__(self, device_id: str, page: Page, screenshots: bool) -> None:
        self.device_id, self.page = device_id, page
        self._screenshots = screenshots
        self._task: Task | None = None
        self._said: Any = None
        """What `ask` has returned at the last observation."""
        self._steps = 0
        self._done = False

    async def close(self) -> None:
        """Releases what the environment has beside the page."""

    async def health(self) -> Health:
        try:
            await self.page.ping()
        except InfraError as error:
            return Health(False, str(self._named(error)))
        return Health(True)

    def _app(self) -> str:
        """Name of what the page shows."""
        raise NotImplementedError

    async def _observe(self) -> Observation:
        xml, self._said = await self.page.tree(
            self.hidden, self.ask
        )  # first, since it waits until the page has settled
        png = await self.page.screenshot() if self._screenshots else b""
        return Observation(png, *self.page.size, xml, self._app(), self._steps)

    def _named(self, error: InfraError) -> InfraError:
        """The error with the device's name, unless it is the task's."""
        return error if isinstance(error, TaskFault) else InfraError(f"{self.device_id}: {error}")
