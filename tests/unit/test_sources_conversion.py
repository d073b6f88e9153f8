"""Golden conversions of AndroidControl and Android in the Wild, and everything of theirs that is rejected."""

import io
import json

import pytest
from PIL import Image
from png_parts import chunk
from source_files import (
    CLICK_SAVE,
    HEIGHT,
    WIDTH,
    control_episode,
    example,
    framed,
    gesture,
    pixels,
    png,
    wild_step,
    write_control,
    write_tfrecord,
    write_wild,
)

from envs.base import Back, Enter, Finish, Home, Launch, LongPress, Swipe, Tap, Type, Wait
from mobilerl.agent.screen import parse_screen
from sft.sources import aitw, androidcontrol
from sft.sources.pictures import checked_png
from sft.sources.report import Counts, Reject, Report


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


# --- AndroidControl ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "action, expected",
    [
        ({"action_type": "click", "x": 540, "y": 1200}, Tap(500, 500)),  # 999 * 540 / 1080 = 499.5, 999 * 1200 / 2400
        ({"action_type": "click", "x": 0, "y": 2400}, Tap(0, 999)),
        ({"action_type": "long_press", "x": 108, "y": 600}, LongPress(100, 250)),
        # What is scrolled down to comes from below: the finger moves up, 4 tenths of the width.
        ({"action_type": "scroll", "direction": "down"}, Swipe(499, 499, 499, 319)),
        ({"action_type": "scroll", "direction": "up"}, Swipe(499, 499, 499, 679)),
        ({"action_type": "scroll", "direction": "right"}, Swipe(499, 499, 0, 499)),
        ({"action_type": "scroll", "direction": "left"}, Swipe(499, 499, 999, 499)),
        ({"action_type": "open_app", "app_name": "Zoho Meeting"}, Launch("Zoho Meeting")),
        ({"action_type": "input_text", "text": "5 Küchen"}, Type("5 Küchen")),
        ({"action_type": "navigate_home"}, Home()),
        ({"action_type": "navigate_back"}, Back()),
        ({"action_type": "wait"}, Wait()),
    ],
)
def test_actions_of_androidcontrol(action, expected):
    assert androidcontrol.convert_action(json.dumps(action).encode(), 1080, 2400) == expected


