"""Wordings of goals: their notation, and that every template has ten that name the same and are the tiny model's."""

from __future__ import annotations

import random
from collections import defaultdict
from string import Formatter

import pytest
from transformers import AutoTokenizer

from mobilerl.envs.phone.tasks.catalogue import TEMPLATES
from mobilerl.envs.phone.tasks.suite import make_task, open_task
from mobilerl.envs.phone.tasks.wordings import expand

FEWEST = 10


@pytest.mark.parametrize(
    ("pattern", "wordings"),
    [
        ("Pin {title}", ["Pin {title}"]),
        ("[Turn|Switch] on {x}[ now|]", ["Turn on {x} now", "Turn on {x}", "Switch on {x} now", "Switch on {x}"]),
        ("Say [{a} and |]{b}", ["Say {a} and {b}", "Say {b}"]),
    ],
)
def test_brackets_hold_alternatives(pattern, wordings):
    assert expand(pattern) == wordings


@pytest.mark.parametrize("name", TEMPLATES)
def test_every_template_has_ten_wordings_that_name_the_same(name):
    wordings = TEMPLATES[name].wordings()
    assert len({wording.casefold() for wording in wordings}) == len(wordings) >= FEWEST
    assert all(" ".join(w.split()) == w and not set("[]|") & set(w) for w in wordings)
    assert len({frozenset(field for _, field, _, _ in Formatter().parse(w) if field) for w in wordings}) == 1


def test_the_tiny_model_knows_every_word():
    tokenizer = AutoTokenizer.from_pretrained("recipes/generated/checkpoint")
    spelled = defaultdict(set)
    for name, template in TEMPLATES.items():
        for wording in template.wordings():
            plain = "".join(fixed for fixed, *_ in Formatter().parse(wording))
            spelled[name] |= {token for token in tokenizer.tokenize(plain) if token.startswith("##")}
    assert not {name: tokens for name, tokens in spelled.items() if tokens}


def test_a_goal_of_two_templates_is_one_that_the_phone_decides():
    """Such as the number of a contact that there may be or not: one of them is infeasible, and all wordings agree."""
    rng, owners = random.Random(0), defaultdict(set)
    for name, template in TEMPLATES.items():
        for wording in template.wordings():
            for _ in range(20):
                owners[wording.format(**template.sample(rng)).casefold()].add(name)
    for names in {frozenset(names) for names in owners.values() if len(names) > 1}:
        one, other = (TEMPLATES[name] for name in names)
        assert one.wordings() == other.wordings() and {one.feasible, other.feasible} == {True, False}, names


def test_the_purpose_is_the_same_for_every_wording():
    tasks = [make_task("TodoComplete", seed) for seed in range(60)]
    milk = [task for task in tasks if task.params["title"] == "buy milk and bread"]
    assert len({task.instruction for task in milk}) > 1
    assert {open_task(task).purpose for task in milk} == {"mark the task buy milk and bread as done"}
