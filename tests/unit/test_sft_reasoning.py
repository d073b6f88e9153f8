"""The thoughts of stage 2: those of templates, and which of a model's are kept."""

import random
from dataclasses import replace

import pytest

from mobilerl.config import AgentSection
from mobilerl.envs.base import Back, Finish, Launch, LongPress, Observation, Tap, Task
from mobilerl.policy.context import make_context
from mobilerl.policy.screen import parse_screen
from mobilerl.sft.reasoning import Proposal, keep_thought, written_thought
from mobilerl.sft.samples import ExpertStep

XML = """<hierarchy>
<node class="Button" text="Save" clickable="true" enabled="true" bounds="[0,0][50,50]"/>
<node class="Button" text="Delete" clickable="true" enabled="true" bounds="[50,0][100,50]"/>
<node class="Text" text="Title" bounds="[0,100][100,120]"/>
</hierarchy>"""
SCREEN = parse_screen(XML, 100, 200)
MARKS = make_context(AgentSection(screen_style="marks"))
BOXES = make_context(AgentSection())
SAVE, SAVE_EDGE, DELETE = Tap(250, 125), Tap(10, 10), Tap(750, 125)


def expert_step(action, name: str = "a") -> ExpertStep:
    task = Task(f"s/{name}", "T", f"do {name}", {}, 0, 9, "s")
    return ExpertStep(task, (), Observation(b"", 100, 200, XML, "App", 0), SCREEN, action)


@pytest.mark.parametrize(
    ("action", "proposals", "kept"),
    [
        (SAVE, [Proposal("wrong", DELETE), Proposal("right", SAVE_EDGE), Proposal("", SAVE)], "right"),
        (Finish("17"), [Proposal("unsure", Finish("18"))], ""),
        (Back(), [Proposal("breaks out </think>", Back()), Proposal("", Back())], ""),
        (Back(), [], ""),
    ],
)
def test_only_a_thought_that_led_to_the_experts_action_is_kept(action, proposals, kept):
    assert keep_thought(expert_step(action), proposals, random.Random(0)) == kept


def test_a_written_thought_names_the_action_and_the_mark_it_will_touch():
    assert written_thought(expert_step(SAVE), MARKS) == "tap Save<1>"
    assert written_thought(expert_step(LongPress(750, 125)), MARKS) == "hold Delete<2>"
    assert written_thought(expert_step(Finish("17")), MARKS).startswith("finish 17")
    assert "<" not in written_thought(expert_step(Launch("Music")), MARKS)
    assert written_thought(replace(expert_step(SAVE), purpose="new note Milk"), MARKS) == "new note Milk; tap Save<1>"


def asked(instruction: str, answer: str, *rows: tuple[str, str], context=MARKS) -> str:
    nodes = "".join(
        f'<node text="{name}" clickable="true" bounds="[0,{50 * i}][99,{50 * i + 50}]"><node text="{detail}" '
        f'bounds="[0,{50 * i}][99,{50 * i + 50}]"/></node>'
        for i, (name, detail) in enumerate(rows)
    )
    screen = parse_screen(f"<hierarchy>{nodes}</hierarchy>", 100, 50 * len(rows))
    step = expert_step(Finish(answer))
    return written_thought(replace(step, task=replace(step.task, instruction=instruction), screen=screen), context)


def test_a_written_thought_of_an_answer_says_where_on_the_screen_it_is():
    rows = ("Lamp", "Kitchen, 7:30"), ("Kettle", "Kitchen, 8:15"), ("Radio", "Hall, 7:300")
    assert asked("What is the time of the lamp?", "7:30", *rows) == "read Lamp<1> finish 7:30"
    assert asked("Which device has 7:30?", "Lamp", *rows) == "7:30<1>Lamp finish Lamp"
    assert asked("How many devices are in the kitchen?", "2", *rows) == "count Kitchen<1> Kitchen<2> finish 2"
    assert asked("How many devices are in the garden?", "0", *rows) == "finish 0"
    assert asked("Which device has 7:30?", "Radio", *rows) == "finish Radio"


def test_a_written_thought_has_no_marks_where_prompts_have_none():
    rows = ("Lamp", "Kitchen, 7:30"), ("Kettle", "Kitchen, 8:15")
    assert written_thought(expert_step(SAVE), BOXES) == "tap Save"
    assert asked("What is the time of the lamp?", "7:30", *rows, context=BOXES) == "read Lamp finish 7:30"
    assert asked("Which device has 7:30?", "Lamp", *rows, context=BOXES) == "7:30 Lamp finish Lamp"
    assert asked("How many are in the kitchen?", "2", *rows, context=BOXES) == "count Kitchen Kitchen finish 2"
