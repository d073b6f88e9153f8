"""Settings of the optimizer, AdamW."""

from __future__ import annotations

from mobilerl.config.types import Count, Rate, Section, Weight


class OptimizerSection(Section):
    """AdamW with linear warmup and gradient clipping, for every algorithm."""

    learning_rate: Rate = 2e-5
    """Peak learning rate of AdamW."""
    weight_decay: Weight = 0.0
    """Weight decay of AdamW."""
    grad_clip: Rate = 1.0
    """Maximum gradient norm."""
    warmup_steps: Count = 5
    """Number of optimizer steps over which the learning rate rises from 0 to its peak."""
