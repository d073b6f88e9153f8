"""Responses: the grammar, its tolerances, the reasons given for what is refused, and the round trip."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mobilerl.envs.base import Back, Enter, Finish, Home, Invalid, Launch, LongPress, Swipe, Tap, Type, Wait
from mobilerl.policy.actions import format_response, swipe_from
from mobilerl.policy.parsing import parse_response
from mobilerl.policy.screen import Element, Screen

W, H = 1080, 2400
BUTTON = (100, 200, 301, 260)  # center (200, 230)
LIST = (0, 100, 999, 800)  # center (499, 450)
FIELD = (0, 900, 999, 999)  # center (499, 949)


def element(mark, box, *actions):
    return Element(mark, "View", actions, (), "text", box, 0)


SCREEN = Screen(
    (
        element(None, (0, 0, 999, 100)),
        element(1, LIST, "scroll"),
        element(2, BUTTON, "click"),
        element(3, FIELD, "click", "edit"),
    ),
    W,
    H,
)


def read(text, grounding="box", screen=SCREEN):
    return parse_response(text, screen, grounding, W, H)


def action(code, grounding="box"):
    return read(f"<think>t</think><answer>{code}</answer>", grounding).action


@pytest.mark.parametrize(
    ("code", "grounding", "expected"),
    [
        ('do(action="Tap", element=[100,200,301,260])', "box", Tap(200, 230)),
        ('do(action="Tap", element=[100,200])', "box", Tap(100, 200)),  # a box without extent
        ('do(action="Long Press", element=<3>)', "mark", LongPress(499, 949)),
        ("do(action='Type', text='it\\'s \"here\"')", "box", Type('it\'s "here"')),
        ('do(action="Type", text="a\\nb\\\\n\\d\nc")', "box", Type("a\nb\\n\\d\nc")),
        ('do(action="Press Back")', "box", Back()),
        ('finish(message="It is (7, 8)")', "box", Finish("It is (7, 8)")),
        ('  do ( action = "Back" )\n', "box", Back()),
        ('do(action="Swipe", start=[500,700], end=[500,300])', "point", Swipe(500, 700, 500, 300)),
    ],
)
def test_the_grammar(code, grounding, expected):
    assert read(f"<think>why</think><answer>{code}</answer>", grounding).action == expected


# On 1080 x 2400 px the unit is 108 px. Short up: 2 * 108 = 216 px = 216 * 999 / 2400 = 89.9 -> 90 of 999.
# Medium left: 2.5 * 2 * 108 = 540 px = 499.5 -> 500 (half to even). Long down: 2 * 10 * 108 = 2160 px, past the edge.
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('direction="up", dist="short"', Swipe(499, 499, 499, 409)),
        ('direction="down", dist="short", element=[100,200,301,260]', Swipe(200, 230, 200, 320)),
        ('direction="left", dist="medium", element=[800,0,998,98]', Swipe(899, 49, 399, 49)),
        ('direction="down", dist="long"', Swipe(499, 499, 499, 999)),
        ('direction="up"', Swipe(499, 499, 499, 319)),  # medium: 432 px = 179.8 -> 180
    ],
)
def test_swipe_semantics(arguments, expected):
    assert action(f'do(action="Swipe", {arguments})') == expected


@pytest.mark.parametrize(
    ("text", "thought", "expected"),
    [
        ('<think>\nwhy\n</think>\n<answer>\ndo(action="Back")\n</answer>', "why", Back()),
        ('<think>why</think><answer>do(action="Back")', "why", Back()),  # </answer> was the stop string
        ('why</think><answer>do(action="Back")</answer>', "why", Back()),  # the chat template wrote <think>
        ('Going back.\n<answer>do(action="Back")</answer>', "Going back.", Back()),
        ('<think>why</think>do(action="Back")', "why", Back()),
        ('<answer>```python\n# the way back\ndo(action="Back")\n```</answer>', "", Back()),
        ('<answer>do(action="Back")</answer><answer>do(action="Home")</answer>', "", Back()),
        ('<think>so <answer>x</answer>?</think><answer>do(action="Back")</answer>', "so <answer>x</answer>?", Back()),
    ],
)
def test_tolerances(text, thought, expected):
    assert (read(text).thought, read(text).action) == (thought, expected)


@pytest.mark.parametrize(
    ("code", "grounding", "reason"),
    [
        ('do(action="Fly")', "box", '"Fly"'),
        ('do(action="<|image_pad|>")', "box", '"?|image_pad|?"'),
        ('do(action="Back", times=2)', "box", '"times"'),
        ('do(action="Tap")', "box", '"element"'),
        ('do(action="Type", text=5)', "box", "quoted"),
        ('do(action="Tap", element=<9>)', "mark", "<9>"),
        ('do(action="Tap", element=[1,2,3])', "point", "[x,y]"),
        ('do(action="Tap", element=[1,2,3,1001])', "box", "0-999"),
        (f'do(action="Tap", element=[{"9" * 5000},2])', "point", f"{'9' * 24}... is too large"),
        ('do(action="Back"); import os', "box", "after the call"),
        ('__import__("os")', "box", "need names"),
    ],
)
def test_a_refused_action_says_why(code, grounding, reason):
    refused = action(code, grounding)
    assert isinstance(refused, Invalid) and reason in refused.reason


GROUNDINGS = st.sampled_from(["box", "point", "mark"])
TEXT = st.text() | st.text(alphabet="\"'\\/<>`\n\r\t =()[]answerthik\u05d0\u202e\U0001f600")
CENTERS = st.sampled_from([(499, 450), (200, 230), (499, 949)])
SWIPES = st.builds(
    lambda center, direction, distance: swipe_from(*center, direction, distance, W, H),
    CENTERS | st.just((499, 499)),
    st.sampled_from(["up", "down", "left", "right"]),
    st.sampled_from(["short", "medium", "long"]),
)
ACTIONS = st.one_of(
    st.builds(Type, TEXT),
    st.builds(Launch, TEXT),
    st.builds(Finish, TEXT),
    st.sampled_from([Back(), Home(), Enter(), Wait()]),
    st.builds(lambda c: Tap(*c), CENTERS),
    st.builds(lambda c: LongPress(*c), CENTERS),
    SWIPES,
)


@given(ACTIONS, GROUNDINGS, st.none() | TEXT.filter(lambda t: "</think>" not in t))
def test_round_trip(wanted, grounding, thought):
    response = read(format_response(wanted, SCREEN, grounding, thought), grounding)
    assert response.action == wanted
    assert response.thought == (thought or "").strip()


@given(st.tuples(*[st.integers(0, 999)] * 4))
def test_any_swipe_can_be_written(ends):
    swipe = Swipe(*ends)
    assert read(format_response(swipe, SCREEN, "point"), "point").action == swipe
    assert isinstance(read(format_response(swipe, SCREEN, "box")).action, Swipe)


def test_long_hostile_responses_are_read_in_linear_time():
    for text in ('do(action="' + "\\" * 200_001, "do(" * 100_000, "<answer>" * 50_000, "do(a=[" + "1," * 100_000):
        assert isinstance(read(text).action, Invalid)
