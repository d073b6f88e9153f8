"""Stage 2's filter: which proposals count as the expert's action, and which thoughts are kept."""

import asyncio
import random
from dataclasses import replace

import pytest

from envs.base import Back, Enter, Finish, Home, Invalid, Launch, LongPress, Observation, Swipe, Tap, Task, Type, Wait
from mobilerl.agent.context import ContextPolicy
from mobilerl.agent.screen import parse_screen
from mobilerl.engines.base import Sampling
from mobilerl.records import Completion
from sft.reasoning import PolicyProposer, Proposal, ThoughtWriter, bootstrap, same_action, written_thought
from sft.samples import ExpertStep

XML = """<hierarchy>
<node class="Button" text="Save" clickable="true" enabled="true" bounds="[0,0][50,50]"/>
<node class="Button" text="Delete" clickable="true" enabled="true" bounds="[50,0][100,50]"/>
<node class="Text" text="Title" bounds="[0,100][100,120]"/>
</hierarchy>"""
SCREEN = parse_screen(XML, 100, 200)
SAVE, SAVE_EDGE, DELETE, NOWHERE = Tap(250, 125), Tap(10, 10), Tap(750, 125), Tap(500, 990)


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        (SAVE, SAVE, True),
        (SAVE, SAVE_EDGE, True),  # another point of the same button
        (SAVE, DELETE, False),
        (SAVE, LongPress(250, 125), False),
        (LongPress(250, 125), LongPress(10, 10), True),
        (SAVE, NOWHERE, False),
        (NOWHERE, NOWHERE, False),  # a tap on nothing teaches nothing
        (Type("Milk"), Type(" milk "), True),
        (Type("Milk"), Type("Bread"), False),
        (Type("Music"), Launch("Music"), False),
        (Launch("Music"), Launch("music"), True),
        (Launch("Music"), Launch("Maps"), False),
        (Finish("17"), Finish("17 "), True),
        (Finish("17"), Finish(""), False),
        (Finish(), Finish(), True),
        (Swipe(499, 499, 499, 0), Swipe(500, 700, 500, 190), True),  # both up, by the same distance
        (Swipe(499, 499, 499, 0), Swipe(499, 499, 499, 999), False),
        (Back(), Back(), True),
        (Back(), Home(), False),
        (Enter(), Enter(), True),
        (Wait(1.0), Wait(1.0), True),
        (Invalid("x"), Finish(), False),
        (Invalid("x"), SAVE, False),
    ],
)
def test_which_actions_do_the_same(a, b, same):
    assert same_action(a, b, SCREEN) is same
    assert same_action(b, a, SCREEN) is same


def expert_step(action, name: str = "a") -> ExpertStep:
    task = Task(f"s/{name}", "T", f"do {name}", {}, 0, 9, "s")
    return ExpertStep(task, (), Observation(b"", 100, 200, XML, "App", 0), SCREEN, action)


class Fixed:
    def __init__(self, *proposals: list[Proposal]) -> None:
        self.proposals = list(proposals)

    def propose(self, steps, candidates):
        return self.proposals


def test_only_thoughts_that_led_to_the_experts_action_are_kept():
    steps = [expert_step(SAVE, "a"), expert_step(Finish("17"), "b"), expert_step(Back(), "c")]
    proposer = Fixed(
        [Proposal("wrong", DELETE), Proposal("right", SAVE_EDGE), Proposal("", SAVE)],
        [Proposal("unsure", Finish("18"))],
        [Proposal("breaks out </think>", Back()), Proposal("", Back())],
    )
    kept, share = bootstrap(steps, proposer, 3, random.Random(0))
    assert [(r.step, r.thought) for r in kept] == [(steps[0], "right")]
    assert share == pytest.approx(1 / 3)


def test_of_several_good_thoughts_one_is_drawn_repeatably():
    steps = [expert_step(SAVE)] * 40
    proposals = [[Proposal("one", SAVE), Proposal("two", SAVE)]] * 40
    drawn = [[r.thought for r in bootstrap(steps, Fixed(*proposals), 2, random.Random(s))[0]] for s in (1, 1)]
    assert drawn[0] == drawn[1] and set(drawn[0]) == {"one", "two"}


def test_nothing_to_reason_about():
    assert bootstrap([], Fixed(), 4, random.Random(0)) == ([], 0.0)


def test_a_written_thought_names_the_action_and_the_mark_it_will_touch():
    assert written_thought(expert_step(SAVE)) == "tap Save<1>"
    assert written_thought(expert_step(LongPress(750, 125))) == "hold Delete<2>"
    assert written_thought(expert_step(Finish("17"))).startswith("finish 17")
    assert "<" not in written_thought(expert_step(Launch("Music")))


def test_a_written_thought_names_what_an_answer_was_read_from():
    row = '<node class="Row" text="{}" clickable="true" enabled="true" bounds="[0,{}][100,{}]"/>'
    rows = [("Puzzle|9.00", 0), ("Lamp|27.00", 50), ("Chair|27.00", 100)]
    xml = "<hierarchy>" + "".join(row.format(text, top, top + 50) for text, top in rows) + "</hierarchy>"
    step = expert_step(Finish("27.00"))
    step = replace(step, screen=parse_screen(xml, 100, 200), task=replace(step.task, instruction="Price of the lamp?"))
    assert written_thought(step) == "read Lamp<2> finish 27.00"
    assert written_thought(replace(step, action=Finish("0"))) == "finish 0", "a part of a price is no price"


def test_the_thought_writers_proposals_always_match():
    steps = [expert_step(a) for a in (SAVE, Finish("17"), Back(), Type("milk"), Launch("Music"))]
    kept, share = bootstrap(steps, ThoughtWriter(), 1, random.Random(0))
    assert len(kept) == len(steps) and share == 1.0


class Parrot:
    """Answers the k-th candidate of a step with mark 1 or 2 in turn."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.playing = self.most = 0

    async def act(self, messages, images, sampling, key=""):
        self.keys.append(key)
        self.playing += 1
        self.most = max(self.most, self.playing)
        await asyncio.sleep(0)
        self.playing -= 1
        mark = 1 + int(key[-2:]) % 2
        text = f'<think>tap {mark}</think><answer>do(action="Tap", element=<{mark}>)</answer>'
        return Completion((1,), (2,), (-0.1,), 0, text)


def test_a_policy_proposes_within_its_bound_and_in_order():
    policy = Parrot()
    context = ContextPolicy(screenshots=0, screen_style="marks", grounding="mark", layout="compact")
    proposer = PolicyProposer(policy, context, Sampling(1.0, 16), in_flight=3)
    steps = [expert_step(SAVE, "a"), expert_step(DELETE, "b")]
    proposals = proposer.propose(steps, 4)
    assert [[p.thought for p in row] for row in proposals] == [["tap 1", "tap 2"] * 2] * 2
    assert len(set(policy.keys)) == 8 and policy.most == 3
    kept, share = bootstrap(steps, proposer, 4, random.Random(0))
    assert [r.thought for r in kept] == ["tap 1", "tap 2"] and share == 1.0
