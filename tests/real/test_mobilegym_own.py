"""MobileGym through our suite beside its own runner: equal actions are judged equally.

MOBILERL_MOBILEGYM          checkout in which `npm ci && npm run build` has run
MOBILERL_MOBILEGYM_PYTHON   interpreter with the requirements of its bench_env, Playwright among them
MOBILERL_MOBILEGYM_PAGES    pages at a time, 2 by default
MOBILERL_MOBILEGYM_EPISODES episodes that are played while pages and the browser are killed, 24 by default
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

CHECKOUT, PYTHON = os.environ.get("MOBILERL_MOBILEGYM", ""), os.environ.get("MOBILERL_MOBILEGYM_PYTHON", "")
PROGRAM = shutil.which("chromium-headless-shell") or shutil.which("chromium")
if not (CHECKOUT and PYTHON and PROGRAM and shutil.which("npx") and find_spec("playwright")):
    pytest.skip("needs MOBILERL_MOBILEGYM, MOBILERL_MOBILEGYM_PYTHON, node and Chromium", allow_module_level=True)

sys.path.append(str(Path(__file__).parents[1] / "integration"))
from mobilegym_scripts import SCRIPTS, action  # noqa: E402
from test_browser_pool import killing  # noqa: E402

from mobilerl.envs.base import Action as OurAction  # noqa: E402
from mobilerl.envs.base import Finish, Launch, Observation, Swipe, Tap, Task, TaskFault, Type, Wait  # noqa: E402
from mobilerl.envs.browser.chromium import Chromium  # noqa: E402
from mobilerl.envs.browser.pool import BrowserProvider  # noqa: E402
from mobilerl.envs.mobilegym.bench import Bench  # noqa: E402
from mobilerl.envs.mobilegym.env import MobileGymEnv, web  # noqa: E402
from mobilerl.envs.mobilegym.tasks import find_checkout, list_tasks  # noqa: E402
from mobilerl.envs.pool import DevicePool, PoolSettings  # noqa: E402
from mobilerl.policy.actor import Decision, make_decision  # noqa: E402
from mobilerl.policy.screen import Screen, parse_screen  # noqa: E402
from mobilerl.policy.turns import Turn  # noqa: E402
from mobilerl.rollout.collector import Collector, CollectorSettings  # noqa: E402

PAGES = int(os.environ.get("MOBILERL_MOBILEGYM_PAGES", "2"))
EPISODES = int(os.environ.get("MOBILERL_MOBILEGYM_EPISODES", "24"))
FOLDER = find_checkout(CHECKOUT)
Judged = dict[str, Any]
SCALE = 1000 / 999
"""MobileGym's coordinates go to 1000."""


def tasks(split: str) -> tuple[Task, ...]:
    return list_tasks(FOLDER, PYTHON, split, 1, 42)


def recorded(ours: OurAction) -> list[Any]:
    """The action as MobileGym's own."""
    match ours:
        case Tap():
            return ["CLICK", {"point": [ours.x * SCALE, ours.y * SCALE]}]
        case Swipe():
            points = {"point1": [ours.x * SCALE, ours.y * SCALE], "point2": [ours.x2 * SCALE, ours.y2 * SCALE]}
            return ["SWIPE", points]
        case Type():
            return ["TYPE", {"value": ours.text, "clear": True}]
        case Launch():
            return ["AWAKE", {"value": ours.app}]
        case Wait():
            return ["WAIT", {"value": ours.seconds}]
    return [ours.kind.upper(), {}]


async def play(env: MobileGymEnv, task: Task, script: str) -> tuple[list[Any], Judged]:
    """Plays a script. Returns its actions and the judgment."""
    actions: list[Any] = []
    try:
        observation = await env.reset(task)
        for line in filter(None, script.split(" / ")):
            ours = action(line, parse_screen(observation.xml, observation.width, observation.height))
            actions.append(recorded(ours))
            observation = (await env.step(ours)).observation
        await env.step(Finish())
        await env.score()
    except TaskFault as fault:
        return actions, {"error": str(fault)}
    return actions, env.verdict | {"instruction": env.instruction}


