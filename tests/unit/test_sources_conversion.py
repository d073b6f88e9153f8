"""Golden conversions of AndroidControl and Android in the Wild, and everything of theirs that is rejected."""

import json

import pytest
from png_parts import chunk
from source_files import HEIGHT, WIDTH, control_episode, gesture, png, wild_step, write_control, write_wild

from mobilerl.envs.base import Back, Enter, Finish, Home, Launch, LongPress, Swipe, Tap, Type
from mobilerl.policy.screen import parse_screen
from mobilerl.sft.sources import aitw, androidcontrol
from mobilerl.sft.sources.report import Counts, Reject


def anything(key: str, split: str = "") -> bool:
    return True


def control(tmp_path, *episodes):
    counts = Counts()
    return list(androidcontrol.read(write_control(tmp_path, *episodes), anything, counts)), counts


def wild(tmp_path, *steps):
    counts = Counts()
    return list(aitw.read(write_wild(tmp_path / "general-00000-of-00001", *steps), anything, counts)), counts


def kinds(demo):
    return [step.action.kind for step in demo.steps]


@pytest.mark.parametrize(
    "action, expected",
    [
        ({"action_type": "click", "x": 540, "y": 1200}, Tap(500, 500)),  # 999 * 540 / 1080 = 499.5, 999 * 1200 / 2400
        ({"action_type": "click", "x": 0, "y": 2400}, Tap(0, 999)),
        ({"action_type": "long_press", "x": 108, "y": 600}, LongPress(100, 250)),
        # What is scrolled down to comes from below: the finger moves up, 4 tenths of the width.
        ({"action_type": "scroll", "direction": "down"}, Swipe(499, 499, 499, 319)),
        ({"action_type": "scroll", "direction": "right"}, Swipe(499, 499, 0, 499)),
        ({"action_type": "open_app", "app_name": "Zoho Meeting"}, Launch("Zoho Meeting")),
        ({"action_type": "input_text", "text": "5 Küchen"}, Type("5 Küchen")),
        ({"action_type": "navigate_back"}, Back()),
    ],
)
def test_actions_of_androidcontrol(action, expected):
    assert androidcontrol.convert_action(json.dumps(action).encode(), 1080, 2400) == expected


@pytest.mark.parametrize(
    "action, reason",
    [
        (b"[]", "not a JSON object"),
        (b"[" * 100_000, "not JSON"),
        (b'{"action_type": "click", "x": 1081, "y": 5}', "coordinate outside the screen"),
        (b'{"action_type": "click", "x": NaN, "y": 5}', "not a number"),
        (b'{"action_type": "input_text", "text": "\\ud83d"}', "not UTF-8"),
        (b'{"action_type": "type", "x": 1, "y": 1, "text": "a"}', "a tap, a text and Enter in one"),
    ],
)
def test_actions_of_androidcontrol_that_cannot_be_converted(action, reason):
    with pytest.raises(Reject, match=reason):
        androidcontrol.convert_action(action, 1080, 2400)


def test_an_episode_of_androidcontrol(tmp_path):
    (demo,), counts = control(tmp_path, control_episode(7, "Save the note"))
    assert (demo.task.id, demo.task.instruction) == ("androidcontrol/7", "Save the note")
    assert kinds(demo) == ["launch", "tap", "finish"]  # it ends on the screen after the last action
    tap = demo.steps[1]
    assert tap.screenshot == png(10) and (tap.width, tap.height) == (WIDTH, HEIGHT)
    assert tap.app == "com.example.notes" and tap.listed
    assert parse_screen(tap.xml, WIDTH, HEIGHT).at(tap.action.x, tap.action.y).text == "Save"
    assert [s.instruction for s in demo.steps] == ["Do step 0 of 7", "Do step 1 of 7", ""]
    assert not counts.faults and not demo.fault


@pytest.mark.parametrize(
    "changes, reason",
    [
        ({"goal": [b"\xff"]}, "goal is not UTF-8"),
        ({"goal": None}, "feature goal is missing or of another type"),
        ({"screenshots": [png(), png()]}, "episode with missing steps"),
        ({"step_instructions": [b"one"]}, "feature step_instructions has the wrong number of values"),
    ],
)
def test_episodes_of_androidcontrol_that_cannot_be_used(tmp_path, changes, reason):
    demos, counts = control(tmp_path, control_episode(1, **changes), control_episode(2))
    assert [d.task.id for d in demos] == ["androidcontrol/2"]
    ((told, number),) = counts.rejected_episodes.items()
    assert told.startswith(reason) and number == 1


@pytest.mark.parametrize(
    "screens, reason",
    [
        ([png(), png()[:-40], png()], "screenshot does not decode"),
        ([png(), png(width=90), png()], "screenshot has another size than stated"),
        ([png(), png()[:-12] + chunk(b"iCCP", b"") + png()[-12:], png()], "screenshot does not decode"),
    ],
)
def test_a_damaged_screenshot_ends_its_episode(tmp_path, screens, reason):
    (demo,), _ = control(tmp_path, control_episode(screenshots=screens))
    assert (kinds(demo), demo.fault, demo.lost) == (["launch"], reason, 1)


@pytest.mark.parametrize(
    "changes, expected",
    [
        (gesture((0.25, 0.75), (0.25, 0.75)), Tap(749, 250)),  # (y, x); 999 * 0.75 = 749.25
        (gesture((0.5, 0.5), (0.5, 0.53)), Tap(500, 500)),  # 0.03 apart: a tap, where it was touched
        (gesture((0.5, 0.5), (0.45, 0.5)), Swipe(500, 500, 500, 450)),  # 0.05 apart
        (gesture((0.8, 0.5), (0.2, 0.5)), Swipe(500, 799, 500, 200)),  # the finger's way, as it is
        ({"results__action_type": [3], "results__type_action": [b"coffee maker"]}, Type("coffee maker")),
        ({"results__action_type": [6]}, Home()),
        ({"results__action_type": [7]}, Enter()),
        ({"results__action_type": [11]}, Finish("infeasible")),
    ],
)
def test_actions_of_android_in_the_wild(tmp_path, changes, expected):
    (demo,), _ = wild(tmp_path, wild_step(**changes))
    assert [s.action for s in demo.steps] == [expected]


@pytest.mark.parametrize(
    "changes, reason",
    [
        (gesture((float("nan"), 0.5), (0.5, 0.5)), "not a number"),
        ({"results__action_type": [4]}, "outside the screen"),  # -1 stands for no point
        ({"results__action_type": [4], "results__yx_touch": [0.5]}, "results/yx_touch has the wrong number"),
        ({"image__encoded": [b"short"]}, "screenshot does not decode"),
        ({"image__width": [1 << 40]}, "screenshot has an impossible size"),
    ],
)
def test_steps_of_android_in_the_wild_that_cannot_be_converted(tmp_path, changes, reason):
    (demo,), _ = wild(
        tmp_path, wild_step(0, 3, **gesture((0.5, 0.5), (0.5, 0.5))), wild_step(1, 3, **changes), wild_step(2, 3)
    )
    assert kinds(demo) == ["tap"] and reason in demo.fault and demo.lost == 1


def test_steps_of_an_episode_are_put_in_order(tmp_path):
    steps = [wild_step(1, 2), wild_step(0, 2, **gesture((0.5, 0.5), (0.5, 0.5))), wild_step(0, 1, "1002")]
    demos, counts = wild(tmp_path, *steps)
    assert [(d.task.id, kinds(d)) for d in demos] == [("aitw/1001", ["tap", "finish"]), ("aitw/1002", ["finish"])]
    assert not counts.rejected_episodes
