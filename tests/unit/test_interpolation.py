"""Interpolation of checkpoints: weights, files, and models that do not fit."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from mobilerl.config import ConfigError
from mobilerl.models.checkpoint_folder import STATE_FILE, model_of_run
from mobilerl.models.interpolation import interpolate


def folder(path: Path, parts: dict[str, dict[str, torch.Tensor]]) -> Path:
    path.mkdir(parents=True)
    for name, weights in parts.items():
        save_file(weights, path / name, metadata={"format": "pt"})
    (path / "config.json").write_text(f'"{path.name}"')
    return path


def test_weights_are_mixed_by_name_whatever_file_they_are_in(tmp_path):
    a, b = torch.tensor([0.0, 4.0]), torch.tensor([[8.0]])
    start = folder(tmp_path / "start", {"x.safetensors": {"a": a, "b": b}})
    halves = {"1.safetensors": {"a": a + 4}, "2.safetensors": {"b": (b + 4).bfloat16()}}
    trained = folder(tmp_path / "run" / "checkpoints" / "iter-000001", halves)
    for name in (STATE_FILE, "trainer.pt"):
        (trained / name).write_text("{}")
    out = tmp_path / "run" / "final"
    for share, added in ((1.0, 0.0), (0.25, 3.0)):
        interpolate(start, trained, out, share)
        assert torch.equal(load_file(out / "1.safetensors")["a"], a + added)
        found = load_file(out / "2.safetensors")["b"]
        assert found.dtype == torch.bfloat16 and found.item() == 8 + added
    assert {p.name for p in out.iterdir()} == {"1.safetensors", "2.safetensors", "config.json"}
    assert (out / "config.json").read_text() == '"iter-000001"'
    assert model_of_run(tmp_path / "run") == out


@pytest.mark.parametrize("other", [{"b": torch.zeros(2)}, {"a": torch.zeros(3)}])
def test_another_model_is_refused_and_nothing_is_lost(tmp_path, other):
    trained = folder(tmp_path / "trained", {"x.safetensors": {"a": torch.zeros(2)}})
    interpolate(trained, trained, tmp_path / "final", 0.5)
    start = folder(tmp_path / "start", {"x.safetensors": other})
    with pytest.raises(ConfigError, match="train.initial_share: "):
        interpolate(start, trained, tmp_path / "final", 0.5)
    assert {p.name for p in tmp_path.iterdir()} == {"trained", "start", "final"}
    assert (tmp_path / "final" / "x.safetensors").is_file()
