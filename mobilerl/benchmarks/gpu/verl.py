"""verl on one GPU, all weights of a 0.35B model: start, agreement, update, publish, a signal, and a checkpoint.

The engine is left open: the phase's process is killed, and the phase `resume` goes on from its checkpoint.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path

import ray
import torch
from verl.trainer.constants_ppo import get_ppo_ray_runtime_env

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
from mobilerl.config import ClusterSection, EngineSection, OptimizerSection, VllmSection
from mobilerl.config.algorithms import AdaGRPOSection
from mobilerl.engines.verl.config import VerlSettings
from mobilerl.engines.verl.engine import VerlEngine
from mobilerl.records import TrainingSample
from mobilerl.records.engine import Engine

SETTINGS = EngineSection(
    type="verl", lora_rank=0, gradient_checkpointing=False, micro_batch_tokens=8192, max_pixels=MAX_PIXELS
)
OPTIMIZER = OptimizerSection(learning_rate=1e-6, warmup_steps=0)
SAMPLES, STEPS, ITERATIONS = 96, 2, 2
OBJECTIVE = clipped(AdaGRPOSection(type="adagrpo").loss)
MODEL, CHECKPOINT, KEPT = "verl-model", "verl-checkpoint", "verl-logprobs.json"


def run(report: Report) -> None:
    gpu = torch.cuda.is_available()
    write_model("0.35B" if gpu else "tiny", report.folder / MODEL)
    with time_block(report, "start to the first samples"):
        engine = start(report.folder / MODEL)
        rows = full_size_rows(engine.codec, SAMPLES if gpu else 4)
        engine.generate(requests(rows, 1, 2))
    for number in range(ITERATIONS):
        check_agreement(report, f"version {number}", engine, rows)
        learn(report, engine, rows)
        with time_block(report, "publish"):
            engine.publish()
    measure_speed(report, engine, rows, (1, 16, 64) if gpu else (1, 4))
    _save(report, engine, rows)
    _signal(report, engine, rows)


def start(model: Path) -> VerlEngine:
    gpu = torch.cuda.is_available()
    overrides = () if gpu else _rehearse()
    vllm = VllmSection(max_prompt=4096, max_sequences=64 if gpu else 4, gpu_memory=0.6)
    cluster = ClusterSection(gpus_per_node=1, overrides=overrides)
    settings = VerlSettings(SETTINGS, OPTIMIZER, cluster, vllm, 1.0, 256 if gpu else 64, 1)
    return VerlEngine(model, settings, reference=False)


def _rehearse() -> tuple[str, ...]:
    """Starts Ray with a GPU that is only a number, and returns the settings with which verl's tests run on a CPU."""
    settings: tuple[str, ...] = importlib.import_module("mobilerl_verl_cpu.flags").VERL_SETTINGS
    ray.init("local", num_cpus=2, num_gpus=1, include_dashboard=False, runtime_env=get_ppo_ray_runtime_env())
    return settings


def learn(report: Report, engine: Engine, rows: Sequence[TrainingSample]) -> None:
    """An update of an iteration: log-probabilities of all samples, then optimizer steps of equal parts of them."""
    with time_block(report, f"{type(engine).__name__}: update of {len(rows)} samples in {STEPS} steps") as found:
        began = time.perf_counter()
        batch = with_advantages(rows, engine.logprobs(rows))
        found["logprobs_s"] = time.perf_counter() - began
        for step in range(STEPS):
            engine.update(batch[step::STEPS], OBJECTIVE, "token-mean")
        found["samples_per_s"] = len(rows) / (time.perf_counter() - began)


def _signal(report: Report, engine: VerlEngine, rows: Sequence[TrainingSample]) -> None:
    """Ray, verl and vLLM must go on when a SIGTERM reaches the whole process group."""
    signal_group(signal.SIGTERM)
    engine.publish()  # which wakes the servers
    drawn = len(engine.generate(requests(rows, 4, 4)))
    report.check("samples missing after SIGTERM to all processes", 4 - drawn, 0)


def _save(report: Report, engine: VerlEngine, rows: Sequence[TrainingSample]) -> None:
    with time_block(report, "checkpoint"):
        (report.folder / CHECKPOINT).mkdir()
        engine.save(report.folder / CHECKPOINT)
    kept = {"process": os.getpid(), "logprobs": engine.logprobs(rows)}
    (report.folder / KEPT).write_text(json.dumps(kept))
