"""Comparison of models' weights and log-probabilities."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

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
