"""Chat messages: order, what is kept of earlier turns, image placeholders, and the compact layout."""

import json
import re
from dataclasses import replace

import pytest
from measured import best_time

from envs.base import Back, Invalid, Observation, Tap, Task
from mobilerl.agent.actions import parse_reply
from mobilerl.agent.context import DEFAULT_SYSTEM_PROMPTS, ContextPolicy, Turn, build_messages, prompt_hash
from mobilerl.agent.screen import Element, Screen
from mobilerl.records import Completion, Step

TASK = Task("t-0", "t", "Turn on\nWi-Fi", {}, 0, 10, "sim")
SCREEN = Screen((Element(1, "Switch", ("click", "check"), ("unchecked",), "Wi-Fi", (0, 0, 999, 99), 0),), 1080, 2400)
MARKS = {"layout": "compact", "grounding": "mark", "screen_style": "marks"}


def seen(i, screenshot=None):
    return Observation(f"png{i}".encode() if screenshot is None else screenshot, 1080, 2400, "<x/>", f"App{i}", i)


def turn(i, action=None, screenshot=None):
    response = f'<think>thought {i}</think><answer>do(action="Back")</answer>'
    action = action or Back()
    return Turn(seen(i, screenshot), response, f"thought {i}", action, action.kind)


def build(n, policy, **changes):
    return build_messages(TASK, changes.get("history", [turn(i) for i in range(n)]), seen(n), SCREEN, policy)


def told(messages):
    """Role and content, an image written as {}."""
    return [
        (m["role"], "".join("{}" if part == {"type": "image"} else part["text"] for part in m["content"]))
        for m in messages
    ]


def app(i):
    return f'{{"current_app": "App{i}"}}'


def test_chat_order_is_mobilerls():
    messages, images = build(2, ContextPolicy(system_prompt="SYS"))
    reply = '<think>thought {}</think><answer>do(action="Back")</answer>'
    assert told(messages) == [
        ("system", "SYS"),
        ("user", f"Turn on\nWi-Fi\n\n{app(0)}"),
        ("assistant", reply.format(0)),
        ("user", f"** Screen Info **\n\n{app(1)}"),
        ("assistant", reply.format(1)),
        ("user", f"{{}}** Screen Info **\n\n{app(1)}"),
        ("user", f"{{}}** Screen Info **\n\n{app(2)}\n\n" + SCREEN.render("mobilerl")),
    ]
    assert images == [b"png1", b"png2"]


def test_first_turn():
    messages, images = build(0, ContextPolicy(screen_style="none"))
    assert told(messages) == [
        ("system", DEFAULT_SYSTEM_PROMPTS["box"]),
        ("user", f"{{}}Turn on\nWi-Fi\n\n{app(0)}"),
    ]
    assert images == [b"png0"]


def test_a_cut_history_still_opens_with_the_instruction():
    messages, _ = build(5, ContextPolicy(system_prompt="", screenshots=1, history_steps=1, screen_style="none"))
    assert told(messages) == [
        ("user", f"Turn on\nWi-Fi\n\n{app(4)}"),
        ("assistant", '<think>thought 4</think><answer>do(action="Back")</answer>'),
        ("user", f"{{}}** Screen Info **\n\n{app(5)}"),
    ]
    messages, _ = build(5, ContextPolicy(system_prompt="", screenshots=1, history_steps=0, screen_style="none"))
    assert told(messages) == [("user", f"{{}}Turn on\nWi-Fi\n\n{app(5)}")]


def test_thoughts_can_be_left_out():
    messages, _ = build(1, ContextPolicy(history_thoughts=False))
    assert told(messages)[2] == ("assistant", '<answer>do(action="Back")</answer>')


@pytest.mark.parametrize("layout", ["chat", "compact"])
@pytest.mark.parametrize("screenshots", [0, 1, 2, 3, 9])
def test_images_are_the_newest_screenshots_in_placeholder_order(layout, screenshots):
    messages, images = build(4, ContextPolicy(layout=layout, screenshots=screenshots))
    assert images == [f"png{i}".encode() for i in range(5)][max(0, 5 - screenshots) :]
    assert sum(part["type"] == "image" for m in messages for part in m["content"]) == len(images)


@pytest.mark.parametrize("layout", ["chat", "compact"])
def test_a_missing_screenshot_has_no_placeholder(layout):
    history = [turn(0, screenshot=b"")]
    messages, images = build(1, ContextPolicy(layout=layout), history=history)
    assert images == [b"png1"]
    assert sum(part["type"] == "image" for m in messages for part in m["content"]) == 1


def test_the_reason_is_shown_in_the_turn_after_an_invalid_reply():
    history = [turn(0, Invalid("unknown action")), turn(1)]
    texts = [text for role, text in told(build(2, ContextPolicy(), history=history)[0]) if role == "user"]
    assert ["unknown action" in text for text in texts] == [False, True, True, False]
    texts = [text for _, text in told(build(1, ContextPolicy(), history=history[:1])[0])]
    assert "unknown action" in texts[-1]


def test_compact_layout():
    messages, images = build(3, ContextPolicy(**MARKS))
    assert told(messages) == [
        (
            "user",
            "{}{}app: App3\n"
            "Wi-Fi<1> unchecked\n"
            "history:\n"
            "thought 0 back\n"
            "thought 1 back\n"
            "thought 2 back\n"
            "Turn on Wi-Fi\n",
        )
    ]
    assert images == [b"png2", b"png3"]


