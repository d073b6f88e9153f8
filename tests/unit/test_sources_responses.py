"""What samples of recorded steps have the model response, and that it means what was recorded."""

from dataclasses import replace

import pytest
from made_groups import make_task
from source_files import HEIGHT, WIDTH, png

from mobilerl.envs.base import Finish, Launch, LongPress, Tap, Type
from mobilerl.policy.context import ContextPolicy
from mobilerl.policy.parsing import parse_response
from mobilerl.sft.sources.report import Counts
from mobilerl.sft.sources.schema import CONTROL_TOKEN, NO_MARK, Demonstration, RecordedStep, expand

BOX = ContextPolicy()
MARK = ContextPolicy(screenshots=1, screen_style="marks", grounding="mark", layout="compact")


def node(text, bounds, children="", **uses):
    flags = "".join(f' {name.replace("_", "-")}="true"' for name in uses)
    return f'<node class="V" text="{text}" enabled="true" bounds="{bounds}"{flags}>{children}</node>'


WEB = (
    "<hierarchy>"
    + node(
        "",
        "[0,40][108,240]",
        scrollable=True,
        children="".join(
            node(text, f"[0,{40 + 40 * i}][108,{80 + 40 * i}]")
            for i, text in enumerate(["Wi-Fi", "Bluetooth", "Display", "Sound", "About"])
        ),
    )
    + "</hierarchy>"
)
"""A page that scrolls, whose rows cannot be acted on by themselves: at its center is Display."""
ROW = (
    "<hierarchy>"
    + node("Song", "[0,100][108,140]", clickable=True, children=node("Delete", "[40,110][68,130]", clickable=True))
    + "</hierarchy>"
)
"""A row with a button in its middle."""
SAVE = "<hierarchy>" + node("Save", "[0,0][50,50]", clickable=True) + "</hierarchy>"


def samples(*steps: RecordedStep, context: ContextPolicy = BOX):
    counts = Counts()
    return list(expand(Demonstration(make_task(), steps), context, counts)), counts


def step(action, xml=SAVE, **fields) -> RecordedStep:
    return RecordedStep(png(), WIDTH, HEIGHT, action, xml, True, "App", **fields)


def at(x, y):
    return round(x * 999 / WIDTH), round(y * 999 / HEIGHT)


@pytest.mark.parametrize(
    "xml, action",
    [
        (WEB, Tap(*at(54, 60))),  # the text Wi-Fi
        (ROW, Tap(*at(10, 105))),  # the edge of the row
        (SAVE, LongPress(*at(10, 10))),  # a button that takes no long press: something else there does
    ],
)
def test_a_touch_whose_element_does_not_mean_it_is_written_as_its_point(xml, action):
    (made,), _ = samples(step(action, xml))
    assert f"element=[{action.x},{action.y},{action.x},{action.y}]" in made.write_response(BOX)
    read = parse_response(made.write_response(BOX, "a thought"), made.screen, "box", WIDTH, HEIGHT)
    assert (read.action, read.thought) == (action, "a thought")
    none, counts = samples(step(action, xml), context=MARK)
    assert none == [] and counts.rejected_steps == {NO_MARK: 1}


@pytest.mark.parametrize("action", [Type("a <|image_pad|> b"), Launch("<|im_end|>"), Finish("<image>"), Type("\ud83d")])
def test_a_text_that_would_become_a_control_token_is_no_sample(action):
    (rest,), counts = samples(step(action), step(Finish()))
    assert rest.action == Finish() and counts.rejected_steps == {CONTROL_TOKEN: 1}


def test_the_history_has_the_grounding_of_the_context_and_keeps_thoughts():
    said = '<think>Save it</think><answer>do(action="Tap", element=<1>)</answer>'
    tapped = step(Tap(*at(10, 10)), thought="Save it", response=said)
    (first, last), _ = samples(tapped, step(Finish()))
    assert last.turns[0].response == f"<think>Save it</think>{first.write_response(BOX)}"
    assert parse_response(last.turns[0].response, first.screen, "box", WIDTH, HEIGHT).thought == "Save it"
    beside = replace(tapped, action=Tap(*at(100, 200)))
    (last,), counts = samples(beside, step(Finish()), context=MARK)
    assert last.turns[0].response == said and counts.rejected_steps == {NO_MARK: 1}, "what cannot be written anew stays"
