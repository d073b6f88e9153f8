"""Reading pre-training on synthetic screens of random words, for a tiny model trained from scratch.

A pretrained model can find a word on a screen and copy it. A tiny randomly initialized one cannot, and would memorize
the few phrases that repeat in demonstrations instead. These samples teach only that skill: a synthetic screen is
followed by several single-step instructions, and every response is trained on. Words are drawn uniformly from the whole
vocabulary, so that only reading helps, and instructions drop some capitals.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from mobilerl.envs.base import COORD_MAX
from mobilerl.models.codec import Codec
from mobilerl.models.tiny import MARKS
from mobilerl.policy.screen import Element, Screen
from mobilerl.sft.samples import Sample

PRETRAINING_BATCH_SIZE = 16
GOALS_BATCH_SIZE = 64
QUESTIONS = 6
STATES = ("", "", "", "checked", "unchecked", "selected")


@dataclass(frozen=True, slots=True)
class _Line:
    name: str
    details: tuple[str, ...]
    state: str
    mark: int
    """Random, because with consecutive marks a model would count lines instead of reading."""

    def text(self) -> str:
        states = (self.state,) if self.state else ()
        texts = "|".join([self.name, ", ".join(self.details)])
        element = Element(self.mark, "", ("click",), states, texts, (0, 0, COORD_MAX, COORD_MAX), 0)
        return Screen((element,), COORD_MAX, COORD_MAX).render("marks")


def _phrase(words: Sequence[str], rng: random.Random, most: int = 3) -> str:
    return " ".join(rng.choices(words, k=rng.randint(1, most)))


def _vary_name(name: str, rng: random.Random) -> str:
    """A name as written in an instruction: sometimes without its capital."""
    return name[:1].lower() + name[1:] if rng.random() < 0.3 else name


def _value(words: Sequence[str], rng: random.Random) -> str:
    kind = rng.random()
    if kind < 0.4:
        return _phrase(words, rng)
    if kind < 0.6:
        return f"{rng.randint(0, 23)}:{rng.randint(0, 59):02d}"
    if kind < 0.8:
        return f"{rng.randint(0, 99)}.{rng.randint(0, 99):02d}"
    return str(rng.randint(0, 99))


def _screen(words: Sequence[str], rng: random.Random) -> list[_Line]:
    lines: dict[str, _Line] = {}
    values = [_value(words, rng) for _ in range(rng.choice((2, 3, 6, 12)))]
    for mark in rng.sample(range(1, MARKS + 1), rng.randint(3, 9)):
        name = _phrase(words, rng) if rng.random() < 0.85 else _value(words, rng)
        details = tuple(rng.sample(values, rng.choice((0, 1, 1, 2))))
        lines.setdefault(name, _Line(name, details, rng.choice(STATES), mark))
    return list(lines.values())


def _exchange(lines: Sequence[_Line], words: Sequence[str], rng: random.Random) -> tuple[str, str]:
    """An instruction and its response: type a text, read a value, find or count lines with a value, or tap a named
    line."""
    line = rng.choice(lines)
    kind = rng.random()
    if kind < 0.2:
        text = _phrase(words, rng, 4) if rng.random() < 0.7 else _value(words, rng)
        return f"type {text}\n", f'<think>type {text}</think><answer>do(action="Type", text="{text}")</answer>'
    if kind < 0.35 and line.details:
        value = ", ".join(line.details)
        return f"what is {_vary_name(line.name, rng)}\n", _finish(f"read {line.name}<{line.mark}>", value)
    if kind < 0.5 and line.details:
        return _holders(lines, rng.choice(line.details))
    if kind < 0.8:
        return _embedded_name(lines, line, words, rng)
    verb, action = ("tap", "Tap") if rng.random() < 0.8 else ("hold", "Long Press")
    return f"{verb} {_vary_name(line.name, rng)}\n", _touch(verb, action, line)


def _holders(lines: Sequence[_Line], value: str) -> tuple[str, str]:
    """Which line has a value, or how many lines have it."""
    having = [line for line in lines if value in line.details]
    if len(having) == 1:
        return f"which has {value}\n", _finish(f"{value}<{having[0].mark}>{having[0].name}", having[0].name)
    listed = " ".join(f"{value}<{line.mark}>" for line in having)
    return f"how many have {value}\n", _finish(f"count {listed}", str(len(having)))


def _finish(found: str, message: str) -> str:
    return f'<think>{found} finish {message}</think><answer>finish(message="{message}")</answer>'


def _embedded_name(lines: Sequence[_Line], line: _Line, words: Sequence[str], rng: random.Random) -> tuple[str, str]:
    """An instruction of unrelated words that contains the name of the line to tap."""
    shown = {w.casefold() for line in lines for w in line.name.split()}
    others = [w for w in rng.choices(words, k=12) if w.casefold() not in shown]
    before, after = others[: rng.randint(1, 4)], others[4 : 4 + rng.randint(0, 3)]
    return " ".join([*before, _vary_name(line.name, rng), *after]) + "\n", _touch("tap", "Tap", line)


def _touch(verb: str, action: str, line: _Line) -> str:
    mark = f"<{line.mark}>"
    return f'<think>{verb} {line.name}{mark}</think><answer>do(action="{action}", element={mark})</answer>'


def _history(words: Sequence[str], rng: random.Random) -> str:
    verbs = rng.choices(("open", "tap", "type"), k=rng.choice((0, 0, 1, 2, 3)))
    return "".join(f"{verb} {_phrase(words, rng, 2)}\n" for verb in verbs)


def _speakers(codec: Codec) -> tuple[int, int]:
    """The tokens that precede a user's and an assistant's message."""
    return codec.tokenizer.convert_tokens_to_ids("<|user|>"), codec.tokenizer.convert_tokens_to_ids("<|assistant|>")


def copying_samples(words: Sequence[str], codec: Codec, count: int, rng: random.Random) -> Iterator[Sample]:
    """`count` screens, each followed by two copies of its lines in random order.

    A line can only be continued by finding its beginning on the screen; distances and counts do not help. This is the
    fastest way to teach copying from the context.
    """
    tokenizer = codec.tokenizer
    user, assistant = _speakers(codec)
    for _ in range(count):
        lines = _screen(words, rng)
        copies = [line.text() for _ in range(2) for line in rng.sample(lines, len(lines))]
        texts = ["".join(line.text() for line in lines), "".join(copies)]
        screen, response = tokenizer(texts, add_special_tokens=False)["input_ids"]
        yield Sample((user, *screen, assistant), (*response, codec.eos_id), ())


def reading_samples(words: Sequence[str], codec: Codec, count: int, rng: random.Random) -> Iterator[Sample]:
    """`count` samples with one screen and `QUESTIONS` exchanges each. Only the responses have a loss."""
    tokenizer = codec.tokenizer
    user, assistant = _speakers(codec)

    def ids(text: str) -> list[int]:
        return tokenizer(text, add_special_tokens=False)["input_ids"]

    for _ in range(count):
        lines = _screen(words, rng)
        screen = "".join(line.text() for line in lines)
        prompt = [user, *ids(f"app: {rng.choice(words)}\n{screen}history:\n{_history(words, rng)}")]
        tail: list[int] = []
        trained: list[bool] = []
        for number in range(QUESTIONS):
            asked, response = _exchange(lines, words, rng)
            # The first question ends the prompt, like an instruction in the compact layout; the others follow.
            question = [*([user] if number else []), *ids(asked), assistant]
            answer = [*ids(response), codec.eos_id]
            tail += question + answer
            trained += [False] * len(question) + [True] * len(answer)
        yield Sample(tuple(prompt), tuple(tail), (), tuple(trained))


def goal_samples(
    wordings: Iterable[tuple[str, Sequence[str]]], words: Sequence[str], codec: Codec, rng: random.Random
) -> Iterator[Sample]:
    """Goals without screens: the response begins with what the goal asks for, after what was done already.

    `wordings` yields a goal and the list of what it asks for, in the same words for every phrasing. These samples are a
    quarter as long as those of demonstrations, and are made in a fraction of the time.
    """
    tokenizer = codec.tokenizer
    user, assistant = _speakers(codec)
    for goal, purposes in wordings:
        number = rng.randrange(len(purposes))
        history = "".join(f"{done}; tap {rng.choice(words)}\n" for done in purposes[:number])
        texts = [f"{goal}\nhistory:\n{history}{goal}\n", f"<think>{purposes[number]};"]
        prompt, response = tokenizer(texts, add_special_tokens=False)["input_ids"]
        yield Sample((user, *prompt, assistant), tuple(response), ())
