import io
import json
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from envs.base import (
    ACTION_TYPES,
    Back,
    Enter,
    Finish,
    Home,
    Invalid,
    Launch,
    LongPress,
    Observation,
    Swipe,
    Tap,
    Task,
    Type,
    Wait,
)
from mobilerl import trajectory_files
from mobilerl.atomic_files import write_atomic
from mobilerl.records import Completion, Status, Step, Trajectory
from mobilerl.screen_files import MemoryScreens
from mobilerl.trajectory_files import (
    append_trajectory,
    load_trajectories,
    save_trajectories,
    trajectory_from_dict,
    trajectory_to_dict,
)

ACTIONS = (
    Tap(0, 999),
    LongPress(5, 6),
    Swipe(1, 2, 3, 4),
    Type('né "quoted"\n\u2028\ud800'),
    Launch("Clock"),
    Back(),
    Home(),
    Enter(),
    Wait(0.1),
    Finish("42"),
    Invalid("no action found"),
)


def png(shade: int) -> bytes:
    out = io.BytesIO()
    Image.new("L", (8, 16), shade).save(out, "PNG")
    return out.getvalue()


def step(index: int, action=ACTIONS[0], screenshot: bytes = b"", images=(), logprobs=(-0.1,)) -> Step:
    return Step(
        observation=Observation(screenshot, 8, 16, "<hierarchy/>", "Clock", index),
        completion=Completion((1, 2, 3), tuple(range(len(logprobs))), tuple(logprobs), 7, "<answer>"),
        images=tuple(images),
        thought="look",
        action=action,
        timings={"policy": 0.25, "act": 1 / 3},
        note="there is no app called 'Clok'" if index else "",
    )


def trajectory(id="t0", steps=(), params=None, status=Status.FINISHED) -> Trajectory:
    task = Task("clock-1", "clock", "Set it", params or {"h": 7, "tags": ["a"]}, 3, 10, "sim", "Clock", False)
    return Trajectory(id, task, tuple(steps), 0.5, status, "phone-0", "boom", 12.5)


def test_every_action_and_status_comes_back_equal(tmp_path):
    assert {a.kind for a in ACTIONS} == set(ACTION_TYPES)
    screens = [png(i % 3) for i in range(len(ACTIONS))]
    steps = [step(i, a, screens[i], screens[max(0, i - 1) : i + 1]) for i, a in enumerate(ACTIONS)]
    written = [trajectory(f"t{i}", steps, status=status) for i, status in enumerate(Status)]
    path = save_trajectories(tmp_path, 10, written)
    assert path == tmp_path / "trajectories" / "iter-000010.jsonl"
    assert load_trajectories(path) == written
    assert len(list((tmp_path / "screens").iterdir())) == 3  # the three distinct PNGs, and no temporary file


@settings(max_examples=50)
@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=4),
    st.text(),
    st.dictionaries(st.text(), st.one_of(st.none(), st.booleans(), st.integers(), st.text(), st.floats(-1, 1))),
)
def test_round_trip_through_json_is_exact(logprobs, text, params):
    store = MemoryScreens()
    before = trajectory(steps=[step(0, Type(text), b"not a png", [b"a", b"b"], logprobs)], params=params)
    after = trajectory_from_dict(json.loads(json.dumps(trajectory_to_dict(before, store))), store)
    assert after == before
    assert [repr(x) for x in after.steps[0].completion.logprobs] == [repr(x) for x in logprobs]  # -0.0 too
    assert len(store.screens) == 3


def test_equal_screens_are_one_object_after_loading(tmp_path):
    shot = png(9)
    path = save_trajectories(tmp_path, 0, [trajectory(steps=[step(0, screenshot=shot, images=[shot])])])
    (loaded,) = load_trajectories(path)
    assert loaded.steps[0].observation.screenshot is loaded.steps[0].images[0]


def test_files_from_before_there_were_notes_are_read():
    store = MemoryScreens()
    old = trajectory_to_dict(trajectory(steps=[step(1)]), store)
    assert old["steps"][0].pop("note")
    assert [s.note for s in trajectory_from_dict(old, store).steps] == [""]


def test_a_screen_is_written_once(tmp_path):
    one = [trajectory(steps=[step(0, screenshot=png(1))])]
    save_trajectories(tmp_path, 0, one)
    (file,) = (tmp_path / "screens").iterdir()
    inode = file.stat().st_ino
    save_trajectories(tmp_path, 1, one)
    assert file.stat().st_ino == inode


