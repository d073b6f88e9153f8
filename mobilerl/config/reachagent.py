"""ReachAgent: page graph and tasks, supervised stage 1, and DPO."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from mobilerl.config.marks import OnlyWith
from mobilerl.config.types import Positive, Rate, Section

Fraction = Annotated[float, Field(ge=0.0, lt=1.0)]
DPO = OnlyWith({"dpo.enabled": (True,)})


class PagesSection(Section):
    """The page graph, its tasks, and stage 1, which imitates their shortest flows (docs/pages.md)."""

    graph: str = ""
    """Folder of a stored page graph; empty to explore an embedded phone."""
    apps: Annotated[tuple[str, ...], OnlyWith({"pages.graph": ("",)})] = ()
    """Apps to explore; empty for all."""
    walks: Positive = 1000
    """Number of random walks per app for navigation tasks, in addition to the shortest path to every page."""
    reaching: bool = True
    """Train on page-reaching tasks (false: ReachAgent without reach)."""
    operation: bool = True
    """Train on page-operation tasks (false: ReachAgent without operate)."""
    alignment: bool = True
    """Touch elements at their centers (ReachAgent 4.2); false for anywhere inside, as in recorded walks."""
    demo_share: Fraction = 0.6
    """Fraction of ordinary demonstrations in the samples of stage 1, so that other tasks are not forgotten."""
    epochs: Rate = 4.0
    """Epochs of stage 1. ReachAgent: 2."""
    learning_rate: Rate = 5e-4
    """Peak learning rate of stage 1. ReachAgent: 1e-5, for a large model."""


class DpoSection(Section):
    """Stage 2: DPO on preference pairs of single steps, sampled from the stage-1 policy."""

    enabled: bool = True
    """Run DPO (false: ReachAgent without DPO, which ends after stage 1)."""
    beta: Annotated[Rate, DPO] = 0.1
    """Strength of the penalty for deviating from stage 1 (DPO eq. 7). recipes/reachagent.toml: 0.5."""
    epochs: Annotated[Positive, DPO] = 2
    """Epochs over the pairs (ReachAgent)."""
    batch_size: Annotated[Positive | None, DPO] = None
    """Pairs per optimizer step; null for `sft.batch_size` (ReachAgent: 1, and 4 in stage 1)."""
    learning_rate: Annotated[Rate, DPO] = 1e-5
    """Peak learning rate (ReachAgent)."""
