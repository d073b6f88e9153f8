"""Stage 2's filter: which proposals count as the expert's action, and which thoughts are kept."""

import asyncio
import random
from dataclasses import replace

import pytest

from mobilerl.envs.base import Back, Finish, Invalid, Launch, LongPress, Observation, Swipe, Tap, Task, Type
from mobilerl.policy.context import ContextPolicy
from mobilerl.policy.screen import parse_screen
from mobilerl.records import Completion
from mobilerl.records.engine import Sampling
from mobilerl.sft.reasoning import Proposal, bootstrap, same_action, sample_proposals, written_thought
from mobilerl.sft.samples import ExpertStep

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
        (NOWHERE, NOWHERE, False),  # a tap on nothing teaches nothing
        (Type("Milk"), Type(" milk "), True),
        (Finish("17"), Finish("17 "), True),
        (Swipe(499, 499, 499, 0), Swipe(500, 700, 500, 190), True),  # both up, by the same distance
        (Swipe(499, 499, 499, 0), Swipe(499, 499, 499, 999), False),
        (Invalid("x"), SAVE, False),
    ],
)
def test_which_actions_do_the_same(a, b, same):
    assert same_action(a, b, SCREEN) is same
    assert same_action(b, a, SCREEN) is same


def expert_step(action, name: str = "a") -> ExpertStep:
    task = Task(f"s/{name}", "T", f"do {name}", {}, 0, 9, "s")
    return ExpertStep(task, (), Observation(b"", 100, 200, XML, "App", 0), SCREEN, action)


def test_only_thoughts_that_led_to_the_experts_action_are_kept():
    steps = [expert_step(SAVE, "a"), expert_step(Finish("17"), "b"), expert_step(Back(), "c")]
    proposals = [
        [Proposal("wrong", DELETE), Proposal("right", SAVE_EDGE), Proposal("", SAVE)],
        [Proposal("unsure", Finish("18"))],
        [Proposal("breaks out </think>", Back()), Proposal("", Back())],
    ]
    kept, share = bootstrap(steps, proposals, random.Random(0))
    assert kept == [(steps[0], "right")]
    assert share == pytest.approx(1 / 3)


def test_a_written_thought_names_the_action_and_the_mark_it_will_touch():
    assert written_thought(expert_step(SAVE)) == "tap Save<1>"
    assert written_thought(expert_step(LongPress(750, 125))) == "hold Delete<2>"
    assert written_thought(expert_step(Finish("17"))).startswith("finish 17")
    assert "<" not in written_thought(expert_step(Launch("Music")))
    assert written_thought(replace(expert_step(SAVE), purpose="new note Milk")) == "new note Milk; tap Save<1>"


def asked(instruction: str, answer: str, *rows: tuple[str, str]) -> str:
    nodes = "".join(
        f'<node text="{name}" clickable="true" bounds="[0,{50 * i}][99,{50 * i + 50}]"><node text="{detail}" '
        f'bounds="[0,{50 * i}][99,{50 * i + 50}]"/></node>'
        for i, (name, detail) in enumerate(rows)
    )
    screen = parse_screen(f"<hierarchy>{nodes}</hierarchy>", 100, 50 * len(rows))
    step = expert_step(Finish(answer))
    return written_thought(replace(step, task=replace(step.task, instruction=instruction), screen=screen))


def test_a_written_thought_of_an_answer_says_where_on_the_screen_it_is():
    rows = ("Lamp", "Kitchen, 7:30"), ("Kettle", "Kitchen, 8:15"), ("Radio", "Hall, 7:300")
    assert asked("What is the time of the lamp?", "7:30", *rows) == "read Lamp<1> finish 7:30"
    assert asked("Which device has 7:30?", "Lamp", *rows) == "7:30<1>Lamp finish Lamp"
    assert asked("How many devices are in the kitchen?", "2", *rows) == "count Kitchen<1> Kitchen<2> finish 2"
    assert asked("How many devices are in the garden?", "0", *rows) == "finish 0"
    assert asked("Which device has 7:30?", "Radio", *rows) == "finish Radio"


class Parrot:
    """Answers the k-th candidate of a step with mark 1 or 2 in turn."""

    def __init__(self) -> None:
        self.keys: set[str] = set()

    async def act(self, messages, images, sampling, key=""):
        self.keys.add(key)
        await asyncio.sleep(random.random() / 100)
        mark = 1 + int(key[-2:]) % 2
        text = f'<think>tap {mark}</think><answer>do(action="Tap", element=<{mark}>)</answer>'
        return Completion((1,), (2,), (-0.1,), 0, text)


def test_proposals_come_in_the_order_of_their_steps():
    policy = Parrot()
    context = ContextPolicy(screenshots=0, screen_style="marks", grounding="mark", layout="compact")
    steps = [expert_step(SAVE, "a"), expert_step(DELETE, "b")]
    proposals = asyncio.run(sample_proposals(policy, context, Sampling(1.0, 16), steps, 4))
    assert [[p.thought for p in row] for row in proposals] == [["tap 1", "tap 2"] * 2] * 2
    assert len(policy.keys) == 8
    kept, share = bootstrap(steps, proposals, random.Random(0))
    assert [thought for _, thought in kept] == ["tap 1", "tap 2"] and share == 1.0
