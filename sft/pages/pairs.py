"""Preference pairs for DPO: per step of a golden flow, the golden action and one of a lower level (ReachAgent 4.3).

The lower one is what the agent itself would do where that is not golden, else a random action of A(P).
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Literal

from sft.pages.actions import PageAction
from sft.pages.graph import PageGraph
from sft.pages.rewards import Level, State, advance, distances, first_state, level
from sft.pages.tasks import PageTask

Source = Literal["agent", "random"]


@dataclass(frozen=True, slots=True)
class Prompt:
    """What both actions of a pair answer: the task, the page, and the actions before."""

    task_id: str
    instruction: str
    page: str
    """Id of the page in the graph."""
    xml: str
    screenshot: bytes
    width: int
    height: int
    actions: tuple[PageAction, ...]
    """A(P)."""
    history: tuple[PageAction, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """`chosen` has a higher level than `rejected`. `source` says whether the agent or chance proposed the latter."""

    prompt: Prompt
    chosen: PageAction
    rejected: PageAction
    chosen_level: Level
    rejected_level: Level
    source: Source


Agent = Callable[[Prompt], PageAction | None]
"""What the model of stage 1 does; None when its reply is no action of the page."""


def prompts(graph: PageGraph, task: PageTask) -> list[Prompt]:
    """The states along a task's golden flow, one per step."""
    made = []
    for i, page_id in enumerate(task.pages):
        page = graph.pages[page_id]
        made.append(Prompt(task.id, task.instruction, page_id, page.xml, page.screenshot, graph.width, graph.height,
                           page.actions, task.actions[:i]))  # fmt: skip
    return made


def make_pairs(
    graph: PageGraph, tasks: Iterable[PageTask], agent: Agent, seed: int = 0
) -> tuple[list[Pair], Counter[str]]:
    """One pair per step, and counts: pairs by source, steps without an action of a lower level, unreadable replies.

    The draws of a task depend on the seed and the task alone, so that tasks can be dealt to many processes.
    """
    pairs: list[Pair] = []
    counts: Counter[str] = Counter()
    for task in tasks:
        rng = random.Random(f"{seed}/{task.id}")
        remaining = distances(graph, task.goal)
        state = first_state(graph, task.goal)
        for prompt, golden in zip(prompts(graph, task), task.actions, strict=True):
            own = agent(prompt)
            counts["agent: unreadable"] += own is None
            rated = _Rated(graph, task, remaining, state, len(prompt.history))
            pair = _pair(prompt, golden, own, rated, rng)
            if pair is None:
                counts["no lower action"] += 1
            else:
                pairs.append(pair)
                counts[pair.source] += 1
            state = advance(graph, task.goal, state, golden) or state
    return pairs, counts


@dataclass(frozen=True, slots=True)
class _Rated:
    """The levels of actions at one step of a task."""

    graph: PageGraph
    task: PageTask
    remaining: dict[State, int]
    state: State
    taken: int

    def __call__(self, action: PageAction) -> Level:
        return level(self.graph, self.task.goal, self.remaining, self.state, self.taken, action)


def _pair(prompt: Prompt, golden: PageAction, own: PageAction | None, rated: _Rated, rng: random.Random) -> Pair | None:
    """A pair with the agent's action when that is worse than golden, else with a random worse one if there is any."""
    best = rated(golden)
    if own is not None and rated(own) < best:
        return Pair(prompt, golden, own, best, rated(own), "agent")
    words = [a.name for a in prompt.actions if a.name and a.name != golden.text]
    texted = [replace(a, text=rng.choice(words)) if a.kind == "input" and words else a for a in prompt.actions]
    worse = [(a, rated(a)) for a in texted if rated(a) < best]
    if not worse:
        return None
    rejected, below = rng.choice(worse)
    return Pair(prompt, golden, rejected, best, below, "random")
