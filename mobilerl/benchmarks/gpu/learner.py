"""Time per part and memory of an update at 3B with all weights and at 7B with LoRA, and the gain of one kernel for all
windows and samples over one call each."""

from __future__ import annotations

import gc
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from accelerate.state import AcceleratorState

from mobilerl.benchmarks.gpu.calibrate import matmul_flops
from mobilerl.benchmarks.gpu.families import objective
from mobilerl.benchmarks.gpu.report import Report, wait
from mobilerl.benchmarks.gpu.shapes import MAX_PIXELS, SHAPES, Shape, full_size_rows, make_folder, make_model
from mobilerl.engines.finite import FirstNonFinite
from mobilerl.engines.local import LocalEngine, LocalSettings
from mobilerl.engines.scoring import make_micro_batch, micro_batches, sample_weights
from mobilerl.models import attention
from mobilerl.models.memory import estimate_memory
from mobilerl.records import TrainingSample

CARDS = (24, 48, 80, 141)
"""Memory of common GPUs, in GiB."""
RESPONSE = 64
"""Approximate number of tokens of an expert's response."""


@dataclass(frozen=True, slots=True)
class Case:
    shape: str
    lora: int
    checkpointing: bool
    tokens: int
    """`engine.micro_batch_tokens`."""
    rows: int

    def __str__(self) -> str:
        weights = f"LoRA {self.lora}" if self.lora else "all weights"
        recompute = ", recomputed" if self.checkpointing else ""
        return f"{self.shape}, {weights}, {self.tokens} tokens{recompute}"


ON_GPU = (
    Case("3B", 64, True, 8192, 32),
    Case("3B", 64, True, 16384, 32),
    Case("3B", 0, True, 8192, 32),
    Case("7B", 64, True, 8192, 32),
)
ON_CPU = (Case("tiny", 8, True, 512, 8), Case("tiny", 0, False, 2048, 8))


def run(report: Report) -> None:
    peak = matmul_flops()
    rows: list[TrainingSample] = []
    engine: LocalEngine | None
    for case in ON_GPU if torch.cuda.is_available() else ON_CPU:
        try:
            with tempfile.TemporaryDirectory() as folder:
                engine = _engine(case, Path(folder))
                rows = rows or full_size_rows(engine.codec, max(c.rows for c in (*ON_GPU, *ON_CPU)))
                _measure(report, case, Path(folder), engine, rows[: case.rows], peak)
        except torch.OutOfMemoryError as error:
            report.figure(f"{case}: out of memory", said=str(error).partition(".")[0])
        engine = None  # frees the memory of its weights
        gc.collect()
        torch.cuda.empty_cache()


def _measure(
    report: Report, case: Case, folder: Path, engine: LocalEngine, rows: Sequence[TrainingSample], peak: float
) -> None:
    rows = [replace(r, advantage=1.0 if i % 2 else -1.0) for i, r in enumerate(rows)]
    timed_update(engine, rows[:2])  # creates the optimizer state
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    parts = timed_update(engine, rows)
    seconds = sum(parts.values())
    flops = useful_flops(SHAPES[case.shape], engine, rows, bool(case.lora))
    report.figure(f"{case}", samples_per_s=len(rows) / seconds, mfu=flops / seconds / peak, **parts)
    if torch.cuda.is_available():
        gib = torch.cuda.max_memory_allocated() / 2**30
        calculated = estimate_memory(folder, engine.settings, RESPONSE, 1).learning / 2**30
        card = next((c for c in CARDS if gib < 0.92 * c), "none")
        report.figure(f"{case}: memory", peak_gib=gib, calculated_gib=calculated, card_gib=card)
    with patch.object(attention, "_kernel", attention._one_by_one):
        loop = sum(timed_update(engine, rows).values())
    warm = sum(timed_update(engine, rows).values())
    report.figure(f"{case}: one call per window and sample", times_as_long=loop / warm)


def _engine(case: Case, folder: Path) -> LocalEngine:
    AcceleratorState._reset_state(reset_partial_state=True)
    _, config = make_folder(SHAPES[case.shape], folder)
    torch.manual_seed(0)
    model = make_model(config, torch.bfloat16 if case.lora and torch.cuda.is_available() else torch.float32)
    settings = LocalSettings(
        learning_rate=1e-6,
        lora_rank=case.lora,
        gradient_checkpointing=case.checkpointing,
        micro_batch_tokens=case.tokens,
        max_pixels=MAX_PIXELS,
    )
    return LocalEngine(folder, settings, model)


def timed_update(engine: LocalEngine, rows: Sequence[TrainingSample]) -> dict[str, float]:
    """Seconds of each part of an update. Synchronizes with the GPU between parts, which costs a little speed."""
    seconds: dict[str, float] = defaultdict(float)
    last = time.perf_counter()

    def mark(part: str) -> None:
        nonlocal last
        wait()
        now = time.perf_counter()
        seconds[part] += now - last
        last = now

    model = engine.accelerator.unwrap_model(engine.model)
    tower = getattr(model, "get_base_model", lambda: model)().model.visual
    hooks = [
        model.register_forward_pre_hook(lambda *_: mark("collate")),
        tower.register_forward_pre_hook(lambda *_: mark("language")),
        tower.register_forward_hook(lambda *_: mark("vision")),
        model.register_forward_hook(lambda *_: mark("language")),
    ]
    weights = sample_weights(rows, "token-mean")
    engine.optimizer.zero_grad()
    total = 0.0
    for index in engine._prepared(rows, micro_batches(rows, engine.micro_batch.tokens)):
        part = [rows[i] for i in index]
        logp, mask = engine._logp(engine.model, part)
        loss, _ = objective(make_micro_batch(part, weights[index], logp, mask, 0))
        mark("language")
        engine.accelerator.backward(loss)
        total += float(loss.detach())
        mark("backward")
    engine._step(total, FirstNonFinite())
    mark("optimizer")
    for hook in hooks:
        hook.remove()
    return dict(seconds)


def useful_flops(shape: Shape, engine: LocalEngine, rows: Sequence[TrainingSample], lora: bool) -> float:
    """Operations without recomputation: 2 per weight and token forward, and as many for each of the two gradients. With
    LoRA the weights have none, and the vision tower only runs forward. The head counts only for responses."""
    model: Any = engine.accelerator.unwrap_model(engine.model)
    text = model.config.get_text_config()
    width = text.hidden_size // text.num_attention_heads * (text.num_attention_heads + 2 * text.num_key_value_heads)
    layer = text.hidden_size * (width + text.hidden_size + 3 * text.intermediate_size)
    depth, vision, inner = shape.vision
    block = vision * (4 * vision + 3 * inner)
    total = 0.0
    for row in rows:
        tokens = len(row.prompt_ids) + len(row.response_ids)
        attended = 2 * tokens**2 * text.hidden_size  # scores and values, causal
        language = shape.layers * (2 * layer * tokens + attended)
        head = 2 * text.hidden_size * text.vocab_size * len(row.response_ids)
        patches = sum(int(engine.codec.images.patches(png)[1].prod()) for png in row.images)
        total += (2 if lora else 3) * (language + head) + (1 if lora else 3) * depth * 2 * block * patches
    return total
