"""Pairs of actions as pairs of replies, which DPO learns from.

Of two actions the first replies that differ make the pair, and both answer the same prompt: of a click and an input on
another field the taps; of two texts in one field the typing, after the tap. What the agent itself said is rejected as
it said it, token by token; a random action as it would be written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from envs.base import Action
from mobilerl.agent.screen import Box
from mobilerl.engines.codec import Codec
from mobilerl.train.pairs import PreferencePair
from sft.pages.actions import PageAction, from_device, same_action
from sft.pages.agent import Decided, PageAgent, Place
from sft.pages.graph import PageGraph
from sft.pages.pairs import Pair, Prompt, make_pairs
from sft.pages.tasks import PageTask
from sft.pages.writing import UNKNOWN_WORDS, UNSAID, Writer, lacks_words
from sft.samples import Sample

NOTHING = PageAction("click", "no action of the page", (0, 0, 0, 0))
"""Stands for a reply that no page offers: of the level Invalid everywhere."""
ALIKE = "the replies do not differ"

Key = tuple[str, int]
"""A task's id, and the number of the step."""


def ask(agent: PageAgent, writer: Writer, tasks: Sequence[PageTask]) -> dict[Key, tuple[Place, Decided]]:
    """What the agent does at every step of the golden flows, each asked with what is golden before it."""
    keys, places = [], []
    for task in tasks:
        for i, (place, _) in enumerate(writer.flow(task)):
            keys.append((task.id, i))
            places.append(place)
    return dict(zip(keys, zip(places, agent.decide(places), strict=True), strict=True))


def preference_pairs(
    graph: PageGraph, tasks: Sequence[PageTask], agent: PageAgent, writer: Writer, codec: Codec, seed: int
) -> tuple[list[PreferencePair], Counter[str]]:
    """One pair per step where there is one; and how many there are of each kind, and what was left out."""
    asked = ask(agent, writer, tasks)

    def own(prompt: Prompt) -> PageAction:
        return asked[_key(prompt)][1].action or NOTHING

    pairs, counts = make_pairs(graph, tasks, own, seed)
    counts["agent: no action of the page"] = sum(decided.action is None for _, decided in asked.values())
    made = [found for pair in pairs if (found := _replies(pair, *asked[_key(pair.prompt)], writer, codec, counts))]
    counts["pairs"] = len(made)
    return made, +counts


def _key(prompt: Prompt) -> Key:
    return prompt.task_id, len(prompt.history)


def _replies(pair: Pair, place: Place, decided: Decided, writer: Writer, codec: Codec,
             counts: Counter[str]) -> PreferencePair | None:  # fmt: skip
    better = writer.write(place, pair.chosen)
    said = rejected_replies(pair, place, decided, writer, codec)
    if not better or not said:
        counts[UNSAID] += 1
        return None
    actions = [written.step.action for written in better], [action for action, _ in said]
    k = first_difference(*actions, pair.prompt.actions, better[-1].place.focus)
    if k is None:
        counts[ALIKE] += 1
        return None
    sample, rejected_ids = better[k].sample(writer.context, codec), said[k][1]
    if lacks_words(codec, sample) or lacks_words(codec, Sample((), rejected_ids, ())):
        counts[UNKNOWN_WORDS] += 1
        return None
    note = {
        "task": pair.prompt.instruction, "page": pair.prompt.page, "source": pair.source,
        "chosen": better[k].reply(writer.context), "rejected": codec.decode(rejected_ids),
        "chosen_level": pair.chosen_level.name.lower(), "rejected_level": pair.rejected_level.name.lower(),
    }  # fmt: skip
    name = f"{pair.prompt.task_id}/{len(pair.prompt.history)}"
    return PreferencePair(name, sample.prompt_ids, sample.images, sample.response_ids, rejected_ids, note)


def rejected_replies(
    pair: Pair, place: Place, decided: Decided, writer: Writer, codec: Codec
) -> list[tuple[Action, tuple[int, ...]]]:
    """What each reply of the rejected action does, and its tokens."""
    if pair.source == "agent":
        return [(said.action, said.completion.token_ids) for said in decided.said]
    written = writer.write(place, pair.rejected)
    return [(w.step.action, codec.encode_reply(w.reply(writer.context))) for w in written]


def first_difference(
    ours: Sequence[Action], theirs: Sequence[Action], space: Sequence[PageAction], focus: Box | None = None
) -> int | None:
    """Number of the first replies that do not do the same on a page; None when one sequence begins the other."""
    for k, (a, b) in enumerate(zip(ours, theirs, strict=False)):
        read = [from_device(action, space, focus if k else None) for action in (a, b)]
        if a != b and (None in read or not same_action(read[1], read[0])):
            return k
    return None
