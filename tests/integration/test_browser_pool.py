"""A pool of pages whose pages, and whose browser, are killed: no episode gets a wrong reward."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from playwright.async_api import Error

from mobilerl.envs.browser.pool import BrowserProvider
from mobilerl.envs.miniwob.env import MiniWoBEnv, web
from mobilerl.envs.miniwob.tasks import make_task
from mobilerl.envs.pool import DevicePool, PoolSettings
from mobilerl.rollout.collector import Collector, CollectorSettings
from mobilerl.suites.miniwob.expert import OracleActor

from pages import Chromium, needs_miniwob  # isort: skip

pytestmark = needs_miniwob
NAMES = ("click-test", "click-button", "enter-text", "focus-text-2", "click-tab", "click-dialog")


OF_THE_BROWSER = 0.1
"""Fraction of kills that are of all of Chromium."""


async def kill(chromium: Chromium, rng: random.Random) -> None:
    """Kills a page's process, or now and then all of Chromium."""
    browser = chromium._browser
    if browser is None or not browser.is_connected():
        return
    try:
        async with asyncio.timeout(1):
            session = await browser.new_browser_cdp_session()
            if rng.random() < OF_THE_BROWSER:
                await session.send("Browser.crash")
            elif browser.contexts and (tabs := rng.choice(browser.contexts).pages):
                await (await tabs[0].context.new_cdp_session(tabs[0])).send("Page.crash")
    except (Error, TimeoutError):
        return  # the answer of what was killed


@asynccontextmanager
async def killing(chromium: Chromium, every_s: float) -> AsyncIterator[list[int]]:
    rng, count = random.Random(1), [0]

    async def go_on() -> None:
        while True:
            await asyncio.sleep(every_s * rng.uniform(0.5, 1.5))
            count[0] += 1
            await kill(chromium, rng)

    task = asyncio.create_task(go_on())
    try:
        yield count
    finally:
        task.cancel()


async def play(pages: int, groups: int, every_s: float, size: int = 2) -> tuple[Collector, list[float], int, int]:
    """Plays groups with the oracle. Returns the collector, all rewards, and how often something was killed."""
    chromium = Chromium(web(), timeout_s=20.0)
    provider = BrowserProvider(range(pages), chromium, lambda name, page: MiniWoBEnv(name, page, screenshots=False))
    pool = DevicePool(provider, PoolSettings(pages, quarantine_s=0.5, quarantine_max_s=2.0))
    settings = CollectorSettings(group_size=size, max_retries=30, min_group=1.0)
    async with Collector(pool, OracleActor(), settings) as collector, killing(chromium, every_s) as killed:
        tasks = [make_task(NAMES[i % len(NAMES)], "train", i) for i in range(groups)]
        found = await collector.collect(tasks, "g")
    return collector, [t.reward for group in found for t in group.trajectories], killed[0], chromium.starts


async def test_no_episode_is_lost_or_gets_a_wrong_reward_when_pages_and_browsers_die():
    collector, rewards, killed, starts = await play(pages=8, groups=32, every_s=0.3)
    assert rewards == [1.0] * 64 and not collector.lost
    assert killed and collector.counts["infra_errors"] > 0
