"""Actions of pages written as replies of our agent: the rows of golden flows, which stage 1 imitates.

An `input` is two rows, a tap on the field and the typing; everything else is one.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from envs.base import Action, LongPress, Swipe, Tap
from mobilerl.agent.actions import parse_reply
from mobilerl.agent.context import ContextPolicy, Turn
from mobilerl.engines.codec import Codec
from sft.pages.actions import PageAction, device_actions, from_device
from sft.pages.agent import Place, Scenes, episode_task
from sft.pages.tasks import PageTask
from sft.reasoning import written_thought
from sft.samples import ExpertStep, Sample

UNSAID = "a reply does not say the action"
UNKNOWN_WORDS = "the checkpoint's vocabulary lacks characters of it"


@dataclass(frozen=True, slots=True)
class Written:
    """One reply: where it is given, what is done, and the thought before it (None: none)."""

    place: Place
    step: ExpertStep
    thought: str | None

    def reply(self, context: ContextPolicy) -> str:
        return self.step.reply(context, self.thought)

    def sample(self, context: ContextPolicy, codec: Codec) -> Sample:
        messages, images = self.step.messages(context)
        return Sample(codec.encode(messages, images), codec.encode_reply(self.reply(context)), tuple(images))


class Writer:
    """Writes actions as replies in the style of `context`, with the thoughts that the warm-up teaches or without."""

    def __init__(self, scenes: Scenes, context: ContextPolicy, thoughts: bool) -> None:
        self.scenes, self.context, self.thoughts = scenes, context, thoughts

    def write(self, place: Place, action: PageAction, rng: random.Random | None = None) -> list[Written]:
        """One reply, or the two of an input. With `rng` touches are not at the centre. [] when no reply says it."""
        made: list[Written] = []
        for command in touches(action, rng):
            focus = action.box if made else None
            turns = self.after(made[-1]) if made else place.turns
            here = replace(place, turns=turns, focus=focus)
            written = self._one(here, command)
            if written is None:
                return []
            made.append(written)
        return made if rng or self._says(made, action) else []

    def after(self, written: Written) -> tuple[Turn, ...]:
        """The turns of a place after the reply."""
        scene = self.scenes.see(written.place.page, written.place.focus)
        return written.place.after(scene, written.step.action, written.reply(self.context), written.thought or "")

    def flow(self, task: PageTask, rng: random.Random | None = None) -> list[tuple[Place, list[Written]]]:
        """Every step of a golden flow: the place, and its replies."""
        about, turns, steps = episode_task(task), (), []
        for page, action in zip(task.pages, task.actions, strict=True):
            place = Place(about, page, turns)
            written = self.write(place, action, rng)
            steps.append((place, written))
            turns = self.after(written[-1]) if written else turns
        return steps

    def _one(self, place: Place, command: Action) -> Written | None:
        scene = self.scenes.see(place.page, place.focus)
        seen = replace(scene.observation, step=len(place.turns))
        step = ExpertStep(place.task, place.turns, seen, scene.screen, command)
        thought = written_thought(step) if self.thoughts else None
        try:
            step.reply(self.context, thought)
        except ValueError:  # a touch on no marked element
            return None
        return Written(place, step, thought)

    def _says(self, made: list[Written], action: PageAction) -> bool:
        """Whether the replies, read as an agent's are, are the action; of an input the first is a tap on the field."""
        *taps, last = [self._read(written) for written in made]
        return last == action and all(tap is not None and tap.box == action.box for tap in taps)

    def _read(self, written: Written) -> PageAction | None:
        scene, reply = self.scenes.see(written.place.page, written.place.focus), written.reply(self.context)
        size = scene.screen.width, scene.screen.height
        return from_device(parse_reply(reply, scene.screen, self.context.grounding, *size).action, scene.space,
                           written.place.focus)  # fmt: skip


def touches(action: PageAction, rng: random.Random | None) -> tuple[Action, ...]:
    """`device_actions`; with `rng` as a recorded walk has them: anywhere within the box, scrolls of any length."""
    commands = device_actions(action)
    if rng is None or action.box is None:
        return commands
    x1, y1, x2, y2 = action.box
    x, y = rng.randint(x1, x2), rng.randint(y1, y2)
    first = commands[0]
    match first:
        case Tap() | LongPress():
            moved: Action = replace(first, x=x, y=y)
        case _:
            assert isinstance(first, Swipe)
            way = 4 * rng.uniform(0.1, 0.5)  # of the quarter that an aligned one covers
            moved = Swipe(x, y, _on_screen(x + way * (first.x2 - first.x)), _on_screen(y + way * (first.y2 - first.y)))
    return (moved, *commands[1:])


def _on_screen(value: float) -> int:
    return min(max(round(value), 0), 999)


def flow_samples(
    writer: Writer, tasks: Iterable[PageTask], codec: Codec, aligned: bool, seed: int, counts: Counter[str]
) -> Iterator[Sample]:
    """The rows of golden flows. What cannot be written, or not in the checkpoint's words, is left out and counted."""
    for task in tasks:
        rng = None if aligned else random.Random(f"{seed}/{task.id}")
        for _, written in writer.flow(task, rng):
            counts[UNSAID] += not written
            for one in written:
                sample = one.sample(writer.context, codec)
                if lacks_words(codec, sample):
                    counts[UNKNOWN_WORDS] += 1
                else:
                    counts["samples"] += 1
                    yield sample


def lacks_words(codec: Codec, sample: Sample) -> bool:
    unknown = codec.tokenizer.unk_token_id
    return unknown is not None and (unknown in sample.prompt_ids or unknown in sample.response_ids)
