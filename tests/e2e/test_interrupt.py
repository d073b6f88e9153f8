"""Ctrl-C and SIGTERM: the run saves and prints how to resume, and the result equals a run never stopped."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from test_resume import LIMIT_S, assert_equal_runs, command, finish, policy  # noqa: F401 - a fixture

from mobilerl.train.checkpoint import latest
from mobilerl.train.tracking import read_metrics

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


def signalled(words: list[str], number: int, moment: Callable[[], bool]) -> tuple[int, str]:
    """Starts a run and signals it and its workers at a moment, as a terminal and SLURM do; (exit code, stderr)."""
    child = subprocess.Popen(
        words,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # A test that was started in the background ignores SIGINT, which its children inherit.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    limit = time.monotonic() + LIMIT_S
    try:
        while child.poll() is None and not moment():
            assert time.monotonic() < limit, "the moment never came"
            time.sleep(0.01)
        assert child.poll() is None, "it ended before the moment"
        os.killpg(child.pid, number)
        _, said = child.communicate(timeout=LIMIT_S)
        return child.returncode, said
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.communicate()


def rows(run: Path) -> int:
    return len(read_metrics(run / "metrics.jsonl"))


@pytest.mark.parametrize(
    ("number", "code", "wait_s", "workers"), [(signal.SIGTERM, 143, 0.4, 0), (signal.SIGINT, 130, 0.2, 2)]
)
def test_a_run_resumed_after_a_signal_equals_one_never_stopped(policy, tmp_path, number, code, wait_s, workers):  # noqa: F811
    run, straight = tmp_path / "run", tmp_path / "straight"
    wanted = {"train__checkpoint_every": 100, "collect__workers": workers}
    reached: list[float] = []

    def moment() -> bool:
        if rows(run) >= 2 and not reached:
            reached.append(time.monotonic())
        return bool(reached) and time.monotonic() - reached[0] >= wait_s

    got, said = signalled(command(policy, run, **wanted), number, moment)
    assert got == code, said
    done = rows(run)
    assert latest(run).name == f"iter-{done:06d}"
    *_, stopped, on = said.strip().splitlines()
    assert str(latest(run)) in stopped and "Traceback" not in said
    words = shlex.split(on)
    assert words[0] == "mobilerl" and words[-1] == "--resume"
    subprocess.run([sys.executable, "-m", *words], check=True, capture_output=True, timeout=LIMIT_S)
    finish(policy, straight, **wanted)
    for folder in (run / "checkpoints").glob("iter-*"):
        if folder != latest(run):
            shutil.rmtree(folder)  # the one that was saved when it stopped
    assert_equal_runs(run, straight)