async def play_all(wanted: Sequence[Task], scripts: Mapping[str, str]) -> list[tuple[list[Any], Judged]]:
    chromium = Chromium(web(FOLDER, 1.0), timeout_s=30.0)
    await chromium.open()
    left, played = list(enumerate(wanted))[::-1], {}

    async def work(number: int) -> None:
        page, bench = await chromium.new_page(), Bench(FOLDER, PYTHON)
        env = MobileGymEnv(f"page-{number}", page, bench, screenshots=False)
        while left:
            place, task = left.pop()
            played[place] = await play(env, task, scripts.get(task.template, ""))
            await page.clear()
        await env.close()

    try:
        await asyncio.gather(*map(work, range(PAGES)))
    finally:
        await chromium.close()
    return [played[place] for place in range(len(wanted))]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """MobileGym on its own server."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = ["npx", "vite", "preview", "--host", "127.0.0.1", "--port", str(port), "--strictPort"]
    server = subprocess.Popen(command, cwd=FOLDER, stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        for _ in range(600):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def own_answers(url: str, wanted: Sequence[Task], actions: Sequence[list[Any]], pages: int) -> dict[str, Any]:
    episodes = [[task.template, task.seed, done] for task, done in zip(wanted, actions, strict=True)]
    request = {"url": url, "program": PROGRAM, "pages": pages, "episodes": episodes}
    done = subprocess.run(
        [PYTHON, str(Path(__file__).with_name("mobilegym_own.py"))],
        cwd=FOLDER,
        input=json.dumps(request),
        env={**os.environ, "PYTHONPATH": "", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=7200,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def compare(url: str, wanted: Sequence[Task], scripts: Mapping[str, str]) -> list[Judged]:
    """Our judgments, which are those of MobileGym's own runner but for the words of errors."""
    played = asyncio.run(play_all(wanted, scripts))
    theirs = own_answers(url, wanted, [actions for actions, _ in played], PAGES)["judged"]
    ours = [judged for _, judged in played]
    for task, mine, own in zip(wanted, ours, theirs, strict=True):
        if "error" in mine or "error" in own:
            print(task.template, mine, own, sep="\n  ")
    differ = [
        (task.template, mine, own)
        for task, mine, own in zip(wanted, ours, theirs, strict=True)
        if mine != own and not ("error" in mine and "error" in own)
    ]
    assert not differ
    return ours


@pytest.mark.slow
def test_scripted_actions_are_judged_as_by_its_own_runner(url):
    by_name = {task.template: task for split in ("test", "train") for task in tasks(split)}
    ours = compare(url, [by_name[name] for name in SCRIPTS], SCRIPTS)
    solved = sum(judged.get("success", False) for judged in ours)
    print(f"{solved} of {len(ours)} solved")
    assert len(ours) >= 30 and solved >= 20 and solved < len(ours)


@pytest.mark.slow
def test_an_agent_that_finishes_at_once_is_judged_on_all_test_tasks_as_by_its_own_runner(url):
    ours = compare(url, tasks("test"), scripts={})
    errors = sum("error" in judged for judged in ours)
    print(f"{len(ours)} tasks, {errors} errors, {sum(judged.get('success', False) for judged in ours)} free rewards")
    assert len(ours) == 256 and not any(judged.get("success") for judged in ours)


class ScriptActor:
    """Plays the scripts."""

    async def decide(
        self, task: Task, turns: Sequence[Turn], observation: Observation, screen: Screen, key: str
    ) -> Decision:
        lines = SCRIPTS[task.template].split(" / ")
        return make_decision(action(lines[len(turns)], screen) if len(turns) < len(lines) else Finish())


async def play_while_killed(wanted: Sequence[Task]) -> tuple[Collector, dict[str, list[float]], int, int]:
    """Plays groups of two episodes. Returns the collector, the rewards by task, and how often something was killed and
    Chromium was started."""
    chromium = Chromium(web(FOLDER, 1.0), timeout_s=30.0)
    provider = BrowserProvider(
        range(PAGES), chromium, lambda name, page: MobileGymEnv(name, page, Bench(FOLDER, PYTHON), screenshots=False)
    )
    pool = DevicePool(provider, PoolSettings(PAGES, quarantine_s=0.5, quarantine_max_s=2.0))
    settings = CollectorSettings(group_size=2, max_retries=30, min_group=1.0)
    rewards: dict[str, list[float]] = {task.id: [] for task in wanted}
    async with Collector(pool, ScriptActor(), settings) as collector, killing(chromium, 12.0) as killed:
        groups = await collector.collect([wanted[i % len(wanted)] for i in range(EPISODES // 2)], "g")
    for group in groups:
        rewards[group.task.id] += [t.reward for t in group.trajectories]
    return collector, rewards, killed[0], chromium.starts


@pytest.mark.slow
def test_no_episode_is_lost_or_gets_a_wrong_reward_when_pages_and_browsers_die():
    by_name = {task.template: task for split in ("test", "train") for task in tasks(split)}
    wanted = [by_name[name] for name in SCRIPTS]
    expected = [float(judged["success"]) for _, judged in asyncio.run(play_all(wanted, SCRIPTS))]
    collector, rewards, killed, starts = asyncio.run(play_while_killed(wanted))
    print(
        f"{sum(map(len, rewards.values()))} episodes, {killed} kills, {starts} starts of Chromium, {collector.counts}"
    )
    assert not collector.lost and sum(map(len, rewards.values())) == EPISODES // 2 * 2
    assert all(set(rewards[task.id]) <= {right} for task, right in zip(wanted, expected, strict=True))
    assert killed and collector.counts["infra_errors"] > 0
