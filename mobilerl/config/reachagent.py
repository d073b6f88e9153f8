"""ReachAgent: page graph and tasks, supervised stage 1, and DPO."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from mobilerl.config.marks import ANY, OnlyWith
from mobilerl.config.types import Count, Positive, Rate, Section

Fraction = Annotated[float, Field(ge=0.0, lt=1.0)]
DPO = OnlyWith({"dpo.epochs": ANY})


class PagesSection(Section):
    """The page graph, its tasks, and stage 1, which imitates their shortest flows (docs/pages.md)."""

    graph: str = ""
    """Folder of a stored page graph; empty to explore an embedded phone."""
    apps: Annotated[tuple[str, ...], OnlyWith({"pages.graph": ("",)})] = ()
    """Apps to explore; empty for all."""
    flows: Count = 0
    """Number of navigation flows per app, chosen by a hash; 0 for all. ReachAgent: about 1,150."""
    test_share: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.2
    """Fraction of pages whose navigation flows are held out, chosen by a hash of app and page. ReachAgent: 0.05."""
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

    beta: Annotated[Rate, DPO] = 0.1
    """Strength of the penalty for deviating from stage 1 (DPO eq. 7). recipes/reachagent.toml: 0.5."""
    epochs: Count = 2
    """Epochs over the pairs (ReachAgent: 2); with 0, training ends after stage 1 (ReachAgent without DPO)."""
    batch_size: Annotated[Positive | None, DPO] = None
    """Pairs per optimizer step; null for `sft.batch_size` (ReachAgent: 1, and 4 in stage 1)."""
    learning_rate: Annotated[Rate, DPO] = 1e-5
    """Peak learning rate (ReachAgent)."""
