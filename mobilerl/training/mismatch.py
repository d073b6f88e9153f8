"""Ends a run whose sampler and learner compute different policies."""

from __future__ import annotations

import torch

from mobilerl.config import Recipe
from mobilerl.engines.registry import engine_kind
from mobilerl.models.loading import compute_dtype
from mobilerl.records.engine import EngineError

AUTO = {torch.bfloat16: 0.02, torch.float32: 1e-4}
"""Values of `train.max_k3 = "auto"`: several times what was measured without a mistake (docs/results.md)."""


def k3_limit(recipe: Recipe) -> float | None:
    """The limit of k3 in a run; None for none."""
    if recipe.train.max_k3 != "auto":
        return recipe.train.max_k3
    return AUTO[torch.bfloat16 if engine_kind(recipe.engine).cluster else compute_dtype()]


def check_k3(k3: float | None, limit: float | None, kept: str) -> None:
    """Raises EngineError if k3 is above its limit. `kept` says what is left of the run."""
    if k3 is None or limit is None or k3 <= limit:
        return
    raise EngineError(
        f"sampler and learner disagree: k3 of the first mini-batch is {k3:.2g}, above train.max_k3 = {limit:g}. Likely "
        "the sampler has other weights, another precision, or another position or attention of packed samples, or it "
        "cuts the distribution (top-p, penalties); compare the two with `mobilerl bench gpu`, or set train.max_k3 to "
        f"null; {kept}"
    )
