"""Writes page actions as responses of our agent: the samples of golden flows that stage 1 imitates.

An `input` gives two samples, a tap on the field and the typing; every other action gives one.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from mobilerl.envs.base import Action, LongPress, Swipe, Tap
from mobilerl.models.codec import Codec
from mobilerl.policy.context import ContextPolicy
from mobilerl.policy.turns import Turn
from mobilerl.reachagent.actions import PageAction, device_actions, from_device
from mobilerl.reachagent.agent import Decision, PageAgent, Query, Scenes, episode_task
from mobilerl.reachagent.tasks import PageTask
from mobilerl.sft.reasoning import written_thought
from mobilerl.sft.samples import ExpertStep, Sample, encode

TOGETHER = 128
"""Number of tasks about which an agent is asked at the same time."""
INEXPRESSIBLE = "no response expresses the action"
UNKNOWN_WORDS = "the checkpoint's vocabulary lacks some characters"


@dataclass(frozen=True, slots=True)
class WrittenResponse:
    """One response to a query."""

    query: Query
    step: ExpertStep
    thought: str

    def write_response(self, context: ContextPolicy) -> str:
        return self.step.write_response(context, self.thought)

    def sample(self, context: ContextPolicy, codec: Codec) -> Sample:
        return encode(self.step, context, codec, self.thought)


class ResponseWriter:
    """Writes actions as responses in the format of `context`, with the thoughts that stage 2 of SFT teaches."""

    def __init__(self, scenes: Scenes, context: ContextPolicy) -> None:
        self.scenes, self.context = scenes, context

    def write(self, query: Query, action: PageAction, rng: random.Random | None = None) -> list[WrittenResponse]:
        """Writes one response, or two for an input; [] if none expresses the action. With `rng` touches are
        off-center."""
        made: list[WrittenResponse] = []
        for command in touches(action, rng):
            turns = self.turns_after(made[-1]) if made else query.turns
            here = replace(query, turns=turns, focus=action.box if made else None)
            written = self._write_one(here, command)
            if written is None:
                return []
            made.append(written)
        return made if rng or self._expresses(made, action) else []

    def turns_after(self, written: WrittenResponse) -> tuple[Turn, ...]:
        scene = self.scenes.see(written.query.page, written.query.focus)
        return written.query.turns_after(
            scene, written.step.action, written.write_response(self.context), written.thought
        )

    def flow(self, task: PageTask, rng: random.Random | None = None) -> list[tuple[Query, list[WrittenResponse]]]:
        """Queries and responses of the steps of a golden flow."""
        episode = episode_task(task)
        turns: tuple[Turn, ...] = ()
        steps: list[tuple[Query, list[WrittenResponse]]] = []
        for page, action in zip(task.pages, task.actions, strict=True):
            query = Query(episode, page, turns)
            written = self.write(query, action, rng)
            steps.append((query, written))
            turns = self.turns_after(written[-1]) if written else turns
        return steps

    def _write_one(self, query: Query, command: Action) -> WrittenResponse | None:
        scene = self.scenes.see(query.page, query.focus)
        seen = replace(scene.observation, step=len(query.turns))
        step = ExpertStep(query.task, query.turns, seen, scene.screen, command)
        thought = written_thought(step, self.context)
        try:
            step.write_response(self.context, thought)
        except ValueError:  # a touch on no marked element
            return None
        return WrittenResponse(query, step, thought)

    def _expresses(self, made: list[WrittenResponse], action: PageAction) -> bool:
        """Whether the responses, parsed like an agent's, give the action; the first one of an input taps the field."""
        *taps, last = [self._read(written) for written in made]
        return last == action and all(tap is not None and tap.box == action.box for tap in taps)

    def _read(self, written: WrittenResponse) -> PageAction | None:
        focus, response = written.query.focus, written.write_response(self.context)
        scene = self.scenes.see(written.query.page, focus)
        return from_device(self.context.parse(response, scene.screen).action, scene.space, focus)


def touches(action: PageAction, rng: random.Random | None) -> tuple[Action, ...]:
    """Device actions of a page action; with `rng` as in recorded walks, anywhere in the box, scrolls of any length."""
    commands = device_actions(action)
    if rng is None or action.box is None:
        return commands
    x1, y1, x2, y2 = action.box
    x, y = rng.randint(x1, x2), rng.randint(y1, y2)
    first = commands[0]
    if isinstance(first, Tap | LongPress):
        return (replace(first, x=x, y=y), *commands[1:])
    assert isinstance(first, Swipe)
    length = 4 * rng.uniform(0.1, 0.5)  # relative to the quarter of the box that an aligned swipe covers
    ends = x + length * (first.x2 - first.x), y + length * (first.y2 - first.y)
    x2, y2 = (min(max(round(end), 0), 999) for end in ends)
    return (Swipe(x, y, x2, y2),)


def flow_samples(
    writer: ResponseWriter, tasks: Iterable[PageTask], codec: Codec, aligned: bool, seed: int, counts: Counter[str]
) -> Iterator[Sample]:
    """Yields the samples of golden flows. Steps without a response or with unknown tokens are skipped and counted."""
    for task in tasks:
        rng = None if aligned else random.Random(f"{seed}/{task.id}")
        for _, written in writer.flow(task, rng):
            counts[INEXPRESSIBLE] += not written
            for one in written:
                sample = one.sample(writer.context, codec)
                if has_unknown_tokens(codec, sample):
                    counts[UNKNOWN_WORDS] += 1
                else:
                    counts["samples"] += 1
                    yield sample


def has_unknown_tokens(codec: Codec, sample: Sample) -> bool:
    unknown = codec.tokenizer.unk_token_id
    return unknown is not None and (unknown in sample.prompt_ids or unknown in sample.response_ids)


def query_flows(
    agent: PageAgent, writer: ResponseWriter, tasks: Sequence[PageTask]
) -> Iterator[tuple[PageTask, list[tuple[Query, Decision]]]]:
    """Yields each task with the agent's decisions at the steps of its golden flow; all earlier steps are golden."""
    for some in parts(tasks):
        flows = [[query for query, _ in writer.flow(task)] for task in some]
        decisions = iter(agent.decide([query for flow in flows for query in flow]))
        for task, flow in zip(some, flows, strict=True):
            yield task, [(query, next(decisions)) for query in flow]


def parts(tasks: Sequence[PageTask]) -> Iterator[Sequence[PageTask]]:
    """Splits tasks into those that an agent is asked about together, whose screens are in memory."""
    return (tasks[start : start + TOGETHER] for start in range(0, len(tasks), TOGETHER))
