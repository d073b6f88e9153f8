"""The reasoning samples of a round of stage 2: proposals for experts' and recorded steps, filtered and encoded."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path

from mobilerl.config import ConfigError, Recipe
from mobilerl.engines.registry import make_engine
from mobilerl.inference.engine_policy import EnginePolicy
from mobilerl.policy.actor import Policy
from mobilerl.policy.context import ContextPolicy
from mobilerl.records.engine import Sampling
from mobilerl.sft.reasoning import IN_FLIGHT, Proposal, bootstrap, sample_proposals, template_proposals, written_thought
from mobilerl.sft.samples import ExpertStep
from mobilerl.system.terminal import say

AT_A_TIME = 4 * IN_FLIGHT
"""Recorded steps that are in memory, with their screenshots, while reasoning is proposed for them."""

Propose = Callable[[Sequence[ExpertStep]], list[list[Proposal]]]


def reasoned(
    recipe: Recipe,
    number: int,
    base: Path,
    context: ContextPolicy,
    experts: Sequence[ExpertStep],
    recorded: Iterator[ExpertStep],
) -> Iterator[tuple[ExpertStep, str]]:
    """Steps for round `number`, with thoughts that lead to their actions. Raises ConfigError if there are none.

    Without a model to ask in the first round, thoughts come from templates, which only experts' steps have.
    """
    settings = recipe.sft
    templates = not settings.proposer_url
    rng = random.Random(f"{recipe.train.seed}/reasoning/{number}")
    asked = found = 0
    with proposer(recipe, number, base, context) as propose:
        kept, _ = bootstrap(experts, propose(experts), rng)
        asked, found = len(experts), len(kept)
        yield from kept
        if templates:  # the unsolved steps are the hard ones
            solved = {id(step) for step, _ in kept}
            yield from ((step, written_thought(step)) for step in experts if id(step) not in solved)
        if number > 1 or not templates:
            while steps := list(islice(recorded, AT_A_TIME)):
                kept, _ = bootstrap(steps, propose(steps), rng)
                asked, found = asked + len(steps), found + len(kept)
                yield from kept
    say(f"round {number}: thoughts kept for {found / max(asked, 1):.0%} of {asked} steps")
    if not found and not (templates and experts):
        raise ConfigError(f"stage 2, round {number}: no proposal was the expert's action; train stage 1 longer")


@contextmanager
def proposer(recipe: Recipe, number: int, base: Path, context: ContextPolicy) -> Iterator[Propose]:
    """Proposals from a server or from templates in the first round, and from the previous round's policy later."""
    settings, agent = recipe.sft, recipe.agent
    if number == 1 and not settings.proposer_url:
        yield template_proposals
        return
    policy: Policy
    if number == 1:
        from mobilerl.inference.server import connect

        server = connect(settings.proposer_url, settings.proposer_model, agent.screenshots, recipe.engine.max_pixels)
        policy, size_seen = server, server.size_seen
    else:
        engine = make_engine(base, recipe.engine, 1.0, seed=recipe.train.seed)
        policy, size_seen = EnginePolicy(engine, max_wait_s=0.05), engine.codec.images.size_seen
    seen = replace(context, size_seen=size_seen)
    sampling = Sampling(1.0, agent.max_new_tokens, context.stop)
    asked = 0
    with asyncio.Runner() as runner:  # one event loop, to which the policy's connections belong

        def propose(steps: Sequence[ExpertStep]) -> list[list[Proposal]]:
            nonlocal asked
            first, asked = asked, asked + len(steps)
            return runner.run(sample_proposals(policy, seen, sampling, steps, settings.candidates, first))

        yield propose
