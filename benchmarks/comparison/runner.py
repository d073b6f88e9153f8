"""Trains and evaluates every variant with every seed, some runs side by side. Called again, it continues."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.comparison.plan import Plan
from benchmarks.comparison.runs import METRICS, RESULTS, SFT, Job, read_points, run_folder
from mobilerl.eval.policies import weights_digest

PRINT_OUT = "print-out.txt"
PATIENCE_S = 60.0
"""For runs to save when they are stopped."""
KILL_PATIENCE_S = 10.0
"""For killed processes to release their memory."""


@dataclass(slots=True)
class Runner:
    plan: Plan
    folder: Path
    """Folder of the plan's scripts and recipes."""
    run_dir: Path
    sft_dir: Path
    steps: int
    """Environment steps of every online run."""
    flags: Sequence[str] = ()
    """Further settings of every online run."""
    eval_flags: Sequence[str] = ()
    _children: set[subprocess.Popen[bytes]] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stopped: bool = False
    _digest: str = ""
    """Digest of the SFT weights."""

    def run(self, chosen: Sequence[str], seeds: Sequence[int], jobs: int) -> list[str]:
        """All variants of a seed before the next seed; returns a line for each run that failed.

        Raises RuntimeError if the SFT checkpoint cannot be evaluated. Its processes end with this method.
        """
        pool = ThreadPoolExecutor(jobs)
        try:
            self.evaluate(self.sft_dir / "final", self.run_dir / SFT)
            self._digest = weights_digest(self.sft_dir / "final")
            futures = [pool.submit(self._job, name, seed) for seed in seeds for name in chosen]
            return [line for future in futures if (line := future.result())]
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            self._end_children()

    def _job(self, name: str, seed: int) -> str:
        folder = run_folder(self.run_dir, name, seed)
        try:
            self.train(name, seed, folder)
            self.evaluate(folder, folder)
        except RuntimeError as error:
            return f"{self.plan.variants[name].title}, seed {seed}: {error}"
        return ""

    def train(self, name: str, seed: int, folder: Path) -> None:
        """Skips a run that has finished with the same flags and has used up the budget."""
        variant, flags = self.plan.variants[name], self.plan.flags(name, seed, self.steps, self.flags)
        before = Job.read(folder)
        if before and before.sft != self._digest:
            raise RuntimeError(
                f"was started from another checkpoint than {self.sft_dir}: choose another RUN_DIR, or remove {folder}"
            )
        if before and before.finished and before.flags == flags and (variant.offline or self._budget_used(folder)):
            return
        folder.mkdir(parents=True, exist_ok=True)
        # In one write, since runs start at the same moment.
        print(f"== {variant.title}, seed {seed}: {folder / PRINT_OUT}\n", end="", flush=True)
        job = Job(flags, self._digest, before.wall_s if before else 0.0)
        job.write(folder)
        began = time.monotonic()
        given = {"RUN_DIR": str(folder), "SFT_DIR": str(self.sft_dir), "EVALUATE": "no", "SKIP_INSTALL": "yes"}
        env = {**os.environ, **given, "CONFIG": "", "MODEL": "", "ENGINE": ""}
        try:
            self._call(["bash", str(self.folder / variant.script), *flags], folder / PRINT_OUT, env)
            job.finished = True
        finally:
            job.wall_s += time.monotonic() - began
            job.write(folder)

    def _budget_used(self, folder: Path) -> bool:
        points = read_points(folder / METRICS)
        return bool(points) and points[-1].steps >= self.steps

    def evaluate(self, model: Path, folder: Path) -> None:
        """Greedy evaluation on the held-out instances; results of the same weights and settings are kept."""
        out = (folder / RESULTS).parent
        out.mkdir(parents=True, exist_ok=True)
        config = self.folder / self.plan.evaluation.config
        words = ["--config", str(config), "--model", str(model), "--out", str(out), "--reuse"]
        words += self.plan.evaluation_flags(self.eval_flags)
        self._call([sys.executable, "-m", "mobilerl", "eval", "sim", *words], out / PRINT_OUT)

    def _call(self, command: Sequence[str], print_out: Path, env: Mapping[str, str] | None = None) -> None:
        """Raises RuntimeError naming the print-out if the command fails."""
        with open(print_out, "ab") as out:
            with self._lock:
                if self._stopped:
                    raise RuntimeError("was stopped")
                # In a session of its own, so that a script ends together with its children.
                pipes = {"stdin": subprocess.DEVNULL, "stdout": out, "stderr": subprocess.STDOUT}
                child = subprocess.Popen(command, env=env, start_new_session=True, **pipes)
                self._children.add(child)
            status = child.wait()
            with self._lock:
                self._children.discard(child)
                stopped = self._stopped
        if stopped:  # a stopped run may save and exit with 0
            raise RuntimeError("was stopped")
        if status != 0:
            raise RuntimeError(f"ended with status {status}, see {print_out}")

    def _end_children(self) -> None:
        """Terminates them, waits while they save, and kills those that take too long."""
        with self._lock:
            self._stopped = True
            left = [child for child in self._children if _alive(child)]
        for number, patience_s in ((signal.SIGTERM, PATIENCE_S), (signal.SIGKILL, KILL_PATIENCE_S)):
            for child in left:
                with suppress(ProcessLookupError):
                    os.killpg(child.pid, number)
            until = time.monotonic() + patience_s
            while (left := [child for child in left if _alive(child)]) and time.monotonic() < until:
                time.sleep(0.1)


def _alive(child: subprocess.Popen[bytes]) -> bool:
    """Whether any process of its group is left."""
    child.poll()  # reaps it, which releases its number
    try:
        os.killpg(child.pid, 0)
    except ProcessLookupError:
        return False
    return True
