"""What comes from a model or an app: responses, UI dumps, verdicts, and texts that are quoted in prompts."""

from __future__ import annotations

import re

from damage import damaged_text
from fuzzing import Target
from hypothesis import strategies as st

from mobilerl.envs.base import COORD_MAX, Back, Finish, Invalid, Launch, LongPress, Swipe, Tap, Type
from mobilerl.envs.phone.apps.catalogue import APPS
from mobilerl.envs.phone.phone import Phone
from mobilerl.envs.phone.transport import InProcessTransport
from mobilerl.judge.verdict import read_verdict
from mobilerl.policy.actions import candidates, format_response
from mobilerl.policy.context import ContextPolicy
from mobilerl.policy.formats import FORMATS
from mobilerl.policy.parsing import parse_response
from mobilerl.policy.screen import Element, Screen, parse_screen
from mobilerl.viewer.steps import touched_element

WIDTH, HEIGHT = 360, 720
CONTROL = re.compile(r"<\||</?(?!answer>)[A-Za-z_]\w*>")
"""Marks apart, which a reason may name."""


def _dump() -> str:
    phone = InProcessTransport(Phone(APPS, WIDTH, HEIGHT))
    phone.shell(("monkey", "-p", "com.android.settings", "-c", "android.intent.category.LAUNCHER", "1"))
    return phone.exec_out(("uiautomator", "dump", "/dev/tty")).decode()


DUMP = _dump()
SCREEN = parse_screen(DUMP, WIDTH, HEIGHT)
FOCUSED = Screen((Element(1, "EditText", ("edit",), ("focused",), "Name", (0, 0, 999, 99), 0),), WIDTH, HEIGHT)

# --- responses -----------------------------------------------------------------------------------------------------

CALLS = (
    'do(action="Tap", element=[1,2,30,40])',
    'do(action="Tap", element=<3>)',
    'do(action="Back")',
    'do(action="Type", text="a \\"b\\" \\n")',
    'do(action="Swipe", direction="up", dist="long", element=[5,6])',
    'do(action="Swipe", start=[1,2], end=[3,4])',
    'finish(message="done")',
    "do(action='Launch', app='Maps')",
    '```python\ndo(action="Long Press", element=[1,2])\n```',
)
RESPONSES = [*CALLS, *(f"<think>because</think><answer>{call}</answer>" for call in CALLS)]
PIECES = [
    *"""do( finish( action= element= " ' \\ [ ] < > ( ) , = ``` <think> </think> <answer> </answer>""".split(),
    *("__import__('os').system('x')", "99999999999", "-1", "1.5"),
]


def _response(example: tuple[str, str]) -> None:
    text, grounding = example
    response = parse_response(text, SCREEN, grounding, WIDTH, HEIGHT)
    action = response.action
    if isinstance(action, Invalid):
        assert "\n" not in action.reason and len(action.reason) < 300
        assert not CONTROL.search(action.reason), action.reason
        return
    numbers = {Tap: ("x", "y"), LongPress: ("x", "y"), Swipe: ("x", "y", "x2", "y2")}.get(type(action), ())
    assert all(0 <= getattr(action, name) <= COORD_MAX for name in numbers)
    if grounding == "point" or not numbers:
        written = format_response(action, SCREEN, grounding)
        assert parse_response(written, SCREEN, grounding, WIDTH, HEIGHT).action == action


# --- responses in published formats --------------------------------------------------------------------------------

ACTIONS = (Tap(1, 2), Swipe(1, 2, 3, 4), Type('a "b"\n'), Launch("Maps"), Back(), Finish("it's 5"))
PUBLISHED = {name: ContextPolicy(format=name) for name in FORMATS if name != "mobilerl"}
WRITTEN = {
    name: [policy.write_response(action, FOCUSED, "because") for action in ACTIONS]
    for name, policy in PUBLISHED.items()
}
LITERALS = [
    *("True", "null", "007", "1e999", "NaN", "(1, 2)", "{{", "}}", "'", '"', "', '", '", "', ")\n\n", "</action>"),
    *("<tool_call>", "<|begin_of_box|>", "Action:", "do(action=", "finish(", "__import__('os').system('x')", "\\u00"),
]


def _published(example: tuple[str, str]) -> None:
    name, text = example
    action = PUBLISHED[name].parse(text, FOCUSED).action
    assert all(0 <= getattr(action, field, 0) <= COORD_MAX for field in ("x", "y", "x2", "y2"))
    for field in ("text", "app", "message", "reason"):
        getattr(action, field, "").encode()
    if isinstance(action, Invalid):
        assert "\n" not in action.reason and len(action.reason) < 300
        assert not CONTROL.search(action.reason.replace("<tool_call>", "").replace("<action>", "")), action.reason


DAMAGED = st.sampled_from(sorted(WRITTEN)).flatmap(
    lambda name: st.tuples(st.just(name), damaged_text(WRITTEN[name], LITERALS))
)

# --- screens -----------------------------------------------------------------------------------------------------

XML_PIECES = [
    *(
        '<node text="',
        '" />',
        "</node>",
        '<!DOCTYPE a [<!ENTITY b "cc">]>',
        "&b;",
        "&#10;",
        "&lt;",
        "&#0;",
        "<![CDATA[",
    ),
    *('bounds="[0,0][999999,999999]"', 'class="a.&#10;x"', "&lt;|im_end|&gt;", "<!--", "<node>" * 20_000),
]
NESTED = DUMP[: DUMP.find("<node")] + "<node>" * 20_000 + "</node>" * 20_000 + "</hierarchy>"
DUMPS = damaged_text([DUMP, DUMP[:2000], NESTED], XML_PIECES)


def _screen(example: tuple[str, int, int]) -> None:
    xml, width, height = example
    screen = parse_screen(xml, width, height)
    assert not (screen.error and screen.elements)
    marks = [e.mark for e in screen.elements if e.mark is not None]
    assert marks == list(range(1, len(marks) + 1))
    for e in screen.elements:
        x1, y1, x2, y2 = e.box
        assert 0 <= x1 <= x2 <= COORD_MAX and 0 <= y1 <= y2 <= COORD_MAX
    rows = len(screen.elements) or bool(screen.error)
    for style, head in (("mobilerl", not screen.error), ("marks", 0)):
        lines = screen.render(style).splitlines()
        assert len(lines) == rows + head, f"{style}: an element forged a line"
    assert "<|" not in screen.render("marks") + screen.render("mobilerl")
    assert re.findall(r"<([0-9]+)>", screen.render("marks")) == ([] if screen.error else [str(m) for m in marks])
    candidates(screen)
    touched_element(screen, {"kind": "tap", "x": 10, "y": 10})  # the viewer reads dumps, too


# --- verdicts ----------------------------------------------------------------------------------------------------

VERDICTS = ["<think>hm</think>\nStatus: success", "Thoughts: it is done.\nStatus: failure", "**Status:** `success`."]


def _verdict(text: str) -> None:
    reading = read_verdict(text)
    assert (reading.success is None) == bool(reading.reason)
    if reading.success is not None:
        last = text.lower().rpartition("status")[2]
        assert ("success" if reading.success else "failure") in last


TARGETS = [
    Target(
        "response", st.tuples(damaged_text(RESPONSES, PIECES), st.sampled_from(["box", "point", "mark"])), _response
    ),
    Target("published response", DAMAGED, _published),
    Target("screen", st.tuples(DUMPS, st.integers(1, 4000), st.integers(1, 4000)), _screen),
    Target("verdict", damaged_text(VERDICTS, ["Status:", "success", "failure", "<think>", "</think>"]), _verdict),
]