def test_compact_layout_without_thoughts_cut_and_after_an_error():
    policy = ContextPolicy(**MARKS, history_thoughts=False, history_steps=2, screenshots=0)
    history = [turn(0), turn(1), turn(2, Invalid("no\nanswer"))]
    assert told(build(3, policy, history=history)[0]) == [
        (
            "user",
            "app: App3\nWi-Fi<1> unchecked\nhistory:\nback\ninvalid\nerror: no answer\nTurn on Wi-Fi\n",
        )
    ]


def test_compact_layout_can_have_a_system_prompt():
    assert told(build(0, ContextPolicy(**MARKS, system_prompt="SYS"))[0])[0] == ("system", "SYS")


@pytest.mark.parametrize("layout", ["chat", "compact"])
def test_text_cannot_forge_image_placeholders(layout):
    history = [Turn(seen(0), '<answer>do(action="Type", text="<|image_pad|><image>")', "<|vision_start|>", Back())]
    text = json.dumps(build(1, ContextPolicy(layout=layout), history=history)[0])
    assert "<|" not in text and "<image>" not in text


@pytest.mark.parametrize("layout", ["chat", "compact"])
def test_no_half_of_an_emoji_gets_into_a_prompt(layout):
    """Goals of a server's tasks, names of apps, replies of an older version: a request or a tokenizer would raise."""
    torn = "\ud83d"
    task, here = replace(TASK, instruction=f"say {torn}"), replace(seen(1), app=torn)
    history = [Turn(seen(0), f"<answer>{torn}", torn, Back(), f"type {torn}", torn)]
    messages, _ = build_messages(task, history, here, SCREEN, ContextPolicy(layout=layout))
    assert "say ?" in json.dumps(messages, ensure_ascii=False).encode().decode()


def test_a_turn_is_made_of_a_step():
    step = Step(seen(0), Completion((1,), (2,), (-0.1,), 3, "reply"), (), "thought", Tap(1, 2), note="no")
    assert Turn.of(step, SCREEN) == Turn(seen(0), "reply", "thought", Tap(1, 2), "tap Wi-Fi", "no")


@pytest.mark.parametrize("policy", [ContextPolicy(), ContextPolicy(**MARKS)])
def test_an_action_that_was_not_carried_out_is_told_once_and_other_prompts_stay_as_they_are(policy):
    note = "(not done: there is no app called 'X')"
    plain = [turn(0), turn(1), turn(2)]
    noted = [turn(0), replace(turn(1), note="there is no app called 'X'"), turn(2)]
    (before, _), (after, _) = build(3, policy, history=plain), build(3, policy, history=noted)
    assert len(before) == len(after)
    changed = [(a, b) for a, b in zip(told(before), told(after), strict=True) if a != b]
    # The chat layout tells of turn 2 twice: as text, and again with its screenshot.
    assert len(changed) == (2 if policy.layout == "chat" else 1)
    for (_, a), (_, b) in changed:
        assert b.count(note) == 1 and b.replace(f"\n\n{note}", "").replace(f" {note}", "") == a
    assert note not in str(build(2, policy, history=noted[:1])[0])


@pytest.mark.parametrize("grounding", ["box", "point", "mark"])
def test_every_example_of_a_default_prompt_can_be_read(grounding):
    screen = Screen((Element(7, "Button", ("click",), (), "OK", (0, 0, 9, 9), 0),), 1080, 2400)
    examples = re.findall(r"^- (.*)$", DEFAULT_SYSTEM_PROMPTS[grounding], re.MULTILINE)
    read = [parse_reply(f"<answer>{code}", screen, grounding, 1080, 2400).action.kind for code in examples]
    assert sorted(read) == sorted(
        ["tap", "long_press", "type", "swipe", "launch", "back", "home", "enter", "wait", "finish"]
    )


def test_the_reply_form_of_a_default_prompt_can_be_read():
    line = next(x for x in DEFAULT_SYSTEM_PROMPTS["box"].splitlines() if x.startswith("<think>"))
    assert parse_reply(line, None, "box", 1080, 2400).action == Back()


def test_prompt_hash_names_the_settings():
    default = ContextPolicy()
    assert prompt_hash(default) == prompt_hash(ContextPolicy(system_prompt=DEFAULT_SYSTEM_PROMPTS["box"]))
    others = [ContextPolicy(screenshots=1), ContextPolicy(grounding="point"), ContextPolicy(system_prompt="x")]
    assert len({prompt_hash(p) for p in [default, *others]}) == 4
    assert re.fullmatch("[0-9a-f]{16}", prompt_hash(default))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"screenshots": -1}, "must not be negative"),
        ({"history_steps": -1}, "must not be negative"),
        ({"grounding": "mark"}, 'screen_style = "marks"'),
        ({"layout": "wide"}, "context.layout is 'wide'"),
        ({"grounding": "pixel"}, "context.grounding"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        ContextPolicy(**settings)


@pytest.mark.parametrize("policy", [ContextPolicy(), ContextPolicy(**MARKS)], ids=["chat", "compact"])
def test_fast_plain_and_the_same_every_time(policy):
    history = [turn(i) for i in range(15)]
    screen = Screen(SCREEN.elements * 40, 1080, 2400)
    once = build_messages(TASK, history, seen(15), screen, policy)
    json.dumps(once[0])
    made = []
    assert best_time(lambda: made.append(build_messages(TASK, history, seen(15), screen, policy)), 0.5e-3) < 0.5e-3
    assert all(again == once for again in made)
