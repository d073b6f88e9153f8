"""What the tests of pages share: whether there is a browser, and a small site."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

from mobilerl.envs.browser.web import Web
from mobilerl.policy.screen import Element, Screen, parse_screen

PROGRAMS = ("chromium-headless-shell", "chromium", "google-chrome")
if find_spec("playwright") is None or not any(map(shutil.which, PROGRAMS)):
    pytest.skip("needs playwright and Chromium", allow_module_level=True)

from mobilerl.envs.browser.chromium import Chromium  # noqa: E402
from mobilerl.envs.browser.page import Page  # noqa: E402

needs_miniwob = pytest.mark.skipif(find_spec("miniwob") is None, reason="needs miniwob")
HEAD = '<!doctype html><meta name="viewport" content="width=device-width"><style>body {margin: 0}</style>'


def site(folder: Path, **pages: str) -> Web:
    """A site of these pages, as http://site/NAME.html on a screen of 200 x 400 pixels."""
    for name, body in pages.items():
        (folder / f"{name}.html").write_text(f"{HEAD}<body>{body}")
    return Web(200, 400, sites={"site": folder})


@asynccontextmanager
async def opened(web: Web, name: str = "index", timeout_s: float = 20.0) -> AsyncIterator[Page]:
    chromium = Chromium(web, timeout_s=timeout_s)
    await chromium.open()
    try:
        page = await chromium.new_page()
        await page.open(f"http://site/{name}.html")
        yield page
    finally:
        await chromium.close()


async def screen_of(page: Page) -> Screen:
    return parse_screen((await page.tree())[0], *page.size)


async def element(page: Page, text: str) -> Element:
    screen = await screen_of(page)
    return next(e for e in screen.elements if e.text == text)
