"""Compares this device with the CPU, the sampler with the learner, and settings that must change nothing, for tiny
Qwen2.5-VL, Qwen3-VL, Qwen3.5 and GLM-4.1V. Without a GPU the device is the CPU, which only tests this phase."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import torch
from accelerate.state import AcceleratorState
from torch import Tensor

from mobilerl.algorithms.losses import kl_k3
from mobilerl.benchmarks.gpu.report import Report, device
from mobilerl.benchmarks.model_families import FAMILIES, create, png
from mobilerl.engines.local import LocalEngine, LocalSettings
from mobilerl.engines.scoring import sample_logprobs
from mobilerl.models.codec import Codec
from mobilerl.models.loading import load_model
from mobilerl.records import MicroBatch, TrainingSample
from mobilerl.records.engine import Request, Sampling

TEXTS = ("tap the button", "compare the two screens and open the settings", "no picture", "type hello world")
FLOAT32, BFLOAT16, K3, ROUNDING = 1e-4, 0.02, 1e-3, 0.02
"""Limits on differences in float32, mean difference and k3 of bfloat16 from float32, and relative ones of gradients."""


def run(report: Report) -> None:
    torch.backends.cudnn.allow_tf32 = False  # the default, True, rounds convolutions of float32 to 10 bits
    for name, family in FAMILIES.items():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model"
            create(family, path, TEXTS)
            _family(report, name, path)


def _family(report: Report, name: str, path: Path) -> None:
    codec = Codec.load(path, max_pixels=40_000)
    engine = _engine(path)
    asked = requests(codec)
    torch.manual_seed(0)
    done = engine.generate(asked)
    rows = [
        TrainingSample(f"t{i}", 0, c.prompt_ids, c.token_ids, c.logprobs, r.images, 0, 1.0 if i % 2 else -1.0)
        for i, (r, c) in enumerate(zip(asked, done, strict=True))
    ]
    own = engine.logprobs(rows)
    limit = BFLOAT16 if torch.cuda.is_available() else FLOAT32
    report.check(f"{name}, sampler and learner, mean", _mean_gap([r.rollout_logprobs for r in rows], own), limit)

    model = load_model(path, learns=True).float()
    with torch.no_grad():
        exact, mask = sample_logprobs(model, codec, rows, 1.0, "cpu")
        there, _ = sample_logprobs(model.to(device()), codec, rows, 1.0, device())
    report.check(f"{name}, float32 and the CPU's", float((there.cpu() - exact).abs().max()), FLOAT32)
    real = mask.bool()
    gap = torch.tensor([v for row in own for v in row]) - exact[real]
    report.check(f"{name}, {_precision()} and the CPU's float32, mean", float(gap.abs().mean()), BFLOAT16)
    report.check(
        f"{name}, {_precision()} and the CPU's float32, k3", float(kl_k3(exact[real], exact[real] + gap).mean()), K3
    )
    _gradients(report, name, path, rows)
    _adapter(report, name, path, rows)


def _gradients(report: Report, name: str, path: Path, rows: Sequence[TrainingSample]) -> None:
    """Compares gradients with gradient checkpointing and with micro-batches of one sample."""
    base = _gradient(path, rows)
    for what, settings in (
        ("gradient checkpointing", {"gradient_checkpointing": True}),
        ("one row a micro-batch", {"micro_batch_tokens": 1}),
    ):
        gap = float((_gradient(path, rows, **settings) - base).norm() / base.norm())
        report.check(f"{name}, gradient with {what}", gap, ROUNDING if torch.cuda.is_available() else FLOAT32)


def _adapter(report: Report, name: str, path: Path, rows: Sequence[TrainingSample]) -> None:
    """Compares a trained adapter with itself after saving and loading, and after merging."""
    engine = _engine(path, lora_rank=4, learning_rate=0.01)
    engine.update(rows, objective, "token-mean")
    trained = engine.logprobs(rows)
    with tempfile.TemporaryDirectory() as folder:
        engine.save(Path(folder))
        again = _engine(Path(folder), lora_rank=4).logprobs(rows)
    report.check(f"{name}, adapter saved and loaded", _largest_gap(trained, again), 1e-6)
    merged = engine.accelerator.unwrap_model(engine.model).merge_and_unload()
    with torch.no_grad(), engine.accelerator.autocast():
        logp, mask = sample_logprobs(merged, engine.codec, rows, 1.0, device())
    flat = logp[mask.bool()].cpu()
    limit = BFLOAT16 if torch.cuda.is_available() else FLOAT32
    gap = float((flat - torch.tensor([v for row in trained for v in row])).abs().mean())
    report.check(f"{name}, adapter merged, mean", gap, limit)


def _engine(path: Path, **settings: object) -> LocalEngine:
    AcceleratorState._reset_state(reset_partial_state=True)
    torch.manual_seed(0)
    return LocalEngine(path, LocalSettings(max_pixels=40_000, micro_batch_tokens=4096).model_copy(update=settings))


def _gradient(path: Path, rows: Sequence[TrainingSample], **settings: object) -> Tensor:
    """Gradient of all weights as one vector."""
    engine = _engine(path, learning_rate=0.0, **settings)
    engine.update(rows, objective, "token-mean")
    return torch.cat([p.grad.flatten() for p in engine.model.parameters() if p.grad is not None])


def objective(micro: MicroBatch) -> tuple[Tensor, dict[str, Tensor]]:
    return -(micro.weights * micro.advantage.unsqueeze(1) * micro.logp).sum(), {}


def requests(codec: Codec) -> list[Request]:
    """Makes eight prompts of different lengths with 0 to 2 images of different sizes."""
    made = []
    for i in range(8):
        images = tuple(png(140 + 28 * i, 280 - 14 * j, i + j) for j in range(i % 3))
        content = [*({"type": "image"} for _ in images), {"type": "text", "text": TEXTS[i % len(TEXTS)]}]
        made.append(Request(codec.encode([{"role": "user", "content": content}], images), images, Sampling(1.0, 12)))
    return made


def _precision() -> str:
    return "bfloat16" if torch.cuda.is_available() else "float32"


def _mean_gap(a: Sequence[Sequence[float]], b: Sequence[Sequence[float]]) -> float:
    return fmean(abs(x - y) for left, right in zip(a, b, strict=True) for x, y in zip(left, right, strict=True))


def _largest_gap(a: Sequence[Sequence[float]], b: Sequence[Sequence[float]]) -> float:
    return max(abs(x - y) for left, right in zip(a, b, strict=True) for x, y in zip(left, right, strict=True))