@pytest.mark.parametrize(
    "action, reason",
    [
        (b"click", "action is not JSON"),
        (b"\xff\xfe", "action is not JSON"),
        (b"[]", "action is not a JSON object"),
        (b"[" * 100_000, "action is not JSON"),
        (b"{}", "unknown action type 'None'"),
        (b'{"action_type": ["click"]}', "unknown action type"),
        (b'{"action_type": "shake"}', "unknown action type 'shake'"),
        (b'{"action_type": "click", "x": 1081, "y": 5}', "coordinate outside the screen"),
        (b'{"action_type": "click", "x": 5, "y": -1}', "coordinate outside the screen"),
        (b'{"action_type": "click", "x": 5}', "coordinate is not a number"),
        (b'{"action_type": "click", "x": NaN, "y": 5}', "coordinate is not a number"),
        (b'{"action_type": "click", "x": true, "y": 5}', "coordinate is not a number"),
        (b'{"action_type": "scroll", "direction": "in"}', "scroll without a known direction"),
        (b'{"action_type": "open_app"}', "app_name is empty"),
        (b'{"action_type": "input_text", "text": " "}', "text to type is empty"),
        (b'{"action_type": "input_text", "text": "\\ud83d"}', "text to type is not UTF-8"),
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
    assert (counts.files, counts.faulty_files, demo.fault) == (1, 0, "")


def test_an_instruction_for_several_actions_belongs_to_none_of_them(tmp_path):
    actions = [CLICK_SAVE] * 3
    told = [b"Type and save", b"Type and save", b"Go back"]
    (demo,), _ = control(tmp_path, control_episode(actions=actions, step_instructions=told))
    assert [s.instruction for s in demo.steps] == ["", "", "Go back", ""]


@pytest.mark.parametrize(
    "changes, reason",
    [
        ({"goal": [b"  "]}, "goal is empty"),
        ({"goal": [b"\xff"]}, "goal is not UTF-8"),
        ({"goal": None}, "feature goal is missing or of another type"),
        ({"episode_id": [b"7"]}, "feature episode_id is missing or of another type"),
        ({"screenshots": [png(), png()]}, "episode with missing steps"),
        ({"screenshot_widths": [WIDTH] * 2}, "feature screenshot_widths has the wrong number of values"),
        ({"step_instructions": [b"one"]}, "feature step_instructions has the wrong number of values"),
        ({"accessibility_trees": [b"x"]}, "feature accessibility_trees has the wrong number of values"),
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
        ([png(), b"", png()], "screenshot does not decode"),
        ([png(), png(width=90), png()], "screenshot has another size than stated"),
        ([png(), png()[:-12] + chunk(b"iCCP", b"") + png()[-12:], png()], "screenshot does not decode"),
    ],
)
def test_a_damaged_screenshot_ends_its_episode(tmp_path, screens, reason):
    (demo,), _ = control(tmp_path, control_episode(screenshots=screens))
    assert (kinds(demo), demo.fault, demo.lost) == (["launch"], reason, 1)


def image_file(format: str, width: int = 40, height: int = 80) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (width, height), (9, 90, 200)).save(out, format)
    return out.getvalue()


@pytest.mark.parametrize("format", ["PNG", "JPEG", "WEBP"])
def test_the_picture_formats_that_are_read(format):
    assert Image.open(io.BytesIO(checked_png(image_file(format), 40, 80))).format == "PNG"


def test_other_picture_formats_and_impossible_sizes_are_rejected():
    for format in ("GIF", "BMP", "TIFF"):
        with pytest.raises(Reject, match="does not decode"):
            checked_png(image_file(format), 40, 80)
    for width, height in ((2, 400), (400, 2), (5_657, 5_657)):
        with pytest.raises(Reject, match="impossible size"):
            checked_png(image_file("PNG", 2, 400), width, height)


def test_an_action_that_cannot_be_converted_ends_its_episode(tmp_path):
    actions = [CLICK_SAVE, {"action_type": "shake"}, CLICK_SAVE]
    (demo,), _ = control(tmp_path, control_episode(actions=actions))
    assert (kinds(demo), demo.fault, demo.lost) == (["tap"], "unknown action type 'shake'", 2)


@pytest.mark.parametrize("trees", [None, [b"not a forest"] * 3])
def test_screens_without_a_tree_have_no_list(tmp_path, trees):
    (demo,), counts = control(tmp_path, control_episode(accessibility_trees=trees))
    assert len(demo.steps) == 3
    assert all((s.xml, s.listed, s.app) == ("", False, "") for s in demo.steps)
    assert counts.notes == ({"UI tree cannot be read": 3} if trees else {})


def test_a_truncated_shard_gives_what_comes_before_the_fault(tmp_path):
    path = write_tfrecord(tmp_path / "shard", [example(control_episode(i)) for i in (1, 2)], packed=False)
    path.write_bytes(path.read_bytes()[:-300])
    counts = Counts()
    demos = list(androidcontrol.read(path, anything, counts))
    assert [d.task.id for d in demos] == ["androidcontrol/1"]
    assert (counts.files, counts.faulty_files) == (0, 1) and "record 1: the file ends within a record" in counts.faults[
        0
    ]


def test_a_record_that_is_no_example_is_counted_and_passed_over(tmp_path):
    path = write_tfrecord(tmp_path / "shard", [b"not an example", example(control_episode(3))])
    counts = Counts()
    assert [d.task.id for d in androidcontrol.read(path, anything, counts)] == ["androidcontrol/3"]
    assert counts.rejected_episodes == {"record is not a tf.train.Example": 1}


# --- Android in the Wild -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes, expected",
    [
        (gesture((0.25, 0.75), (0.25, 0.75)), Tap(749, 250)),  # (y, x); 999 * 0.75 = 749.25
        (gesture((0.5, 0.5), (0.5, 0.53)), Tap(500, 500)),  # 0.03 apart: a tap, where it was touched
        (gesture((0.5, 0.5), (0.46875, 0.5)), Tap(500, 500)),
        (gesture((0.5, 0.5), (0.45, 0.5)), Swipe(500, 500, 500, 450)),  # 0.05 apart
        (gesture((0.5, 0.5), (0.53, 0.53)), Swipe(500, 500, 529, 529)),  # 0.042 apart along the diagonal
        (gesture((0.8, 0.5), (0.2, 0.5)), Swipe(500, 799, 500, 200)),  # the finger's way, as it is
        (gesture((0.0, 1.0), (0.0, 1.0)), Tap(999, 0)),
        ({"results__action_type": [3], "results__type_action": [b"coffee maker"]}, Type("coffee maker")),
        ({"results__action_type": [5]}, Back()),
        ({"results__action_type": [6]}, Home()),
        ({"results__action_type": [7]}, Enter()),
        ({"results__action_type": [10]}, Finish()),
        ({"results__action_type": [11]}, Finish("infeasible")),
    ],
)
def test_actions_of_android_in_the_wild(tmp_path, changes, expected):
    (demo,), _ = wild(tmp_path, wild_step(**changes))
    assert [s.action for s in demo.steps] == [expected]


