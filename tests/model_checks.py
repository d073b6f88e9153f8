"""Comparison of models' weights and log-probabilities, and changes of their folders."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import torch


def fingerprint(model: torch.nn.Module) -> str:
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode() + tensor.contiguous().numpy().tobytes())
    return digest.hexdigest()


def largest_difference(a: Sequence[Sequence[float]], b: Sequence[Sequence[float]]) -> float:
    """Largest absolute difference between two lists of log-probabilities of the same lengths."""
    assert [len(x) for x in a] == [len(x) for x in b]
    return max(abs(x - y) for left, right in zip(a, b, strict=True) for x, y in zip(left, right, strict=True))


def as_of_transformers_4(path: Path) -> None:
    """Rewrites config.json as in published folders: separate rotary settings, and a flat text config of Qwen2.5-VL."""
    config = json.loads((path / "config.json").read_text())
    text = config["text_config"]
    rope = text.pop("rope_parameters")
    text["rope_theta"] = rope.pop("rope_theta")
    if "partial_rotary_factor" in rope:
        text["partial_rotary_factor"] = rope.pop("partial_rotary_factor")
    text["rope_scaling"] = rope
    if config["model_type"] == "qwen2_5_vl":
        rope["type"] = rope["rope_type"] = "mrope"
        config = {**text, **config}
        del config["text_config"]
    (path / "config.json").write_text(json.dumps(config))


def as_vllm_wants_it(path: Path) -> None:
    """Adds a setting of GLM's published config.json that vLLM requires and transformers does not write."""
    config = json.loads((path / "config.json").read_text())
    if config["model_type"] == "glm4v":
        config["text_config"]["attention_bias"] = True
        (path / "config.json").write_text(json.dumps(config))