def test_a_crash_while_writing_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "a.jsonl"
    write_atomic(path, b"old")

    def crash(*_):
        raise OSError("power cut")

    monkeypatch.setattr(os, "replace", crash)
    with pytest.raises(OSError, match="power cut"):
        write_atomic(path, b"new")
    assert [p.name for p in tmp_path.iterdir()] == ["a.jsonl"]
    assert path.read_bytes() == b"old"


@pytest.mark.parametrize("block", [1, 65536])
def test_appending_goes_on_after_a_crash_in_the_middle_of_a_line(block, tmp_path, monkeypatch):
    monkeypatch.setattr(trajectory_files, "BLOCK", block)
    written = [trajectory(f"t{i}", [step(0, screenshot=png(i))]) for i in range(3)]
    path = tmp_path / "trajectories" / "iter-000000.jsonl"
    append_trajectory(tmp_path, written[0])
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])  # a first line that lacks its end
    append_trajectory(tmp_path, written[0])
    assert path.read_bytes() == whole
    append_trajectory(tmp_path, written[1])
    path.write_bytes(path.read_bytes() + whole[: len(whole) // 2])
    append_trajectory(tmp_path, written[2])
    assert load_trajectories(path) == written


def damage(tmp_path, change) -> str:
    """Saves two trajectories, lets `change` rewrite the second line's object, and returns the error of loading."""
    path = save_trajectories(tmp_path, 3, [trajectory("a"), trajectory("b", [step(0, screenshot=png(1))])])
    first, second = path.read_text().splitlines()
    record = json.loads(second)
    replaced = change(record)
    path.write_text(first + "\n" + (replaced if isinstance(replaced, str) else json.dumps(record)) + "\n")
    with pytest.raises(ValueError) as caught:
        load_trajectories(path)
    message = str(caught.value)
    assert "iter-000003.jsonl, line 2" in message
    return message


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda r: r.update(schema=2), "schema 2"),
        (lambda r: "[1]", "schema 'list'"),
        (lambda r: '{"schema": 1, "id"', "not a JSON object"),
        (lambda r: r.pop("reward") and None, "'reward' is missing"),
        (lambda r: r["task"].update(colour=1), "colour"),
        (lambda r: r.update(status="won"), "'won' is not a valid Status"),
        (lambda r: r["steps"][0]["action"].update(kind="shell"), "'shell'"),
        (lambda r: r["steps"][0]["observation"].update(width="100"), "'width' of Observation is '100'; it must be int"),
        (lambda r: r["steps"][0]["observation"].update(width=None), "'width' of Observation is None"),
        (lambda r: r["steps"][0]["observation"].update(width=True), "'width' of Observation is True"),
        (lambda r: r["steps"][0]["observation"].update(xml=7), "'xml' of Observation is 7; it must be str"),
        (lambda r: r["task"].update(instruction=5), "'instruction' of Task is 5; it must be str"),
        (lambda r: r["task"].update(params=None), "'params' of Task is None"),
        (lambda r: r["steps"][0].update(action={"kind": "type", "text": 5}), "'text' of Type is 5; it must be str"),
        (lambda r: r["steps"][0].update(action={"kind": "finish", "message": None}), "'message' of Finish is None"),
        (lambda r: r["steps"][0]["completion"].update(token_ids=["a"]), "'token_ids' is ['a']"),
        (lambda r: r.update(reward="1"), "'reward' of Trajectory is '1'; it must be float"),
        (lambda r: json.dumps(r | {"reward": float("nan")}), "not a JSON object: NaN is not JSON"),
        (lambda r: r["steps"][0]["observation"].update(screenshot=3), "3 is not the name of a screen"),
        (lambda r: r["steps"][0]["observation"].update(screenshot="../../config"), "not the name of a screen"),
        (lambda r: r["steps"][0]["observation"].update(screenshot="0" * 64), "is missing"),
    ],
)
def test_a_line_that_cannot_be_read_is_named(tmp_path, change, says):
    assert says in damage(tmp_path, change)


def test_a_damaged_screen_is_named(tmp_path):
    path = save_trajectories(tmp_path, 0, [trajectory(steps=[step(0, screenshot=png(1))])])
    (file,) = (tmp_path / "screens").iterdir()
    file.write_bytes(b"half")
    with pytest.raises(ValueError, match=f"line 1: .*{file.name} is damaged"):
        load_trajectories(path)


@pytest.mark.parametrize("params", [{"when": (1, 2)}, {1: "a"}, {"x": float("nan")}, {"x": {1, 2}}])
def test_parameters_that_json_would_change_are_refused(tmp_path, params):
    with pytest.raises(ValueError, match="trajectory t0 cannot be saved"):
        save_trajectories(tmp_path, 0, [trajectory(params=params)])
