"""MiniWoB++ on pages: the oracle earns the whole reward, idle agents none, and nothing in a page can change that."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from mobilerl.envs.base import Enter, Finish, InfraError, Tap, Task, Wait
from mobilerl.envs.miniwob.env import MiniWoBEnv, web
from mobilerl.envs.miniwob.tasks import make_task, mobile_templates, templates
from mobilerl.policy.screen import parse_screen
from mobilerl.suites.miniwob.oracle import SCRIPTS, Oracle

from pages import Chromium, needs_miniwob  # isort: skip

pytestmark = needs_miniwob


@pytest.fixture
async def env() -> AsyncIterator[MiniWoBEnv]:
    chromium = Chromium(web(), timeout_s=30.0)
    await chromium.open()
    yield MiniWoBEnv("page", await chromium.new_page(), screenshots=False)
    await chromium.close()


async def solve(env: MiniWoBEnv, task: Task) -> int:
    """Lets the oracle play to the end of an episode. Returns the number of its steps."""
    observation, oracle, steps = await env.reset(task), Oracle(task.template), 0
    while True:
        screen = parse_screen(observation.xml, observation.width, observation.height)
        result = await env.step(oracle.act(env.instruction, screen))
        observation, steps = result.observation, steps + 1
        if result.done:
            assert result.finished
            return steps


async def test_the_oracle_earns_the_whole_reward_on_every_task_that_it_has_a_script_for(env):
    assert len(SCRIPTS) >= 25
    failed = []
    for name in SCRIPTS:
        await solve(env, make_task(name, "dev", 0))
        if await env.score() != 1.0:
            failed.append(name)
    assert not failed


async def test_an_idle_agent_gets_nothing(env):
    for name in ("click-test", "enter-text", "click-checkboxes"):
        await env.reset(make_task(name, "train", 0, max_steps=2))
        first, last = await env.step(Wait(0)), await env.step(Wait(0))
        assert not first.done and last.done and not last.finished and await env.score() == 0.0
        await env.reset(make_task(name, "train", 0))
        assert (await env.step(Finish())).done and await env.score() == 0.0


async def test_equal_seeds_give_equal_episodes_and_others_others(env):
    first = await env.reset(make_task("click-link", "train", 7))
    goal = env.instruction
    await solve(env, make_task("click-tab", "train", 1))
    assert (await env.reset(make_task("click-link", "train", 7))).xml == first.xml and env.instruction == goal
    assert (await env.reset(make_task("click-link", "test", 7))).xml != first.xml


async def test_a_page_that_has_ended_an_episode_starts_the_next_one_as_a_new_page_does(env):
    async def kept() -> bool:
        return await env.page.run("() => { const was = window.kept === true; window.kept = true; return was; }")

    for name in ("choose-list", "click-checkboxes", "click-collapsible", "enter-text", "login-user", "navigate-tree"):
        first, goal = await env.reset(make_task(name, "train", 7)), env.instruction
        assert not await kept()
        await env.page.run("() => { core.endEpisode(-1, false); }")
        await env.step(Wait(0))
        await solve(env, make_task(name, "train", 8))
        assert await kept() and await env.score() == 1.0
        assert (await env.reset(make_task(name, "train", 7))).xml == first.xml and env.instruction == goal
        assert await kept() and await env.score() == 0.0
        await env.step(Finish())
        await env.reset(make_task(name, "train", 7))
        assert not await kept()  # the page had not ended the episode before


async def test_a_page_that_fails_after_it_has_opened_another_task_is_not_taken_for_the_one_before(env, monkeypatch):
    await solve(env, make_task("click-test", "train", 7))
    opened = env.page.open

    async def fail(url: str) -> None:
        await opened(url)
        raise InfraError("no answer")

    with monkeypatch.context() as patched, pytest.raises(InfraError, match="no answer"):
        patched.setattr(env.page, "open", fail)
        await env.reset(make_task("click-dialog", "train", 7))
    await solve(env, make_task("click-test", "train", 8))
    assert env.instruction == "Click the button." and await env.score() == 1.0


async def test_a_page_that_was_left_gives_nothing_although_the_next_one_would(env):
    await env.reset(make_task("click-test", "train", 0))
    await env.page.run("() => { location.reload(); }")
    result = await env.step(Enter())
    assert result.done and "left" in result.note and await env.score() == 0.0


async def test_an_episode_cannot_be_started_again_by_the_agent(env):
    await env.reset(make_task("click-test-2", "train", 0))
    await env.page.run("() => { core.endEpisode(-1, false); }")
    result = await env.step(Tap(499, 499))  # on the cover that says START
    assert result.done and await env.score() == 0.0
    assert await env.page.run("() => WOB_DONE_GLOBAL")


async def test_the_discounted_reward_is_what_was_left_of_the_budget(env):
    env._reward_kind = "discounted"
    steps = await solve(env, make_task("click-tab-2-hard", "dev", 1, max_steps=20))
    assert await env.score() == pytest.approx(1 - (steps - 1) / 20)


def test_the_named_lists_are_those_that_are_published():
    assert len(templates()) == 130 and len(mobile_templates()) == 91  # drag-item is not in the package
