"""MobileGym through our suite beside its own runner: equal actions are judged equally.

MOBILERL_MOBILEGYM          checkout in which `npm ci && npm run build` has run
MOBILERL_MOBILEGYM_PYTHON   interpreter with the requirements of its bench_env, Playwright among them
MOBILERL_MOBILEGYM_PAGES    pages at a time, 2 by default
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
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

from mobilegym_scripts import SCRIPTS, action  # noqa: E402

from mobilerl.envs.base import Action as OurAction  # noqa: E402
from mobilerl.envs.base import Finish, Launch, Swipe, Tap, Task, TaskFault, Type, Wait  # noqa: E402
from mobilerl.envs.browser.chromium import Chromium  # noqa: E402
from mobilerl.envs.mobilegym.bench import Bench  # noqa: E402
from mobilerl.envs.mobilegym.env import MobileGymEnv, web  # noqa: E402
from mobilerl.envs.mobilegym.tasks import find_checkout, list_tasks  # noqa: E402
from mobilerl.policy.screen import parse_screen  # noqa: E402

PAGES = int(os.environ.get("MOBILERL_MOBILEGYM_PAGES", "2"))
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


def own_judgments(url: str, wanted: Sequence[Task], actions: Sequence[list[Any]]) -> list[Judged]:
    episodes = [[task.template, task.seed, done] for task, done in zip(wanted, actions, strict=True)]
    request = {"url": url, "program": PROGRAM, "pages": PAGES, "episodes": episodes}
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
    theirs = own_judgments(url, wanted, [actions for actions, _ in played])
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
