import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from source_files import png

from mobilerl.envs.base import (
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
from mobilerl.records import Completion, Status, Step, Trajectory
from mobilerl.records.files import (
    append_trajectory,
    load_trajectories,
    save_trajectories,
    trajectory_from_dict,
    trajectory_to_dict,
)
from mobilerl.records.screens import MemoryScreens

ACTIONS = (
    *(Tap(0, 999), LongPress(5, 6), Swipe(1, 2, 3, 4), Type('né "quoted"\n\u2028\ud800'), Launch("Clock")),
    *(Back(), Home(), Enter(), Wait(0.1), Finish("42"), Invalid("no action found")),
)


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
    loaded = load_trajectories(path)
    assert loaded == written
    first = loaded[0].steps[0]
    assert first.observation.screenshot is first.images[0]  # equal screens are read once
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


def test_appending_removes_an_incomplete_last_line(tmp_path):
    written = [trajectory(f"t{i}", [step(0, screenshot=png(i))]) for i in range(3)]
    path = tmp_path / "trajectories" / "iter-000000.jsonl"
    append_trajectory(tmp_path, written[0])
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])  # without its newline
    append_trajectory(tmp_path, written[0])
    assert path.read_bytes() == whole
    append_trajectory(tmp_path, written[1])
    path.write_bytes(path.read_bytes() + whole[: len(whole) // 2])
    append_trajectory(tmp_path, written[2])
    assert load_trajectories(path) == written


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda r: r.update(schema=2), "schema 2"),
        (lambda r: r.pop("reward") and None, "'reward' is missing"),
        (lambda r: r["steps"][0]["action"].update(kind="shell"), "'shell'"),
        (lambda r: r["steps"][0].update(action={"kind": "type", "text": 5}), "'text' of Type is 5; it must be str"),
        (lambda r: json.dumps(r | {"reward": float("nan")}), "not a JSON object: NaN is not JSON"),
        (lambda r: r["steps"][0]["observation"].update(screenshot="../../config"), "not the name of a screen"),
        (lambda r: r["steps"][0]["observation"].update(screenshot="0" * 64), "is missing"),
    ],
)
def test_a_damaged_line_is_named(tmp_path, change, says):
    """`change` rewrites the second line's object."""
    path = save_trajectories(tmp_path, 3, [trajectory("a"), trajectory("b", [step(0, screenshot=png(1))])])
    first, second = path.read_text().splitlines()
    record = json.loads(second)
    replaced = change(record)
    path.write_text(first + "\n" + (replaced if isinstance(replaced, str) else json.dumps(record)) + "\n")
    with pytest.raises(ValueError, match="iter-000003.jsonl, line 2") as caught:
        load_trajectories(path)
    assert says in str(caught.value)


def test_a_damaged_screen_is_named(tmp_path):
    path = save_trajectories(tmp_path, 0, [trajectory(steps=[step(0, screenshot=png(1))])])
    (file,) = (tmp_path / "screens").iterdir()
    file.write_bytes(b"half")
    with pytest.raises(ValueError, match=f"line 1: .*{file.name} is damaged"):
        load_trajectories(path)
