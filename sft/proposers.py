"""The reasoning samples of a round of stage 2: proposals for experts' and recorded steps, filtered and counted."""

from __future__ import annotations

import hashlib
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TypeAlias

from mobilerl.config import ConfigError, Recipe
from mobilerl.engines.registry import make_sampler
from mobilerl.inference.engine_policy import EnginePolicy, StreamPolicy
from mobilerl.inference.images import shrunk
from mobilerl.policy.actor import Messages
from mobilerl.policy.context import ContextPolicy
from mobilerl.records.engine import Engine, Sampling, StreamingEngine
from mobilerl.sft.asking import Asker, Model
from mobilerl.sft.proposal_log import ProposalLog, log_of, write_proposal_metrics
from mobilerl.sft.reasoning import Proposal, keep_thought, template_proposals, written_thought
from mobilerl.sft.samples import ExpertStep
from mobilerl.system.terminal import say

SAID_EVERY_S = 30.0
"""Seconds between two lines about the progress of a round."""
TEMPERATURE = 1.0

Proposed: TypeAlias = Iterator[tuple[ExpertStep, list[Proposal]]]
Propose: TypeAlias = Callable[[Iterable[ExpertStep]], Proposed]


@dataclass(slots=True)
class Tally:
    """Counts of a round, by kind of action."""

    steps: Counter[str] = field(default_factory=Counter)
    kept: Counter[str] = field(default_factory=Counter)
    proposals: int = 0

    def __str__(self) -> str:
        share = self.kept.total() / max(self.steps.total(), 1)
        kinds = ", ".join(f"{kind} {self.kept[kind]} of {count}" for kind, count in self.steps.most_common())
        return f"thoughts kept for {share:.0%} of {self.steps.total()} steps ({kinds or 'none'})"

    def metrics(self) -> dict[str, float]:
        """Counts and shares under their names in metrics.jsonl."""
        shares = {f"sft/kept_share/{kind}": self.kept[kind] / count for kind, count in self.steps.items()}
        share = self.kept.total() / max(self.steps.total(), 1)
        return {"sft/proposals": self.proposals, "sft/kept_share": share, **shares}


def reasoned(
    recipe: Recipe,
    number: int,
    run_dir: Path,
    base: Path,
    context: ContextPolicy,
    experts: Sequence[ExpertStep],
    recorded: Iterator[ExpertStep],
) -> Iterator[tuple[ExpertStep, str]]:
    """Steps for round `number`, with thoughts that lead to their actions. Raises ConfigError if there are none.

    Without a model to ask in the first round, thoughts come from templates, which only experts' steps have. At the end
    the metrics of the round are written beside its proposals.
    """
    templates = not recipe.sft.proposer_url
    asks, stage, tally, unsolved = number > 1 or not templates, f"stage2-round{number}", Tally(), []
    rng = random.Random(f"{recipe.train.seed}/reasoning/{number}")
    with ProposalLog(log_of(run_dir, stage), proposer_name(recipe, number, base)) as log:
        with proposer(recipe, number, base, context, log) as propose:
            steps = chain(experts, recorded) if asks else experts
            for place, (step, proposals) in enumerate(_watched(propose(steps), number, tally, log)):
                tally.steps[step.action.kind] += 1
                tally.proposals += len(proposals)
                if thought := keep_thought(step, proposals, rng):
                    tally.kept[step.action.kind] += 1
                    yield step, thought
                elif templates and place < len(experts):
                    unsolved.append(step)
        yield from ((step, written_thought(step, context)) for step in unsolved)  # the hard ones
        tokens = {"sft/prompt_tokens": log.prompt_tokens, "sft/completion_tokens": log.completion_tokens}
    said = f"; {log.prompt_tokens:,} prompt and {log.completion_tokens:,} response tokens" if log.prompt_tokens else ""
    say(f"round {number}: {tally}; {tally.proposals} proposals{said}")
    if asks:
        write_proposal_metrics(run_dir, stage, tally.metrics() | tokens)
    if not tally.kept and not (templates and experts):
        raise ConfigError(f"stage 2, round {number}: no proposal was the expert's action; train stage 1 longer")


def _watched(proposed: Proposed, number: int, tally: Tally, log: ProposalLog) -> Proposed:
    """Says now and then how far a round has come."""
    began = said = time.monotonic()
    before = len(log)
    for step, proposals in proposed:
        yield step, proposals
        now = time.monotonic()
        if now >= said + SAID_EVERY_S:
            said = now
            speed = f"{len(log) - before} new ones, {(len(log) - before) / (now - began):.1f} per second"
            say(f"round {number}: {tally}; {tally.proposals} proposals ({speed})", stderr=True)


def proposer_name(recipe: Recipe, number: int, base: Path) -> str:
    """Name of the model that proposes in a round: the server's, or the checkpoint's with a digest of its weights."""
    if number == 1:
        return recipe.sft.proposer_model if recipe.sft.proposer_url else "templates"
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted(base.glob("*.safetensors")):
        with open(path, "rb") as file:
            hashlib.file_digest(file, lambda: digest)
    return f"{base.name}-{digest.hexdigest()}"


@contextmanager
def proposer(recipe: Recipe, number: int, base: Path, context: ContextPolicy, log: ProposalLog) -> Iterator[Propose]:
    """Proposals from a server or from templates in the first round, and from the previous round's policy later."""
    if number == 1 and not recipe.sft.proposer_url:
        yield partial(template_proposals, context=context)
        return
    asker = partial(Asker, log=log, candidates=recipe.sft.candidates, in_flight=recipe.sft.proposer_concurrency)
    sampling = Sampling(TEMPERATURE, recipe.agent.max_new_tokens, context.stop)
    if number == 1:
        yield asker(_server_model(recipe, context, sampling, log.proposer)).proposals
        return
    engine = make_sampler(recipe, base, TEMPERATURE, seed=recipe.train.seed + len(log))
    try:
        yield asker(_policy_model(recipe, engine, context, sampling, log.proposer)).proposals
    finally:
        engine.close()


def _server_model(recipe: Recipe, context: ContextPolicy, sampling: Sampling, name: str) -> Model:
    from mobilerl.inference.server import connect

    most = recipe.engine.max_pixels
    server = connect(recipe.sft.proposer_url, name, recipe.agent.screenshots, most)
    shrink = partial(shrunk, max_pixels=most) if most else bytes
    seen = replace(context, size_seen=server.size_seen)
    return Model(name, server, seen, sampling, server.client.usage, shrink=shrink)


def _policy_model(recipe: Recipe, engine: Engine, context: ContextPolicy, sampling: Sampling, name: str) -> Model:
    """The policy of the previous round. vLLM gets every request at once, and refuses prompts that are too long."""
    seen = replace(context, size_seen=engine.codec.images.size_seen)
    if not isinstance(engine, StreamingEngine):
        policy = EnginePolicy(engine, max_wait_s=0.05)
        policy.expect(lambda: recipe.sft.proposer_concurrency)
        return Model(name, policy, seen, sampling)

    def fits(messages: Messages, images: Sequence[bytes]) -> bool:
        return len(engine.codec.encode(messages, images)) <= recipe.vllm.max_prompt

    return Model(name, StreamPolicy(engine), seen, sampling, fits=fits)
