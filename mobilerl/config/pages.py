"""ReachAgent: a page graph of the phone's apps, tasks made from it, supervised learning, and DPO on pairs of steps."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from mobilerl.config.types import Positive, Rate, Section

Part = Annotated[float, Field(ge=0.0, lt=1.0)]


class PagesSection(Section):
    """The page graph, its tasks, and stage 1, which imitates their shortest ways (docs/pages.md)."""

    graph: str = ""
    """Folder of a stored page graph; empty: an embedded phone is explored."""
    most_pages: Positive = 300
    """Pages explored in one app."""
    apps: tuple[str, ...] = ()
    """Apps to explore; empty for all."""
    walks: Positive = 1000
    """Random walks per app from which navigation tasks are made, besides the shortest way to every page."""
    test_share: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.2
    """Share of the flows whose tasks are held out. ReachAgent holds out 0.05, of many more."""
    reaching: bool = True
    """Train on page reaching (false: ReachAgent without reach)."""
    operation: bool = True
    """Train on page operation (false: ReachAgent without operate)."""
    alignment: bool = True
    """Touch elements at their centres (false: anywhere within them, as a recorded walk does). ReachAgent 4.2."""
    thoughts: bool = True
    """Replies carry the written thought that stage 2 of the warm-up teaches; false: the action alone."""
    demo_share: Part = 0.6
    """Share of ordinary demonstrations among the samples of stage 1, so that other tasks are not forgotten."""
    epochs: Rate = 4.0
    """Times that stage 1 goes through its samples. ReachAgent: 2."""
    batch_size: Positive = 32
    """Samples of one optimiser step of stage 1."""
    learning_rate: Rate = 5e-4
    """Highest of stage 1. ReachAgent: 1e-5, for a large model."""
    seed: int = 0
    """Of the tasks, their split, and stage 1."""


class DpoSection(Section):
    """Stage 2: preference pairs of single steps from runs of the stage-1 policy, learned by DPO."""

    enabled: bool = True
    """False: ReachAgent without DPO; stage 1 is the end."""
    beta: Rate = 0.1
    """How much a change against stage 1 counts (recipes/reachagent.toml: 0.5). DPO eq. 7."""
    temperature: Annotated[float, Field(ge=0.0)] = 1.0
    """Of the stage-1 policy's own actions, which are rejected where they are worse than golden; 0: greedy."""
    epochs: Positive = 2
    """Times that the pairs are gone through. ReachAgent."""
    batch_size: Positive = 32
    """Pairs of one optimiser step."""
    learning_rate: Rate = 1e-5
    """Highest of stage 2. ReachAgent."""
    checkpoint_every: Positive = 50
    """Optimiser steps from one checkpoint to the next."""
    seed: int = 0
    """Of the pairs, and of their order."""
