"""Preference pairs for DPO: the golden action at a step of a golden flow, and one of a lower level (ReachAgent 4.3).

The rejected action is the agent's own if it is worse than the golden one, else a random worse action of A(P). A pair
consists of the first responses of the two actions that differ, which share a prompt: for a click and an input on
another field these are the taps, for two texts in one field the typing after the tap. The agent's own response is used
token by token; a random action is written like a golden one.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from mobilerl.envs.base import Action
from mobilerl.models.codec import Codec
from mobilerl.policy.screen import Box
from mobilerl.reachagent.actions import PageAction, from_device, same_action
from mobilerl.reachagent.agent import Decision, PageAgent, Query
from mobilerl.reachagent.graph import PageGraph
from mobilerl.reachagent.pair_files import PreferencePair
from mobilerl.reachagent.responses import INEXPRESSIBLE, UNKNOWN_WORDS, ResponseWriter, has_unknown_tokens, query_flows
from mobilerl.reachagent.rewards import Level, State, advance, distances, first_state, level
from mobilerl.reachagent.tasks import PageTask
from mobilerl.sft.samples import Sample

INVALID_RESPONSES = "agent: not an action of the page"
IDENTICAL = "the responses are identical"


@dataclass(frozen=True, slots=True)
class ActionPair:
    """Pair of actions at step `step` of a golden flow, where `chosen` has a higher level than `rejected`.

    `rejected` is None for a response of the agent that is not an action of the page.
    """

    step: int
    chosen: PageAction
    rejected: PageAction | None
    chosen_level: Level
    rejected_level: Level
    source: Literal["agent", "random"]


def action_pairs(
    graph: PageGraph, task: PageTask, agent_actions: Sequence[PageAction | None], seed: int = 0
) -> list[ActionPair]:
    """Makes at most one pair per step; `agent_actions` has one item per step. Depends only on the seed and the task."""
    rng = random.Random(f"{seed}/{task.id}")
    remaining, state = distances(graph, task.goal), first_state(graph, task.goal)

    def rate(action: PageAction | None, state: State, step: int) -> Level:
        return Level.INVALID if action is None else level(graph, task.goal, remaining, state, step, action)

    pairs: list[ActionPair] = []
    for step, (page, golden, own) in enumerate(zip(task.pages, task.actions, agent_actions, strict=True)):
        best, own_level = rate(golden, state, step), rate(own, state, step)
        if own_level < best:
            pairs.append(ActionPair(step, golden, own, best, own_level, "agent"))
        else:
            choices = _with_texts(graph.pages[page].actions, golden.text, rng)
            if worse := [a for a in choices if rate(a, state, step) < best]:
                rejected = rng.choice(worse)
                pairs.append(ActionPair(step, golden, rejected, best, rate(rejected, state, step), "random"))
        state = advance(graph, task.goal, state, golden) or state
    return pairs


def _with_texts(space: Sequence[PageAction], golden_text: str, rng: random.Random) -> list[PageAction]:
    """Gives the inputs of an action space the name of a random element as text."""
    words = [a.name for a in space if a.name and a.name != golden_text]
    return [replace(a, text=rng.choice(words)) if a.kind == "input" and words else a for a in space]


def preference_pairs(
    graph: PageGraph,
    tasks: Sequence[PageTask],
    agent: PageAgent,
    writer: ResponseWriter,
    codec: Codec,
    seed: int,
    counts: Counter[str],
) -> Iterator[PreferencePair]:
    """Yields pairs of responses; counts pairs by source, and steps without a pair by reason."""
    for task, decisions in query_flows(agent, writer, tasks):
        own = [decision.action for _, decision in decisions]
        counts[INVALID_RESPONSES] += own.count(None)
        pairs = action_pairs(graph, task, own, seed)
        counts["no worse action"] += len(own) - len(pairs)
        for pair in pairs:
            counts[pair.source] += 1
            if found := _response_pair(task, pair, *decisions[pair.step], writer, codec, counts):
                counts["pairs"] += 1
                yield found


def _response_pair(
    task: PageTask,
    pair: ActionPair,
    query: Query,
    decision: Decision,
    writer: ResponseWriter,
    codec: Codec,
    counts: Counter[str],
) -> PreferencePair | None:
    """Makes a pair of responses; None, counted by reason, if the actions cannot be distinguished or written."""
    better = writer.write(query, pair.chosen)
    if pair.source == "agent":
        worse = [(response.action, response.completion.token_ids) for response in decision.responses]
    else:
        assert pair.rejected is not None  # only that of a response of the agent can be
        written = writer.write(query, pair.rejected)
        worse = [(w.step.action, codec.encode_response(w.write_response(writer.context))) for w in written]
    if not better or not worse:
        counts[INEXPRESSIBLE] += 1
        return None
    space, focus = writer.scenes.see(query.page).space, better[-1].query.focus
    k = first_difference([w.step.action for w in better], [action for action, _ in worse], space, focus)
    if k is None:
        counts[IDENTICAL] += 1
        return None
    sample, rejected_ids = better[k].sample(writer.context, codec), worse[k][1]
    if has_unknown_tokens(codec, sample) or has_unknown_tokens(codec, Sample((), rejected_ids, ())):
        counts[UNKNOWN_WORDS] += 1
        return None
    note = {
        "task": task.instruction,
        "page": query.page,
        "source": pair.source,
        "chosen": better[k].write_response(writer.context),
        "rejected": codec.decode(rejected_ids),
        "chosen_level": pair.chosen_level.name.lower(),
        "rejected_level": pair.rejected_level.name.lower(),
    }
    name = f"{task.id}/{pair.step}"
    return PreferencePair(name, sample.prompt_ids, sample.images, sample.response_ids, rejected_ids, note)


def first_difference(
    ours: Sequence[Action], theirs: Sequence[Action], space: Sequence[PageAction], focus: Box | None = None
) -> int | None:
    """Index of the first actions with different effects on a page; None if there are none in the common length."""
    for k, (a, b) in enumerate(zip(ours, theirs, strict=False)):
        first, second = (from_device(action, space, focus if k else None) for action in (a, b))
        if a != b and (first is None or second is None or not same_action(second, first)):
            return k
    return None
