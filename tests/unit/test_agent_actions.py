"""Replies: the grammar, its tolerances, the reasons given for what is refused, and the round trip."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.base import Back, Enter, Finish, Home, Invalid, Launch, LongPress, Swipe, Tap, Type, Wait
from mobilerl.agent.actions import format_reply, parse_reply, split_reply
from mobilerl.agent.grammar import GrammarError, Mark, parse_call, quote
from mobilerl.agent.screen import Element, Screen
from mobilerl.agent.swipes import swipe_from

W, H = 1080, 2400
BUTTON = (100, 200, 301, 260)  # centre (200, 230)
LIST = (0, 100, 999, 800)  # centre (499, 450)
FIELD = (0, 900, 999, 999)  # centre (499, 949)


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
    return parse_reply(text, screen, grounding, W, H)


def action(code, grounding="box"):
    return read(f"<think>t</think><answer>{code}</answer>", grounding).action


@pytest.mark.parametrize(
    ("code", "grounding", "expected"),
    [
        ('do(action="Tap", element=[100,200,301,260])', "box", Tap(200, 230)),
        ('do(action="Tap", element=[100,200])', "box", Tap(100, 200)),  # a box without extent
        ('do(action="Tap", element=[007, 010])', "point", Tap(7, 10)),
        ('do(action="Tap", element=<2>)', "mark", Tap(200, 230)),
        ('do(action="Tap", element=2)', "mark", Tap(200, 230)),
        ('do(action="Long Press", element=<3>)', "mark", LongPress(499, 949)),
        ("do(action='Type', text='it\\'s \"here\"')", "box", Type('it\'s "here"')),
        ('do(action="Type", text="a\\nb\\\\n\\d\nc")', "box", Type("a\nb\\n\\d\nc")),
        ('do(action="Type", text="")', "box", Type("")),
        ('do(action="Launch", app="Clock")', "box", Launch("Clock")),
        ('do(action="Back")', "box", Back()),
        ('do(action="Press Back")', "box", Back()),
        ('do(action="Home")', "box", Home()),
        ('do(action="Enter")', "box", Enter()),
        ('do(action="Wait")', "box", Wait()),
        ('finish(message="It is (7, 8)")', "box", Finish("It is (7, 8)")),
        ("finish()", "box", Finish("")),
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
        ('direction="right", dist="short", element=[0,0,100,100]', Swipe(50, 50, 300, 50)),
        ('direction="down", dist="long"', Swipe(499, 499, 499, 999)),
        ('direction="up", dist="long"', Swipe(499, 499, 499, 0)),
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
        ('<think>why<answer>do(action="Back")</answer>', "why", Back()),
        ('why</think><answer>do(action="Back")</answer>', "why", Back()),  # the chat template wrote <think>
        ('<answer>do(action="Back")</answer>', "", Back()),
        ('Going back.\n<answer>do(action="Back")</answer>', "Going back.", Back()),
        ('<think>why</think><ans>do(action="Back")</ans>', "why", Back()),
        ('<think>why</think>do(action="Back")', "why", Back()),
        ('do(action="Back")', "", Back()),
        ('<answer>```python\n# the way back\ndo(action="Back")\n```</answer>', "", Back()),
        ('<answer>```do(action="Back")```</answer>', "", Back()),
        ('<answer>do(action="Type", text="```a```")</answer>', "", Type("```a```")),
        ('<answer>do(action="Back")</answer><answer>do(action="Home")</answer>', "", Back()),
        ('<think>so <answer>x</answer>?</think><answer>do(action="Back")</answer>', "so <answer>x</answer>?", Back()),
    ],
)
def test_tolerances(text, thought, expected):
    assert (read(text).thought, read(text).action) == (thought, expected)


@pytest.mark.parametrize(
    ("code", "grounding", "reason"),
    [
        ('do(action="Fly")', "box", 'unknown action "Fly"'),
        ('do(action="finish", message="x")', "box", 'unknown action "finish"'),
        ('click(action="Tap")', "box", 'unknown action "click"'),
        ('do(action="<|image_pad|>")', "box", 'unknown action "?|image_pad|?"'),
        (f'do(action="Back", {"x" * 99}=1)', "box", f'Back has no argument "{"x" * 24}..."'),
        ("do()", "box", 'the argument "action" is missing'),
        ("do(action=3)", "box", 'the argument "action" must be a quoted text'),
        ('do(action="Back", times=2)', "box", 'Back has no argument "times"'),
        ('do(action="Tap")', "box", 'Tap needs the argument "element"'),
        ('do(action="Type", text=5)', "box", 'the argument "text" must be a quoted text'),
        ('do(action="Tap", element=<9>)', "mark", "element <9> is not on the screen"),
        ('do(action="Tap", element=-1)', "mark", "element <-1> is not on the screen"),
        (
            'do(action="Tap", element=[1,2])',
            "mark",
            "the element must be the mark of a listed element, as in element=<7>",
        ),
        ('do(action="Tap", element=7)', "box", "the element must be written [x1,y1,x2,y2]"),
        ('do(action="Tap", element=[1,2,3])', "point", "the element must be written [x,y]"),
        ('do(action="Tap", element=[1,2,3,1000])', "box", "a coordinate is not within 0-999"),
        ('do(action="Tap", element=[-1,2])', "point", "a coordinate is not within 0-999"),
        ('do(action="Tap", element=[1.5,2])', "point", "cannot read: .5,2])"),
        (f'do(action="Tap", element=[{"9" * 5000},2])', "point", f"the number {'9' * 24}... is too large"),
        ('do(action="Tap", element=[])', "box", "a list holds whole numbers only"),
        ('do(action="Tap", element=None)', "box", "cannot read the value: None"),
        (
            'do(action="Swipe", direction="north")',
            "box",
            'the argument "direction" must be one of up, down, left, right',
        ),
        (
            'do(action="Swipe", direction="up", dist="far")',
            "box",
            'the argument "dist" must be one of short, medium, long',
        ),
        ('do(action="Swipe", start=[1,2], end=[3,4])', "box", 'Swipe has no argument "end"'),
        ('do(action="Swipe", start=[1,2])', "point", 'Swipe needs the argument "end"'),
        ('do("Back")', "box", 'arguments need names, as in action="Back"'),
        ('do(action="Back", action="Home")', "box", 'argument "action" is given twice'),
        ('do(action="Back") do(action="Home")', "box", "there is text after the call"),
        ('do(action="Back"); import os', "box", "there is text after the call"),
        ('do(action="Back"', "box", "the call is not closed"),
        ('do(action="Type", text="abc', "box", "a quoted text is not closed"),
        ('do(action="Type", text="a" + "b")', "box", 'cannot read: + "b")'),
        ("", "box", 'expected a call such as do(action="Back")'),
        ("I would go back.", "box", "cannot read: ."),
        ('__import__("os")', "box", 'arguments need names, as in action="Back"'),
    ],
)
def test_reasons(code, grounding, reason):
    assert action(code, grounding) == Invalid(reason)


@pytest.mark.parametrize("text", ["", "I would go back", "<think>and so on", '<think>x</think>do(action="Fly")'])
def test_no_answer_tag(text):
    assert read(text).action == Invalid("there is no <answer> tag")


def test_a_mark_needs_a_screen():
    assert read('<answer>do(action="Tap", element=<1>)', "mark", None).action == Invalid(
        "element <1> is not on the screen"
    )


GROUNDINGS = st.sampled_from(["box", "point", "mark"])
TEXT = st.text() | st.text(alphabet="\"'\\/<>`\n\r\t =()[]answerthik\u05d0\u202e\U0001f600")
CENTRES = st.sampled_from([(499, 450), (200, 230), (499, 949)])
SWIPES = st.builds(
    lambda centre, direction, distance: swipe_from(*centre, direction, distance, W, H),
    CENTRES | st.just((499, 499)),
    st.sampled_from(["up", "down", "left", "right"]),
    st.sampled_from(["short", "medium", "long"]),
)
ACTIONS = st.one_of(
    st.builds(Type, TEXT),
    st.builds(Launch, TEXT),
    st.builds(Finish, TEXT),
    st.sampled_from([Back(), Home(), Enter(), Wait()]),
    st.builds(lambda c: Tap(*c), CENTRES),
    st.builds(lambda c: LongPress(*c), CENTRES),
    SWIPES,
)


@given(ACTIONS, GROUNDINGS, st.none() | TEXT.filter(lambda t: "</think>" not in t))
def test_round_trip(wanted, grounding, thought):
    reply = read(format_reply(wanted, SCREEN, grounding, thought), grounding)
    assert reply.action == wanted
    assert reply.thought == (thought or "").strip()


@given(st.integers(0, 999), st.integers(0, 999), st.sampled_from([Tap, LongPress]))
def test_a_point_moves_to_the_centre_of_its_element_only(x, y, kind):
    point, box = (read(format_reply(kind(x, y), SCREEN, g), g).action for g in ("point", "box"))
    assert point == kind(x, y)
    hit = SCREEN.at(x, y)
    assert box == (kind(*hit.centre) if hit else point)


@given(st.tuples(*[st.integers(0, 999)] * 4))
def test_any_swipe_can_be_written(ends):
    swipe = Swipe(*ends)
    assert read(format_reply(swipe, SCREEN, "point"), "point").action == swipe
    assert isinstance(read(format_reply(swipe, SCREEN, "box")).action, Swipe)


def test_written_forms():
    assert format_reply(Tap(150, 230), SCREEN, "mark", "so") == (
        '<think>so</think><answer>do(action="Tap", element=<2>)</answer>'
    )
    assert format_reply(Tap(150, 230), SCREEN, "box") == (
        '<answer>do(action="Tap", element=[100,200,301,260])</answer>'
    )
    assert format_reply(Tap(150, 230), Screen((), W, H), "box") == (
        '<answer>do(action="Tap", element=[150,230,150,230])</answer>'
    )
    assert format_reply(Swipe(499, 499, 499, 320), SCREEN, "mark") == (
        '<answer>do(action="Swipe", direction="up", dist="medium")</answer>'
    )
    assert format_reply(Swipe(499, 450, 999, 450), SCREEN, "mark") == (
        '<answer>do(action="Swipe", direction="right", dist="medium", element=<1>)</answer>'
    )
    assert format_reply(Type('</answer>"'), SCREEN, "box") == (
        '<answer>do(action="Type", text="<\\/answer>\\"")</answer>'
    )


@pytest.mark.parametrize(
    ("bad", "thought", "message"),
    [
        (Invalid("nonsense"), None, "nonsense"),
        (Tap(10, 10), None, r"no marked element at \(10, 10\)"),
        (Back(), "a</think>b", "</think>"),
    ],
)
def test_what_cannot_be_written(bad, thought, message):
    with pytest.raises(ValueError, match=message):
        format_reply(bad, SCREEN, "mark", thought)


@given(st.text(), GROUNDINGS)
def test_never_raises_on_any_text(text, grounding):
    read(text, grounding)
    read(f"<answer>{text}", grounding)
    assert isinstance(read(f"<answer>do(action={text}", grounding).action.kind, str)


@given(ACTIONS, GROUNDINGS, st.data())
def test_never_raises_on_a_mutated_reply(wanted, grounding, data):
    text = format_reply(wanted, SCREEN, grounding, "why")
    start, end = sorted(data.draw(st.tuples(st.integers(0, len(text)), st.integers(0, len(text)))))
    read(text[:start] + data.draw(TEXT) + text[end:], grounding)


@given(TEXT)
def test_quote_is_one_token_on_one_line(text):
    quoted = quote(text)
    assert "\n" not in quoted and "</" not in quoted
    assert parse_call(f"f(a={quoted})").arguments == {"a": text}


def test_values():
    assert parse_call("f(a=1, b=[1, -2], c=<12>, d='x')").arguments == {"a": 1, "b": (1, -2), "c": Mark(12), "d": "x"}
    with pytest.raises(GrammarError):
        parse_call("f(a={})")


def test_long_hostile_replies_are_read_in_linear_time():
    for text in ('do(action="' + "\\" * 200_001, "do(" * 100_000, "<answer>" * 50_000, "do(a=[" + "1," * 100_000):
        assert isinstance(read(text).action, Invalid)


def test_split_reply_gives_the_code_alone():
    assert split_reply('<think>a</think>\n<answer>\ndo(action="Back")\n</answer>') == ("a", 'do(action="Back")', True)
