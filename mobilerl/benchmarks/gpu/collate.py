"""Samples collated per second from screenshots of 1080x2400, for different numbers of threads."""

from __future__ import annotations

import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import patch

import torch

from mobilerl.benchmarks.gpu.report import Report, device, wait
from mobilerl.benchmarks.gpu.shapes import MAX_PIXELS, SHAPES, full_size_rows, make_folder
from mobilerl.models import images
from mobilerl.models.codec import Codec

THREADS = (1, 2, 4, 8, 16)


def run(report: Report) -> None:
    with tempfile.TemporaryDirectory() as folder:
        codec, config = make_folder(SHAPES["tiny"], Path(folder))
        rows = full_size_rows(codec, 48 if torch.cuda.is_available() else 8)
        for threads in THREADS:
            fresh = Codec(codec.tokenizer, codec.image_processor, config, MAX_PIXELS)
            with ThreadPoolExecutor(threads) as pool, patch.object(images, "_POOL", pool):
                began = time.perf_counter()
                for start in range(0, len(rows), 8):
                    part = rows[start : start + 8]
                    ids = [r.prompt_ids + r.response_ids for r in part]
                    fresh.collate(ids, [r.images for r in part], pad_left=True, device=device())
                wait()
            report.figure(f"{threads} threads", samples_per_s=len(rows) / (time.perf_counter() - began))
