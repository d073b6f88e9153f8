"""Steps per second and memory of pages of Chromium, on which the oracle plays MiniWoB++."""

from __future__ import annotations

import asyncio
import os
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from mobilerl.envs.base import InfraError
from mobilerl.envs.miniwob.env import MiniWoBEnv, web
from mobilerl.envs.miniwob.tasks import make_task
from mobilerl.policy.screen import parse_screen
from mobilerl.suites.miniwob.oracle import SCRIPTS, Oracle

if TYPE_CHECKING:
    from mobilerl.envs.browser.chromium import Chromium

TICKS = os.sysconf("SC_CLK_TCK")
WARM_S = 2.0


def measure(pages: Sequence[int], seconds: float, repeats: int) -> list[dict[str, float | str]]:
    """A row per number of pages, with and without screenshots.

    Resets are part of it: an episode of the oracle has two or three steps. `cpu_ms_per_step` is that of all processes.
    Memory is the proportional set size, `mb_per_page` that of the pages' renderers and `mb_in_all` of all processes.
    """
    return [asyncio.run(_measure(number, seconds, repeats, seen)) for number in pages for seen in (False, True)]


async def _measure(number: int, seconds: float, repeats: int, seen: bool) -> dict[str, float | str]:
    from mobilerl.envs.browser.chromium import Chromium

    chromium = Chromium(web(), timeout_s=60.0)
    await chromium.open()
    try:
        players = [_Player(chromium, i, repeats, seen) for i in range(number)]
        await asyncio.gather(*(player.start() for player in players))
        playing = [asyncio.create_task(player.play()) for player in players]
        await asyncio.sleep(WARM_S)
        for player in players:
            player.steps = player.resets = 0
        began, cpu = time.perf_counter(), _cpu_s()
        await asyncio.sleep(seconds)
        spent, used = time.perf_counter() - began, _cpu_s() - cpu
        memory, own = _memory_mb()
        for task in playing:
            task.cancel()
        await asyncio.gather(*playing, return_exceptions=True)
    finally:
        await chromium.close()
    steps, resets = sum(p.steps for p in players), sum(p.resets for p in players)
    return {
        "pages": number,
        "screenshots": "yes" if seen else "no",
        "steps_per_s": steps / spent,
        "episodes_per_s": resets / spent,
        "cpu_ms_per_step": 1000 * used / max(steps, 1),
        "cores": used / spent,
        "mb_per_page": own / number,
        "mb_in_all": memory,
    }


class _Player:
    """A page on which the oracle plays one episode after the other, `repeats` of each task in a row."""

    def __init__(self, chromium: Chromium, number: int, repeats: int, seen: bool) -> None:
        self._chromium, self._number, self._repeats, self._seen = chromium, number, repeats, seen
        self.steps = self.resets = 0

    async def start(self) -> None:
        page = await self._chromium.new_page()
        self._env = MiniWoBEnv(f"page-{self._number}", page, self._seen)

    async def play(self) -> None:
        names = list(SCRIPTS)
        for episode in count():
            task = make_task(names[(self._number + episode // self._repeats) % len(names)], "train", episode)
            observation, oracle, done = await self._env.reset(task), Oracle(task.template), False
            self.resets += 1
            while not done:
                screen = parse_screen(observation.xml, observation.width, observation.height)
                try:
                    action = oracle.act(self._env.instruction, screen)
                except LookupError:
                    break
                result = await self._env.step(action)
                observation, done, self.steps = result.observation, result.done, self.steps + 1
            await self._env.page.clear()


def _processes() -> Iterator[Path]:
    """This process and its descendants, in /proc."""
    below: dict[int, list[int]] = defaultdict(list)
    for folder in Path("/proc").glob("[0-9]*"):
        if (words := _stat(folder)) is not None:
            below[int(words[1])].append(int(folder.name))
    left = [os.getpid()]
    while left:
        process = left.pop()
        left += below[process]
        yield Path(f"/proc/{process}")


def _stat(folder: Path) -> list[str] | None:
    """The fields behind the name of a process; None if it has ended."""
    try:
        return (folder / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None


def _cpu_s() -> float:
    found = (_stat(folder) for folder in _processes())
    return sum((int(words[11]) + int(words[12])) / TICKS for words in found if words)


def _memory_mb() -> tuple[float, float]:
    """Proportional set size of all processes, and of the pages' renderers alone."""
    total = own = 0.0
    for folder in _processes():
        try:
            lines = (folder / "smaps_rollup").read_text().splitlines()
            renderer = "--type=renderer" in (folder / "cmdline").read_text()
        except OSError:
            continue
        size = next(int(line.split()[1]) / 1024 for line in lines if line.startswith("Pss:"))
        total, own = total + size, own + size * renderer
    if not own:
        raise InfraError("no page of Chromium runs")
    return total, own
