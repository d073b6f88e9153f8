"""MiniWoB++ on our pages beside the Gymnasium environment of its package: equal actions give equal rewards.

Not of click-link and ascending-numbers, for example: texts are a little wider on a phone's screen, and what is beside
or between them is then elsewhere.

MOBILERL_MINIWOB_PYTHON   interpreter with miniwob, gymnasium and selenium; /usr/bin/chromedriver must be installed
MOBILERL_MINIWOB_SEEDS    episodes of each of the 25 tasks, 4 by default
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

PYTHON = os.environ.get("MOBILERL_MINIWOB_PYTHON", "")
CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
if not (PYTHON and CHROMIUM and DRIVER and find_spec("playwright") and find_spec("miniwob")):
    pytest.skip("needs MOBILERL_MINIWOB_PYTHON, Chromium and its driver", allow_module_level=True)

from mobilerl.envs.base import COORD_MAX, Tap, Type  # noqa: E402
from mobilerl.envs.browser.chromium import Chromium  # noqa: E402
from mobilerl.envs.miniwob.env import MiniWoBEnv, web  # noqa: E402
from mobilerl.envs.miniwob.tasks import make_task  # noqa: E402
from mobilerl.policy.screen import parse_screen  # noqa: E402
from mobilerl.suites.miniwob.oracle import Oracle  # noqa: E402

SEEDS = int(os.environ.get("MOBILERL_MINIWOB_SEEDS", "4"))
WIDTH, HEIGHT = 160, 210
"""Size of a task in CSS pixels."""
MOST_MISTAKES = 3
WATCH = """() => {
  const note = (event) => { window.tapped = [event.clientX, event.clientY]; };
  window.tapped = null;
  addEventListener('mousedown', note, {capture: true, once: true});
}"""
"""Notes where the next tap becomes a click, in CSS pixels."""
TASKS = """
    click-test click-test-2 click-test-transfer click-button odd-or-even click-button-sequence click-checkboxes
    click-checkboxes-large click-option click-tab click-tab-2 click-tab-2-easy click-tab-2-medium click-tab-2-hard
    click-widget enter-text-2 enter-text enter-text-dynamic enter-password focus-text focus-text-2 login-user
    simple-arithmetic find-word identify-shape
""".split()


async def play(env: MiniWoBEnv, name: str, seed: int) -> tuple[list[list], float]:
    """The oracle on even seeds, and taps on any elements on odd ones: the actions and the reward."""
    observation = await env.reset(make_task(name, "train", seed))
    rng, done, actions = random.Random(f"{name}/{seed}"), False, []
    oracle = None if seed % 2 or name == "identify-shape" else Oracle(name)
    while not done and (oracle or len(actions) < MOST_MISTAKES):
        screen = parse_screen(observation.xml, observation.width, observation.height)
        choices = [e for e in screen.elements if "click" in e.actions]
        if oracle:
            action = oracle.act(env.instruction, screen)
        elif choices:
            action = Tap(*rng.choice(choices).centre)
        else:
            break
        if isinstance(action, Type):
            actions.append(["type", action.text])
        else:
            assert isinstance(action, Tap)
            await env.page.run(WATCH)
            actions.append(["tap", action.x * WIDTH / COORD_MAX, action.y * HEIGHT / COORD_MAX])
        result = await env.step(action)
        if isinstance(action, Tap):  # which goes to a target near it, as on a phone; a mouse does not
            actions[-1][1:] = await env.page.run("() => window.tapped") or actions[-1][1:]
        observation, done = result.observation, result.done
    return actions, await env.score()


async def play_all() -> tuple[dict[str, list], list[float]]:
    chromium = Chromium(web(), timeout_s=30.0)
    await chromium.open()
    try:
        env = MiniWoBEnv("page", await chromium.new_page(), screenshots=False)
        played = {name: [await play(env, name, seed) for seed in range(SEEDS)] for name in TASKS}
    finally:
        await chromium.close()
    return (
        {name: [[seed, actions] for seed, (actions, _) in enumerate(found)] for name, found in played.items()},
        [reward for found in played.values() for _, reward in found],
    )


@pytest.mark.slow
def test_equal_actions_give_the_rewards_of_the_packages_own_environment():
    actions, ours = asyncio.run(play_all())
    done = subprocess.run(
        [PYTHON, str(Path(__file__).with_name("miniwob_own.py"))],
        input=json.dumps(actions),
        env={**os.environ, "MINIWOB_CHROME_BINARY": CHROMIUM, "MINIWOB_CHROMEDRIVER": DRIVER, "PYTHONPATH": ""},
        capture_output=True,
        text=True,
        timeout=3600,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    theirs = json.loads(done.stdout)
    differ = [
        (name, seed, max(raw, 0.0), reward)
        for (name, seed, raw), reward in zip(theirs, ours, strict=True)
        if abs(max(raw, 0.0) - reward) > 1e-6
    ]
    assert not differ
    assert len({round(reward, 3) for reward in ours}) > 1