@pytest.mark.parametrize(
    "changes, reason",
    [
        (gesture((1.2, 0.5), (1.2, 0.5)), "coordinate outside the screen"),
        (gesture((0.5, -0.01), (0.5, 0.5)), "coordinate outside the screen"),
        (gesture((float("nan"), 0.5), (0.5, 0.5)), "coordinate is not a number"),
        ({"results__action_type": [4]}, "coordinate outside the screen"),  # -1 stands for no point
        ({"results__action_type": [4], "results__yx_touch": [0.5]}, "results/yx_touch has the wrong number"),
        ({"results__action_type": [9]}, "unknown action type 9"),
        ({"results__action_type": []}, "results/action_type is missing"),
        ({"results__action_type": [3]}, "text to type is empty"),
        ({"image__encoded": [b"short"]}, "screenshot does not decode"),
        ({"image__height": [0]}, "screenshot has an impossible size"),
        ({"image__width": [1 << 40]}, "screenshot has an impossible size"),
        ({"image__encoded": []}, "image/encoded is missing"),
    ],
)
def test_steps_of_android_in_the_wild_that_cannot_be_converted(tmp_path, changes, reason):
    (demo,), _ = wild(tmp_path, wild_step(0, 3, **gesture((0.5, 0.5), (0.5, 0.5))), wild_step(1, 3, **changes),
                      wild_step(2, 3))  # fmt: skip
    assert kinds(demo) == ["tap"] and reason in demo.fault and demo.lost == 1


def test_raw_pixels_become_a_png_of_the_same_picture(tmp_path):
    (demo,), _ = wild(tmp_path, wild_step())
    image = Image.open(io.BytesIO(demo.steps[0].screenshot))
    assert (image.format, image.size, image.tobytes()) == ("PNG", (WIDTH, HEIGHT), pixels())
    assert demo.steps[0].app == "com.android.settings"


def test_annotations_name_what_a_tap_hits_but_are_no_list(tmp_path):
    (demo,), _ = wild(tmp_path, wild_step(**gesture((0.3, 0.5), (0.3, 0.5))))
    step = demo.steps[0]
    assert not step.listed
    assert parse_screen(step.xml, WIDTH, HEIGHT).at(step.action.x, step.action.y).text == "Network & internet"


def test_annotations_that_do_not_go_together_are_noted(tmp_path):
    (demo,), counts = wild(tmp_path, wild_step(image__ui_annotations_positions=[0.5]))
    assert demo.steps[0].xml == "" and counts.notes == {"UI tree cannot be read": 1}
    report = Report()
    report.sources["aitw:x"] = counts
    assert "1 steps, used all the same: UI tree cannot be read" in str(report)


def test_steps_of_an_episode_are_put_in_order(tmp_path):
    steps = [wild_step(1, 2), wild_step(0, 2, **gesture((0.5, 0.5), (0.5, 0.5))), wild_step(0, 1, "1002")]
    demos, counts = wild(tmp_path, *steps)
    assert [(d.task.id, kinds(d)) for d in demos] == [("aitw/1001", ["tap", "finish"]), ("aitw/1002", ["finish"])]
    assert not counts.rejected_episodes


def test_a_task_that_was_found_impossible_is_said_to_be(tmp_path):
    (demo,), _ = wild(tmp_path, wild_step(results__action_type=[11]))
    assert not demo.task.feasible


@pytest.mark.parametrize(
    "steps, reason",
    [
        ([wild_step(0, 3), wild_step(2, 3)], "episode with missing steps"),
        ([wild_step(0, 2), wild_step(0, 2)], "steps whose numbers do not fit"),
        ([wild_step(0, 2), wild_step(1, 3)], "steps whose numbers do not fit"),
        ([wild_step(5, 3)], "steps whose numbers do not fit"),
        ([wild_step(0, 10**6)], "steps whose numbers do not fit"),
        ([wild_step(goal=" ")], "goal is empty"),
        ([wild_step(goal_info=[])], "goal is empty"),
        ([wild_step(episode_id=[])], "feature episode_id is missing"),
        ([wild_step(step_id=[b"0"])], "feature step_id is missing or of another type"),
    ],
)
def test_episodes_of_android_in_the_wild_that_cannot_be_used(tmp_path, steps, reason):
    demos, counts = wild(tmp_path, *steps, wild_step(episode="sound"))
    assert [d.task.id for d in demos] == ["aitw/sound"]
    ((told, number),) = counts.rejected_episodes.items()
    assert told.startswith(reason) and number == 1


def test_a_foreign_data_set_is_refused_by_name(tmp_path):
    path = write_control(tmp_path, control_episode())
    with pytest.raises(ValueError, match="aitw: .* is of another data set: its records have no goal_info"):
        aitw.check(path)
    androidcontrol.check(path)
    for data, told in (
        (b"", "is empty"),
        (b"PK\x03\x04 zip archive", "not a TFRecord file"),
        (framed([b"x"]), "Example"),
    ):
        path.write_bytes(data)
        with pytest.raises(ValueError, match=told):
            androidcontrol.check(path)
