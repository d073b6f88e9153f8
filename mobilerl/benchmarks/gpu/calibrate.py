"""Versions, and the speed of one large matrix product and one large copy, with which other figures are compared."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version

import torch

from mobilerl.benchmarks.gpu.report import Report, device, wait

PACKAGES = ("torch", "transformers", "accelerate", "peft", "numpy", "Pillow")


def run(report: Report) -> None:
    gpu = torch.cuda.is_available()
    name = torch.cuda.get_device_name() if gpu else "no GPU"
    memory = torch.cuda.get_device_properties(0).total_memory / 2**30 if gpu else 0.0
    report.figure("machine", device=name, gib=memory, cpus=os.cpu_count() or 0, cuda=str(torch.version.cuda))
    report.figure("versions", python=platform.python_version(), **{p: _version(p) for p in PACKAGES})
    report.figure("matrix product, bfloat16", tflops=matmul_flops() / 1e12)
    size = 2**30 if gpu else 2**26
    source = torch.ones(size // 4, device=device())
    target = torch.empty_like(source)
    report.figure("copy", gb_per_s=2 * size / _seconds(lambda: target.copy_(source)) / 1e9)


def matmul_flops() -> float:
    """Operations per second of a bfloat16 matrix product, 8192 x 8192 x 8192 on a GPU."""
    size = 8192 if torch.cuda.is_available() else 512
    a, b = (torch.randn(size, size, device=device(), dtype=torch.bfloat16) for _ in range(2))
    return 2 * size**3 / _seconds(lambda: a @ b)


def _seconds(work: Callable[[], object], times: int = 10) -> float:
    for _ in range(3):
        work()
    wait()
    began = time.perf_counter()
    for _ in range(times):
        work()
    wait()
    return (time.perf_counter() - began) / times


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"
