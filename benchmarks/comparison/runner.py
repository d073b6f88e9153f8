"""Trains and evaluates every variant with every seed, some runs side by side. Called again, it goes on."""

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

from benchmarks.comparison.report import WARM_UP
from benchmarks.comparison.runs import METRICS, RESULTS, Job, read_points, run_folder
from benchmarks.comparison.variants import Plan, Variant
from mobilerl.eval.policies import weights_digest

PRINT_OUT = "print-out.txt"
PATIENCE_S = 60.0
"""For runs that save when they are stopped."""
KILL_PATIENCE_S = 10.0
"""A killed process is gone only when its memory, a GPU's included, is given back."""


@dataclass(slots=True)
class Runner:
    plan: Plan
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
    """Of the warm-up's weights, once they have been evaluated."""

    def run(self, chosen: Sequence[Variant], seeds: Sequence[int], jobs: int) -> list[str]:
        """Returns a line for each run that failed; the others go on. All variants of a seed come before the next seed.

        Raises RuntimeError when the warm-up cannot be evaluated. Whatever ends this method ends what it started.
        """
        pool = ThreadPoolExecutor(jobs)
        try:
            self.evaluate(self.sft_dir / "final", self.run_dir / WARM_UP)
            self._digest = weights_digest(self.sft_dir / "final")
            futures = [pool.submit(self._job, variant, seed) for seed in seeds for variant in chosen]
            return [line for future in futures if (line := future.result())]
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            self._end_children()

    def _job(self, variant: Variant, seed: int) -> str | None:
        folder = run_folder(self.run_dir, variant.name, seed)
        try:
            self.train(variant, seed, folder)
            self.evaluate(folder, folder)
        except RuntimeError as error:
            return f"{variant.title}, seed {seed}: {error}"
        return None

    def train(self, variant: Variant, seed: int, folder: Path) -> None:
        """Nothing is done for a run that came to its end with the same arguments before, unless steps are missing."""
        words = self.plan.words(variant, seed, self.steps, self.flags)
        before = Job.read(folder)
        if before and before.warm_up != self._digest:
            raise RuntimeError(f"has begun from another warm-up than {self.sft_dir}: choose another RUN_DIR, or remove "
                               f"{folder}")  # fmt: skip
        if before and before.finished and before.words == words and (variant.offline or self._spent(folder)):
            return
        folder.mkdir(parents=True, exist_ok=True)
        # In one piece: runs side by side begin at the same moment.
        print(f"== {variant.title}, seed {seed}: {folder / PRINT_OUT}\n", end="", flush=True)
        job = Job(words, self._digest, before.wall_s if before else 0.0)
        job.write(folder)
        began = time.monotonic()
        try:
            self._call(["bash", str(self.plan.folder / variant.script), *words], folder / PRINT_OUT, self._env(folder))
            job.finished = True
        finally:
            job.wall_s += time.monotonic() - began
            job.write(folder)

    def _spent(self, folder: Path) -> bool:
        """Whether the budget is used up."""
        points = read_points(folder / METRICS)
        return bool(points) and points[-1].steps >= self.steps

    def evaluate(self, model: Path, folder: Path) -> None:
        """Greedy play of the held-out instances. Results of the same weights and settings are kept."""
        out = (folder / RESULTS).parent
        out.mkdir(parents=True, exist_ok=True)
        words = ["--config", str(self.plan.folder / self.plan.config), "--model", str(model), "--out", str(out)]
        self._call([sys.executable, "-m", "mobilerl", "eval", "sim", *words, "--reuse",
                    *self.plan.evaluation_words(self.eval_flags)],
                   out / PRINT_OUT)  # fmt: skip

    def _env(self, folder: Path) -> dict[str, str]:
        """The script's own recipe, the one warm-up, and nothing to install or to evaluate."""
        ours = {"RUN_DIR": folder, "SFT_DIR": self.sft_dir, "EVALUATE": "no", "SKIP_INSTALL": "yes", "CONFIG": "",
                "MODEL": ""}  # fmt: skip
        return {**os.environ, **{name: str(value) for name, value in ours.items()}}

    def _call(self, command: Sequence[str], print_out: Path, env: Mapping[str, str] | None = None) -> None:
        """Raises RuntimeError naming the print-out when the command fails."""
        with open(print_out, "ab") as out:
            with self._lock:
                if self._stopped:
                    raise RuntimeError("was stopped")
                # A session of its own, so that a script is ended together with what it started.
                child = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                         env=env, start_new_session=True)  # fmt: skip
                self._children.add(child)
            status = child.wait()
            with self._lock:
                self._children.discard(child)
                stopped = self._stopped
        if stopped:  # a run that saves what it has when it is stopped may end well
            raise RuntimeError("was stopped")
        if status != 0:
            raise RuntimeError(f"ended with status {status}, see {print_out}")

    def _end_children(self) -> None:
        """Asks them to stop, waits while they save, and kills those that take too long.

        Whoever calls again at once must find their folders at rest.
        """
        with self._lock:
            self._stopped = True
            children = [child for child in self._children if child.poll() is None]
        left = _end(children, signal.SIGTERM, PATIENCE_S)
        _end(left, signal.SIGKILL, KILL_PATIENCE_S)


def _end(
    children: Sequence[subprocess.Popen[bytes]], by: signal.Signals, patience_s: float
) -> list[subprocess.Popen[bytes]]:
    """Sends the signal to their groups, and returns those of which something is still there after so long."""
    for child in children:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, by)
    until = time.monotonic() + patience_s
    left = [child for child in children if _alive(child)]
    while left and time.monotonic() < until:
        time.sleep(0.1)
        # Only those that were there before: the number of one that is gone may be another's by now.
        left = [child for child in left if _alive(child)]
    return left


def _alive(child: subprocess.Popen[bytes]) -> bool:
    """Whether anything of its group is still there."""
    child.poll()  # an ended process keeps its number until someone asks how it ended
    try:
        os.killpg(child.pid, 0)
    except ProcessLookupError:
        return False
    return True
