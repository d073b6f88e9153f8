"""Runs two iterations of AdaGRPO on 16 embedded phones, killed after the first and resumed.

A policy with random weights never succeeds, so every other episode counts as a success to give it something to learn
from: run as a program, this module is the command `mobilerl` with such a phone.
"""

from __future__ import annotations

import itertools
import json
import os
import runpy
import signal
import subprocess
import tempfile
import time
from multiprocessing.spawn import get_executable
from pathlib import Path

import torch

from mobilerl.benchmarks.gpu.report import Report
from mobilerl.benchmarks.gpu.shapes import HEIGHT, SHAPES, WIDTH, make_folder, make_model

COMMAND = (os.fsdecode(get_executable()), "-m", "mobilerl.benchmarks.gpu.training")
LEARNED = ("train/loss", "train/kl", "train/grad_norm", "train/rollout_prob_diff_max")


def run(report: Report) -> None:
    gpu = torch.cuda.is_available()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        _, config = make_folder(SHAPES["3B" if gpu else "tiny"], path)
        torch.manual_seed(0)
        model = make_model(config, torch.bfloat16 if gpu else torch.float32)
        model.save_pretrained(path)
        del model
        if gpu:
            torch.cuda.empty_cache()
        _train(report, path, Path(folder) / "run")


def _train(report: Report, model: Path, run_dir: Path) -> None:
    recipe = Path(__file__).parent / "training.toml"
    size = (WIDTH, HEIGHT) if torch.cuda.is_available() else (180, 360)
    words = ["train", "--config", str(recipe), "--model", str(model), "--run-dir", str(run_dir)]
    words += ["--phone.width", str(size[0]), "--phone.height", str(size[1])]
    began = time.monotonic()
    process = subprocess.Popen([*COMMAND, *words], stdout=subprocess.DEVNULL)
    while process.poll() is None and not _rows(run_dir):
        time.sleep(0.5)
    report.figure("first iteration", seconds=time.monotonic() - began)
    while process.poll() is None and not list(run_dir.glob("checkpoints/*/")):
        time.sleep(0.2)
    process.send_signal(signal.SIGKILL)
    process.wait()
    began = time.monotonic()
    resumed = subprocess.run([*COMMAND, *words, "--resume"], stdout=subprocess.DEVNULL)
    report.figure("resumed and done", seconds=time.monotonic() - began)
    report.check("exit code of the resumed run", abs(resumed.returncode), 0)
    rows = _rows(run_dir)
    report.check("iterations that are missing or twice there", abs(len(rows) - 2), 0)
    for row in rows:
        values = {k: float(v) for k, v in row.items() if v is not None and (k in LEARNED or k.endswith("_s"))}
        report.figure(f"iteration {row['iteration']}", **values)
    report.check("iterations without an update", sum(row.get("train/loss") is None for row in rows), 0)


def _rows(run_dir: Path) -> list[dict[str, float]]:
    file = run_dir / "metrics.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.is_file() else []


if __name__ == "__main__":
    from mobilerl.envs.phone.env import PhoneEnv

    episodes = itertools.count()

    async def score(self: PhoneEnv) -> float:
        return float(next(episodes) % 2)

    PhoneEnv.score = score  # type: ignore[method-assign]  # in this process alone
    runpy.run_module("mobilerl", run_name="__main__")
