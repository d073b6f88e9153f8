"""A phone that is killed in the middle of a run, and started again: what the terminal says, and when."""

from __future__ import annotations

import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from ports import free_port, listens
from prepared import program

from mobilerl.models import tiny

pytestmark = pytest.mark.slow
SOON_S = 30.0
"""It takes a second or two, and the machine may be busy. Without a look at what is lost or returns it were minutes."""


class Served:
    """`mobilerl phone serve` in a process of its own."""

    def __init__(self) -> None:
        self.port = free_port()
        self.serial = f"127.0.0.1:{self.port}"
        self.start()

    def start(self) -> None:
        words = ["phone", "serve", "--count", "1", "--port", str(self.port), "--width", "180", "--height", "360"]
        self.process = subprocess.Popen([program(), *words], stdout=subprocess.DEVNULL)
        until = time.monotonic() + 120
        while not listens(self.port):
            assert time.monotonic() < until, "the phone does not start"
            time.sleep(0.05)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def served() -> Iterator[list[Served]]:
    made = [Served(), Served()]
    yield made
    for phone in made:
        phone.kill()


class Said:
    """The lines that a process prints, as they come."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.lines: list[str] = []
        self._new: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, args=(process,), daemon=True).start()

    def _read(self, process: subprocess.Popen[str]) -> None:
        for line in process.stdout or ():
            self._new.put(line)

    def until(self, pattern: str, seconds: float) -> str:
        """The next line with this pattern."""
        end = time.monotonic() + seconds
        while True:
            try:
                self.lines.append(self._new.get(timeout=max(0.0, end - time.monotonic())))
            except queue.Empty:
                raise AssertionError(f"no {pattern!r} in {seconds:g} s, but\n{''.join(self.lines)}") from None
            if re.search(pattern, self.lines[-1]):
                return self.lines[-1]


@pytest.mark.parametrize("workers", [0, 2])
def test_the_terminal_names_a_phone_that_dies_and_returns(adb, served, tmp_path, workers):
    torch.manual_seed(0)
    tiny.create(tmp_path / "model", ["pause the music"], hidden=16, layers=1, heads=2, vision_hidden=16)
    flags = f"""--config adagrpo --model {tmp_path}/model --run-dir {tmp_path}/run --fleet.type adb --fleet.spares 0
        --fleet.count 2 --train.iterations 1000 --agent.screenshots 0
        --agent.max_new_tokens 8 --eval.every 0 --tasks.per_template 2 --rollout.tasks_per_iteration 2
        --rollout.workers {workers} --rollout.max_staleness 0 --algorithm.group_size 2 --engine.threads 1
        --algorithm.dynamic_sampling false --algorithm.curriculum.type uniform""".split()
    flags += ["--fleet.serials", json.dumps([phone.serial for phone in served])]
    flags += ["--tasks.templates", '["MusicPause"]']
    own = {"ANDROID_ADB_SERVER_PORT": str(adb.port), "HOME": str(adb.home), "PYTHONUNBUFFERED": "1"}
    run = subprocess.Popen(
        [sys.executable, "-m", "mobilerl", "train", *flags],
        env=os.environ | own | {"PYTHONPATH": str(Path(__file__).parents[2])},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    said, dead = Said(run), served[0]
    try:
        said.until("^devices +2 adb devices: " + re.escape(dead.serial), 300)
        said.until("^iter +1", 300)
        dead.kill()
        assert "Connection refused" in said.until(f"device {dead.serial} quarantined", SOON_S)
        assert any(f"device {dead.serial} failed: " in line for line in said.lines)
        time.sleep(35)  # after quarantines of 10 and 20 seconds there is one of 40
        dead.start()
        said.until(f"device {dead.serial} back after \\d+ s", SOON_S)
        run.send_signal(signal.SIGINT)
        assert run.wait(120) == 130
    finally:
        run.kill()
        run.wait()
    assert not any(served[1].serial in line and "device " in line for line in said.lines if "devices" not in line)
