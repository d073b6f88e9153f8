"""What the phases of vLLM and verl share: a model with weights, requests, agreement of sampler and learner, times."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from mobilerl.benchmarks.gpu.report import Report
from mobilerl.benchmarks.gpu.shapes import SHAPES, make_folder, make_model
from mobilerl.records import Completion, TrainingSample
from mobilerl.records.engine import Engine, Request, Sampling

MAX_PIXELS = 500_000
MAX_K3 = 1e-3
"""Limit of the k3 estimate of the divergence between sampler and learner, both in bfloat16."""
SETTLE_S = 5.0 if torch.cuda.is_available() else 1.0
"""Seconds in which processes that end by a signal are gone."""
QUERY = ("nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits", "-lms", "100")


def write_model(shape: str, path: Path) -> None:
    """Writes a model with random weights, in bfloat16 on a GPU."""
    _, config = make_folder(SHAPES[shape], path)
    torch.manual_seed(0)
    model = make_model(config, torch.bfloat16 if torch.cuda.is_available() else torch.float32)
    model.save_pretrained(path)
    del model
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def requests(rows: Sequence[TrainingSample], count: int, tokens: int) -> list[Request]:
    return [
        Request(r.prompt_ids, r.images, Sampling(1.0, tokens)) for r in itertools.islice(itertools.cycle(rows), count)
    ]


def check_agreement(report: Report, name: str, engine: Engine, rows: Sequence[TrainingSample]) -> None:
    """Compares the log-probabilities of sampled tokens with the learner's. An engine on one GPU then sleeps."""
    asked = requests(rows, 16, 64 if torch.cuda.is_available() else 8)
    done = engine.generate(asked)
    learner = engine.logprobs([_sample(c, r) for c, r in zip(done, asked, strict=True)])
    drawn = torch.tensor([x for c in done for x in c.logprobs])
    gap = torch.tensor([x for values in learner for x in values]) - drawn
    report.check(f"{name}: k3", float((gap.exp() - 1 - gap).mean()), MAX_K3)
    report.figure(name, tokens=len(gap), mean=float(gap.abs().mean()), largest=float(gap.abs().max()))


def _sample(completion: Completion, request: Request) -> TrainingSample:
    c = completion
    return TrainingSample("bench", 0, c.prompt_ids, c.token_ids, c.logprobs, request.images, c.version)


def with_advantages(rows: Sequence[TrainingSample], logprobs: Sequence[tuple[float, ...]]) -> list[TrainingSample]:
    """The samples as if `logprobs` had been their rollout's, with advantages of 1 and -1 in turn."""
    return [
        replace(row, rollout_logprobs=values, old_logprobs=values, advantage=(-1.0) ** i)
        for i, (row, values) in enumerate(zip(rows, logprobs, strict=True))
    ]


def measure_speed(report: Report, engine: Engine, rows: Sequence[TrainingSample], counts: Sequence[int]) -> None:
    tokens = 128 if torch.cuda.is_available() else 4
    engine.generate(requests(rows, len(rows), 2))  # makes the images and compiles what is left to compile
    for count in counts:
        asked = requests(rows, count, tokens)
        began = time.perf_counter()
        drawn = sum(len(c.token_ids) for c in engine.generate(asked))
        seconds = time.perf_counter() - began
        report.figure(f"{count} requests at once", tokens_per_s=drawn / seconds, seconds=seconds)


@contextlib.contextmanager
def time_block(report: Report, name: str, **values: float) -> Iterator[dict[str, Any]]:
    """Reports the seconds of the block and the share of them in which the GPU was busy. The block may add values."""
    busy = _utilization()
    began = time.perf_counter()
    yield values
    seconds = time.perf_counter() - began
    report.figure(name, seconds=seconds, **(values | _stop(busy)))


def _utilization() -> subprocess.Popen[str] | None:
    if not torch.cuda.is_available():
        return None
    return subprocess.Popen(QUERY, stdout=subprocess.PIPE, text=True)


def _stop(process: subprocess.Popen[str] | None) -> dict[str, float]:
    if process is None:
        return {}
    process.terminate()
    said = [int(line) for line in process.communicate()[0].split() if line.isdigit()]
    return {"gpu_busy": sum(said) / len(said) / 100} if said else {}


def signal_group(number: int) -> None:
    """Sends a signal to the process group, as `timeout`, SLURM and systemd do; this process ignores it."""
    before = signal.signal(number, signal.SIG_IGN)
    os.killpg(0, number)
    time.sleep(SETTLE_S)
    signal.signal(number, before)
