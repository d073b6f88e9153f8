"""Recomputing layers in the backward pass: the same results from less memory."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from mobilerl import tiny
from mobilerl.engines.base import Request, Sampling
from mobilerl.engines.local import LocalEngine, LocalSettings
from mobilerl.records import Batch, Row


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("tiny")
    tiny.create(path, ["open the settings app"], hidden=32, layers=3, heads=2, vision_hidden=16)
    return path


def screen() -> bytes:
    from mobilerl.agent.pictures import blank

    return blank(84)


def learned(folder: Path, **settings) -> tuple[LocalEngine, dict[str, float], list, int]:
    """An engine after one update, its metrics, what it then samples, and the bytes kept for the backward pass."""
    engine = LocalEngine(folder, LocalSettings(reference=True, **settings))
    content = [{"type": "image"}, {"type": "text", "text": "open the settings app"}]
    prompt = engine.codec.encode([{"role": "user", "content": content}], [screen()])
    rows = [Row(f"t{i}", 0, prompt, (20 + i, 30, 40), (-3.0, -3.0, -3.0), (screen(),), 0) for i in range(4)]
    kept = 0

    def keep(t: torch.Tensor) -> torch.Tensor:
        nonlocal kept
        kept += t.numel() * t.element_size()
        return t

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
        metrics = engine.update(Batch(rows, [1.0, -1.0, 1.0, -1.0], [False] * 4),
                                lambda m: (-(m.weights * m.logp * m.advantage.unsqueeze(1)).sum(), {}),
                                "token-mean")  # fmt: skip
    said = engine.generate([Request(prompt, (screen(),), Sampling(0.0, 6))] * 2)
    assert engine.logprobs(rows, reference=True) != engine.logprobs(rows)
    return engine, metrics, said, kept


@pytest.mark.parametrize("lora", [0, 4])
def test_same_weights_and_samples_from_less_memory(folder, lora):
    torch.manual_seed(1)
    plain, metrics, said, kept = learned(folder, lora_rank=lora)
    torch.manual_seed(1)
    again, metrics_again, said_again, kept_again = learned(folder, lora_rank=lora, recompute=True)
    assert metrics_again == metrics
    assert said_again == said
    assert again.weights() == plain.weights()
    assert kept_again < 0.5 * kept
