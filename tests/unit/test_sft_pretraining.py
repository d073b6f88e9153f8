"""Reading pre-training: every response must be the right answer to its instruction, parsed as the agent parses it."""

import random
import re
from collections import Counter

import pytest

from mobilerl.envs.base import Finish, LongPress, Tap, Type
from mobilerl.models import tiny
from mobilerl.models.codec import Codec
from mobilerl.policy.parsing import parse_response
from mobilerl.policy.screen import Element, Screen
from mobilerl.sft.pretraining import QUESTIONS, goal_samples, reading_samples

WORDS = tuple(
    "alarm apple blue bread call city cloud door east fast garden green hello home island jazz kite lamp market milk "
    "north open paper quiet river save song table train under violet water yellow zebra".split()
)
STATE = re.compile(r" ?(checked|unchecked|selected)$")
LINE = re.compile(r"^<(?P<mark>\d+)>(?P<name>.*?)<(?P=mark)>(?P<rest>.*)$")


@pytest.fixture(scope="module")
def codec(tmp_path_factory) -> Codec:
    folder = tmp_path_factory.mktemp("tiny")
    corpus = [
        *WORDS,
        "app history open tap hold type what is read finish checked unchecked selected which has how many have count",
    ]
    tiny.create(folder, corpus, hidden=16, layers=1, heads=1, vision_hidden=16)
    return Codec.load(folder)


@pytest.fixture(scope="module")
def made(codec):
    return list(reading_samples(WORDS, codec, 300, random.Random(0)))


def parts(codec: Codec, sample) -> tuple[str, list[tuple[str, str]]]:
    """The screen's text, and (instruction, response) pairs, cut where the loss begins and ends."""
    exchanges, i = [], 0
    while i < len(sample.trained):
        begin = next(k for k in range(i, len(sample.trained)) if sample.trained[k])
        end = next((k for k in range(begin, len(sample.trained)) if not sample.trained[k]), len(sample.trained))
        asked, response = sample.response_ids[i:begin], sample.response_ids[begin:end]
        assert response[-1] == codec.eos_id
        exchanges.append((codec.decode(asked), codec.decode(response)))
        i = end
    return codec.decode(sample.prompt_ids), exchanges


def screen_of(text: str) -> tuple[Screen, dict[int, tuple[str, str]]]:
    """The made-up screen as an agent's: mark m at x = 20 m; and what is written at each mark."""
    lines = [m for m in map(LINE.match, text.split("\n")) if m]
    written = {int(m["mark"]): (m["name"], m["rest"].replace(f"<{m['mark']}>", "").strip()) for m in lines}
    elements = [
        Element(mark, "Button", ("click",), (), name, (20 * mark, 0, 20 * mark + 9, 9), 0)
        for mark, (name, _) in written.items()
    ]
    return Screen(tuple(elements), 1000, 1000), written


def test_every_response_is_the_right_answer_to_its_instruction(codec, made):
    held = Counter()
    kinds = {Tap: 0, LongPress: 0, Type: 0, Finish: 0}
    for sample in made:
        text, exchanges = parts(codec, sample)
        screen, written = screen_of(text)
        assert len(exchanges) == QUESTIONS and len(written) >= 2
        assert all(1 <= mark <= tiny.MARKS for mark in written)
        names = [name for name, _ in written.values()]
        assert len(set(names)) == len(names), "an instruction would fit two lines"
        for asked, response in exchanges:
            parsed = parse_response(response, screen, "mark", 1000, 1000)
            action = parsed.action
            assert type(action) in kinds, f"{response!r}: {action}"
            kinds[type(action)] += 1
            verb, _, rest = asked.strip().partition(" ")
            if isinstance(action, Type):
                assert (verb, action.text) == ("type", rest) and parsed.thought == f"type {rest}"
            elif isinstance(action, Finish) and verb in ("which", "how"):
                value = rest.removeprefix("many ").removeprefix("has ").removeprefix("have ")
                having = [m for m, (_, about) in written.items() if value in STATE.sub("", about).split(", ")]
                assert action.message == (written[having[0]][0] if verb == "which" else str(len(having)))
                assert all(f"{value}<{mark}>" in parsed.thought for mark in having)
                held[verb] += 1
            elif isinstance(action, Finish):
                assert asked.startswith("what is ")
                about = next(d for name, d in written.values() if name == rest.removeprefix("is "))
                assert action.message in (about, STATE.sub("", about))
            else:
                element = screen.at(action.x, action.y)
                named = [name for name in names if f" {name} " in f" {asked.strip()} "]
                assert element.text == max(named, key=len)
                does = "tap" if isinstance(action, Tap) else "hold"
                assert does == "tap" or verb == "hold"
                assert parsed.thought == f"{does} {element.text}<{element.mark}>"
    assert min(kinds.values()) > 20 and min(held.values()) > 20


def test_a_goal_sample_asks_for_the_first_part_that_was_not_done_yet(codec):
    goal, purposes = "Delete milk and then turn on cloud for apple", ["delete milk", "turn on apple cloud"]
    asked = set()
    for sample in goal_samples([(goal, purposes)] * 20, WORDS, codec, random.Random(0)):
        prompt, response = codec.decode(sample.prompt_ids), codec.decode(sample.response_ids)
        head, history = prompt.split("history:\n")
        *done, last = history.strip().split("\n")
        assert goal in head and goal in last
        assert [line.partition(";")[0] for line in done] == purposes[: len(done)]
        assert response == f"<think>{purposes[len(done)]};"
        asked.add(len(done))
    assert asked == {0, 1}
