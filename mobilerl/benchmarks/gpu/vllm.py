"""vLLM beside the learner, 3B with LoRA: start, agreement before and after updates, sleep, publish, speed, a signal."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from pathlib import Path

import torch

from mobilerl.algorithms.objectives import clipped
from mobilerl.benchmarks.gpu.report import Report
from mobilerl.benchmarks.gpu.serving import (
    MAX_PIXELS,
    check_agreement,
    measure_speed,
    requests,
    signal_group,
    time_block,
    with_advantages,
    write_model,
)
from mobilerl.benchmarks.gpu.shapes import full_size_rows
from mobilerl.config import VllmSection
from mobilerl.config.algorithms import AdaGRPOSection
from mobilerl.engines.local import LocalSettings
from mobilerl.engines.vllm import VllmEngine
from mobilerl.inference.vllm_arguments import VllmSettings
from mobilerl.records import TrainingSample

UPDATES, LATER_UPDATES = 3, 97
"""Updates of all rows, which are timed, and of a few rows, after which sampler and learner must still agree."""
FEW = 2
OBJECTIVE = clipped(AdaGRPOSection(type="adagrpo").loss)


def run(report: Report) -> None:
    gpu = torch.cuda.is_available()
    if not gpu:  # else vLLM's process would compile small functions with gcc for longer than it uses them
        os.environ.setdefault("TORCH_COMPILE_DISABLE", "1")
    path = report.folder / "model"
    write_model("3B" if gpu else "tiny", path)
    with time_block(report, "start to the first samples"):
        engine = _engine(path, gpu)
        rows = full_size_rows(engine.codec, 32 if gpu else 4)
        engine.generate(requests(rows, 1, 2))
    try:
        _measure(report, engine, rows, gpu)
    finally:
        with time_block(report, "close"):
            engine.close()


def _engine(path: Path, gpu: bool) -> VllmEngine:
    section = VllmSection(max_prompt=4096, max_sequences=64 if gpu else 4, gpu_memory=0.6, sleep=gpu)
    learner = LocalSettings(
        learning_rate=1e-4,
        warmup_steps=0,
        lora_rank=64 if gpu else 8,
        micro_batch_tokens=8192,
        max_pixels=MAX_PIXELS,
        gradient_checkpointing=True,
    )
    return VllmEngine(path, learner, VllmSettings(section, max_new_tokens=256))


def _measure(report: Report, engine: VllmEngine, rows: Sequence[TrainingSample], gpu: bool) -> None:
    check_agreement(report, "untrained", engine, rows)
    _sleep(report, engine)
    batch = with_advantages(rows, engine.logprobs(rows))
    for number in range(UPDATES):
        _update(report, engine, batch, f"update {number + 1} of {len(batch)} samples")
    _publish(report, engine)
    check_agreement(report, f"after {UPDATES} updates", engine, rows)
    later = LATER_UPDATES if gpu else 2
    with time_block(report, f"{later} updates of {FEW} samples"):
        for _ in range(later):
            engine.update(batch[:FEW], OBJECTIVE, "token-mean")
    _publish(report, engine)
    check_agreement(report, f"after {UPDATES + later} updates", engine, rows)
    _publish(report, engine)
    measure_speed(report, engine, rows, (1, 16, 64, 256) if gpu else (1, 4))
    _signal(report, engine, rows)


def _sleep(report: Report, engine: VllmEngine) -> None:
    engine.publish()
    before = _free()
    with time_block(report, "sleep") as found:
        engine.sampler.sleep()
        found["freed_gb"] = _free() - before


def _free() -> float:
    """Free GPU memory in GB."""
    return torch.cuda.mem_get_info()[0] / 1e9 if torch.cuda.is_available() else 0.0


def _update(report: Report, engine: VllmEngine, batch: Sequence[TrainingSample], name: str) -> None:
    with time_block(report, name) as found:
        found["loss"] = engine.update(batch, OBJECTIVE, "token-mean")["loss"]


def _publish(report: Report, engine: VllmEngine) -> None:
    with time_block(report, "publish"):
        engine.publish()


def _signal(report: Report, engine: VllmEngine, rows: Sequence[TrainingSample]) -> None:
    """vLLM must go on when a SIGTERM reaches the whole process group: the run finishes its iteration first."""
    signal_group(signal.SIGTERM)
    engine.update(rows[:FEW], OBJECTIVE, "token-mean")
    engine.publish()
    drawn = len(engine.generate(requests(rows, 4, 4)))
    report.check("samples missing after SIGTERM to all processes", 4 - drawn, 0)
