"""What an episode of MobileGym costs on a page of ours, and a step beside its own runner's. Needs what
`test_mobilegym_own.py` needs, and a machine that does nothing else; run it with `-s` for the figures.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Sequence

import pytest
from mobilegym_scripts import SCRIPTS, action
from test_mobilegym_own import FOLDER, PYTHON, own_answers, recorded, tasks, url  # noqa: F401 - a fixture

from mobilerl.benchmarks.browser import _cpu_s, _memory_mb
from mobilerl.envs.base import Finish, Task
from mobilerl.envs.browser.chromium import Chromium
from mobilerl.envs.mobilegym.bench import Bench
from mobilerl.envs.mobilegym.env import MobileGymEnv, web
from mobilerl.policy.screen import parse_screen

TEMPLATES = list(SCRIPTS)[::3][:10]


async def play(wanted: Sequence[Task], scale: float, seen: bool) -> tuple[list[list], list[float]]:
    """Plays the scripts on one page, and prints the cost. Returns the actions by task, and the seconds of each step."""
    chromium = Chromium(web(FOLDER, scale), timeout_s=60.0)
    await chromium.open()
    env = MobileGymEnv("page", await chromium.new_page(), Bench(FOLDER, PYTHON), seen)
    taken, setups, episodes, played = [], [], [], []
    try:
        await env.reset(wanted[0])  # starts its process of MobileGym's Python
        cpu = _cpu_s()
        for task in wanted:
            began = time.perf_counter()
            observation, actions = await env.reset(task), []
            setups.append(time.perf_counter() - began)
            for line in SCRIPTS[task.template].split(" / "):
                ours = action(line, parse_screen(observation.xml, observation.width, observation.height))
                actions.append(recorded(ours))
                start = time.perf_counter()
                observation = (await env.step(ours)).observation
                taken.append(time.perf_counter() - start)
            await env.step(Finish())
            await env.score()
            episodes.append(time.perf_counter() - began)
            played.append(actions)
        used, (total, page) = _cpu_s() - cpu, _memory_mb()
    finally:
        await env.close()
        await chromium.close()
    print(
        f"\nscale {scale:g}, screenshots {seen}: {len(taken)} steps of {statistics.median(taken):.2f} s, set-up "
        f"{statistics.median(setups):.1f} s (medians); an episode {statistics.mean(episodes):.1f} s and "
        f"{used / len(wanted):.1f} core s (means); {page:.0f} MB a page, {total:.0f} MB in all"
    )
    return played, taken


@pytest.mark.slow
def test_a_step_takes_less_time_than_its_own_runners(url):  # noqa: F811 - a fixture
    by_name = {task.template: task for split in ("test", "train") for task in tasks(split)}
    wanted = [by_name[name] for name in TEMPLATES]
    asyncio.run(play(wanted, 1.0, seen=False))
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(2):  # in turn, as the machine's speed changes
        played, taken = asyncio.run(play(wanted, 3.0, seen=True))
        ours += taken
        theirs += own_answers(url, wanted, played, pages=1)["steps_s"]
    print(f"a step, median: ours {statistics.median(ours):.2f} s, its own runner's {statistics.median(theirs):.2f} s")
    assert len(ours) == len(theirs) and statistics.median(ours) < statistics.median(theirs)
