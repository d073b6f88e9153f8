"""Tokens per second of the local engine's sampler, for different batch sizes."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from unittest.mock import patch

import torch

from mobilerl.benchmarks.gpu.report import Report, wait
from mobilerl.benchmarks.gpu.shapes import MAX_PIXELS, SHAPES, full_size_rows, make_folder, make_model
from mobilerl.engines import local
from mobilerl.engines.local import LocalEngine, LocalSettings
from mobilerl.records.engine import Request, Sampling

ROWS = (1, 8, 64)


def run(report: Report) -> None:
    gpu = torch.cuda.is_available()
    tokens = 48 if gpu else 4
    with tempfile.TemporaryDirectory() as folder:
        _, config = make_folder(SHAPES["3B" if gpu else "tiny"], Path(folder))
        model = make_model(config, torch.bfloat16 if gpu else torch.float32)
        engine = LocalEngine(Path(folder), LocalSettings(max_pixels=MAX_PIXELS, lora_rank=16), model)
        made = full_size_rows(engine.codec, 16)
        for count in ROWS:
            chosen = [made[i % len(made)] for i in range(count)]
            asked = [Request(r.prompt_ids, r.images, Sampling(1.0, tokens)) for r in chosen]
            with patch.multiple(local, GENERATE_ROWS=count, GENERATE_TOKENS=2**20):
                engine.generate(asked[:1])  # images of all but the first call are cached, as in a group
                wait()
                began = time.perf_counter()
                done = engine.generate(asked)
                seconds = time.perf_counter() - began
            drawn = sum(len(c.token_ids) for c in done)
            report.figure(f"{count} rows", tokens_per_s=drawn / seconds, steps_per_s=count / seconds, seconds=seconds)
