"""Trains and evaluates all variants with all seeds, possibly several runs at a time; resumes when called again.

RUN_DIR/sft/eval/sim/results.json     evaluation of the policy that all runs start from
RUN_DIR/VARIANT/seed-N/               a run directory with its evaluation in eval/sim, and job.json:
                                      flags, digest of the initial weights, CPU seconds, whether it finished
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mobilerl.benchmarks.comparison.figures import RESULTS, SFT, read_points, run_folder
from mobilerl.benchmarks.comparison.plan import Plan
from mobilerl.eval.policies import weights_digest
from mobilerl.system.atomic_files import write_atomic

PRINT_OUT = "print-out.txt"
STOPPED = "was stopped"
PATIENCE_S = 60.0
"""Seconds that runs have to save when they are stopped."""
KILL_PATIENCE_S = 10.0
"""Seconds that killed processes have to release their memory."""


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
    program: Sequence[str | Path] = (sys.executable, "-m", "mobilerl")
    _children: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stopped: bool = False
    _digest: str = ""
    """Digest of the SFT weights."""

    def run(self, chosen: Sequence[str], seeds: Sequence[int], jobs: int) -> dict[tuple[str, int], str]:
        """Runs all variants of a seed before the next seed; returns why runs failed, by variant and seed.

        Raises RuntimeError if the SFT checkpoint cannot be evaluated. Its processes end with this method.
        """
        pool = ThreadPoolExecutor(jobs)
        try:
            self.evaluate(self.sft_dir / "final", self.run_dir / SFT)
            self._digest = weights_digest(self.sft_dir / "final")
            futures = {(name, seed): pool.submit(self._job, name, seed) for seed in seeds for name in chosen}
            return {run: fault for run, future in futures.items() if (fault := future.result())}
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            self._end_children()

    def _job(self, name: str, seed: int) -> str:
        folder = run_folder(self.run_dir, name, seed)
        try:
            self._train(name, seed, folder)
            self.evaluate(folder, folder)
        except RuntimeError as error:
            return str(error)
        return ""

    def _train(self, name: str, seed: int, folder: Path) -> None:
        """Trains a variant, unless it has finished with the same flags."""
        variant, path = self.plan.variants[name], folder / "job.json"
        job: dict[str, Any] = {"flags": self.plan.flags(name, seed, self.steps, self.flags), "sft": self._digest}
        before = json.loads(path.read_bytes()) if path.is_file() else {**job, "cpu_s": 0.0, "finished": False}
        if before["sft"] != self._digest:
            raise RuntimeError(
                f"was started from another checkpoint than {self.sft_dir}: choose another --run-dir, or remove {folder}"
            )
        if not (before["finished"] and before["flags"] == job["flags"]):
            folder.mkdir(parents=True, exist_ok=True)
            # In one write, since several runs start at the same time.
            print(f"== {variant.title}, seed {seed}: {folder / PRINT_OUT}\n", end="", flush=True)
            job |= {"cpu_s": before["cpu_s"], "finished": False}
            write_atomic(path, json.dumps(job).encode())
            words = ["--run-dir", str(folder), "--sft-dir", str(self.sft_dir), "--evaluate", "no", *job["flags"]]
            fault, cpu_s = self._call(["run", variant.recipe, *words], folder / PRINT_OUT)
            job |= {"cpu_s": job["cpu_s"] + cpu_s, "finished": not fault}
            write_atomic(path, json.dumps(job).encode())
            if fault:
                raise RuntimeError(fault)
        if not variant.offline:
            self._check_budget([point.steps for point in read_points(folder)])

    def _check_budget(self, steps: Sequence[int]) -> None:
        """Raises RuntimeError unless the run ended with the iteration in which it reached its budget."""
        if not steps or steps[-1] < self.steps or any(n >= self.steps for n in steps[:-1]):
            raise RuntimeError(f"has {steps[-1] if steps else 0:,} environment steps, with a budget of {self.steps:,}")

    def evaluate(self, model: Path, folder: Path) -> None:
        """Evaluates greedily on the held-out instances; results of the same weights and settings are kept."""
        out = (folder / RESULTS).parent
        out.mkdir(parents=True, exist_ok=True)
        words = ["--config", self.plan.evaluation.config, "--model", str(model), "--out", str(out), "--replace"]
        words += self.plan.evaluation_flags(self.eval_flags)
        if fault := self._call(["eval", "sim", *words], out / PRINT_OUT)[0]:
            raise RuntimeError(fault)

    def _call(self, words: Sequence[str], print_out: Path) -> tuple[str, float]:
        """Runs a command of mobilerl. Returns why it failed, or "", and its CPU seconds."""
        with open(print_out, "ab") as out:
            began = out.tell()
            with self._lock:
                if self._stopped:
                    return STOPPED, 0.0
                # In a session of its own, so that it ends together with its children.
                child = subprocess.Popen(
                    [*self.program, *words],
                    start_new_session=True,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                )
                self._children.append(child)
            cpu_s = _wait(child)
            with self._lock:
                self._children.remove(child)
                if self._stopped:  # a stopped run may save and exit with 0
                    return STOPPED, cpu_s
        if child.returncode == 0:
            return "", cpu_s
        said = print_out.read_bytes()[began:].decode(errors="replace").splitlines()
        errors = [line for line in said if "error: " in line]
        because = f" ({errors[-1]})" if errors else ""
        return f"ended with status {child.returncode}{because}, see {print_out}", cpu_s

    def _end_children(self) -> None:
        """Terminates the child processes, waits while they save, and kills those that take too long."""
        with self._lock:
            self._stopped = True
            left = list(self._children)
        for number, patience_s in ((signal.SIGTERM, PATIENCE_S), (signal.SIGKILL, KILL_PATIENCE_S)):
            left = [child for child in left if _signal_group(child, number)]
            until = time.monotonic() + patience_s
            while left and time.monotonic() < until:
                time.sleep(0.1)
                left = [child for child in left if _signal_group(child, 0)]


def _wait(child: subprocess.Popen[bytes]) -> float:
    """Waits until the child ends. Returns its CPU seconds and those of its children."""
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime


def _signal_group(child: subprocess.Popen[bytes], number: int) -> bool:
    """Sends a signal (0 for none) to the child's process group. Returns whether it had any process left."""
    try:
        os.killpg(child.pid, number)
    except ProcessLookupError:
        return False
    return True
