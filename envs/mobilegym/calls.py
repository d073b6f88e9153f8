"""What MobileGym's own Python does to a page of ours, as `bench_child` asks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mobilerl.envs.mobilegym.bench import CallFault

if TYPE_CHECKING:
    from mobilerl.envs.browser.page import Page

CALL_S = 60.0
"""Time limit of what may load data, in seconds."""


async def use_page(page: Page, name: str, args: list[Any]) -> Any:
    """The result of a call of Playwright's page, its keyboard or touch screen. Raises CallFault for others, and
    InfraError."""
    match name, args:
        case "evaluate", [script, argument]:
            return await page.repeat(lambda tab: tab.evaluate(script, argument), CALL_S)
        case "goto", [url]:
            await page.open(url, CALL_S)
        case "wait_for_function", [script]:
            await page.use(lambda tab: tab.wait_for_function(script, timeout=1000 * CALL_S), CALL_S)
        case "wait_for_load_state", [state]:
            await page.use(lambda tab: tab.wait_for_load_state(state))
        case "press", [key]:
            await page.use(lambda tab: tab.keyboard.press(key))
        case "type", [text]:
            await page.use(lambda tab: tab.keyboard.type(text))
        case "tap", [x, y]:
            await page.use(lambda tab: tab.touchscreen.tap(x, y))
        case _:
            raise CallFault(f"pages have no {name} with {len(args)} arguments")
    return None
