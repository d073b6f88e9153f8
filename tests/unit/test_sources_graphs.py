"""Mobile3M's page graphs and our own trajectories as sources of demonstrations."""

import copy
import json
import shutil

import pytest
from made_groups import make_step, make_task
from source_files import appium_page, html_button, png, write_graph

from envs.base import Finish, Invalid, LongPress, Observation, Swipe, Tap, Type
from envs.phone.tasks import suite
from mobilerl.records import Status, Step, Trajectory
from mobilerl.trajectory_files import save_trajectories
from sft.sources import mobile3m, trajectories
from sft.sources.report import Counts, Reject

LIBRARY, ALBUM, SEARCH = ("Library", "m:id/library"), ("Album", "m:id/album"), ("Find", "m:id/find")
HOME = appium_page((*LIBRARY, (0, 1200, 180, 1280)), (*SEARCH, (10, 20, 710, 80)))
SHELF = appium_page((*ALBUM, (40, 200, 680, 300)))
SCROLL = "scroll(([360, 960], [360, 320]))"
ACTIONS = {
    f"click({html_button(*LIBRARY)})": 0,
    f"click({html_button(*ALBUM)})": 3,
    SCROLL: 4,
    f"input({html_button(*SEARCH)}, 'jazz')": 7,
}
PAGES = {"music0": HOME, "music0_0": SHELF, "music0_0_3": SHELF, "music0_0_4": SHELF, "music0_7": HOME}
TRIPLES = [
    ["music0", 0, "music0_0"],
    ["music0_0", 3, "music0_0_3"],
    ["music0_0", 4, "music0_0_4"],
    ["music0", 7, "music0_7"],
    ["music0_0_3", 4, "music0_0"],  # a way back
]


def anything(key: str, split: str = "") -> bool:
    return True


@pytest.fixture
def app(tmp_path):
    return write_graph(tmp_path / "music_graph", PAGES, ACTIONS, TRIPLES)


def graph_demos(app):
    counts = Counts()
    return {demo.task.id: demo for demo in mobile3m.read(app, anything, counts)}, counts


# --- Mobile3M ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call, expected",
    [
        (f"click({html_button(*LIBRARY)})", [Tap(125, 968)]),  # middle (90, 1240) px of 720x1280, in 0-999
        (f"press({html_button(*LIBRARY)})", [LongPress(125, 968)]),
        (SCROLL, [Swipe(500, 749, 500, 250)]),  # 999 * (360/720, 960/1280) to (360/720, 320/1280)
        ("scroll([360,960][360,320])", [Swipe(500, 749, 500, 250)]),
        (f"input({html_button(*SEARCH)}, 'miles, davis')", [Tap(500, 39), Type("miles, davis")]),
        ('click(<p class="android.widget.TextView" clickable="true"> Find </p>)', [Tap(500, 39)]),
    ],
)
def test_actions_of_mobile3m(call, expected):
    assert mobile3m.convert_action(call, HOME, 720, 1280) == expected


@pytest.mark.parametrize(
    "call, reason",
    [
        ("", "action id that is not in"),
        ("zoom(<p> a </p>)", "unknown action"),
        ("click(17)", "without an element"),
        (f"click({html_button(*ALBUM)})", "not on its page"),
        ('click(<p package="com.example.music"> </p>)', "not on its page"),
        ("scroll([1,2])", "scroll without two points"),
        ("scroll([360,960][360,-20])", "outside the screen"),
        (f"input({html_button(*SEARCH)}, '')", "input without a text"),
    ],
)
def test_actions_of_mobile3m_that_cannot_be_converted(call, reason):
    with pytest.raises(Reject, match=reason):
        mobile3m.convert_action(call, HOME, 720, 1280)


def test_demonstrations_are_the_shortest_paths_to_the_ends_of_the_graph(app):
    demos, counts = graph_demos(app)
    assert sorted(demos) == ["mobile3m/music0_0_3", "mobile3m/music0_0_4", "mobile3m/music0_7"]
    album = demos["mobile3m/music0_0_3"]
    assert [s.action for s in album.steps] == [Tap(125, 968), Tap(500, 195), Finish()]
    assert album.task.instruction == "In music: tap Library, then tap Album."
    assert demos["mobile3m/music0_0_4"].task.instruction == "In music: tap Library, then swipe up."
    search = demos["mobile3m/music0_7"]
    assert [s.action.kind for s in search.steps] == ["tap", "type", "finish"]
    assert search.task.instruction == "In music: tap Find, then type jazz."
    assert search.steps[0].listed and search.steps[2].screenshot == png(4, 720, 1280)
    assert counts.files == 1 and not counts.rejected_episodes


def test_an_element_may_be_called_nothing(tmp_path):
    book = ("Much ado about nothing", "m:id/book")
    home = appium_page((*book, (0, 1200, 180, 1280)), (*SEARCH, (10, 20, 710, 80)))
    pages = {"play0": home, "play0_0": home, "play0_1": home}
    actions = {f"click({html_button(*book)})": 0, f"input({html_button(*SEARCH)}, 'love for nothing')": 1}
    app = write_graph(tmp_path / "play", pages, actions, [["play0", 0, "play0_0"], ["play0", 1, "play0_1"]])
    demos, counts = graph_demos(app)
    assert demos["mobile3m/play0_0"].task.instruction == "In play: tap Much ado about nothing."
    assert len(demos) == 2 and not counts.rejected_episodes


def test_page_numbers_are_read_as_well(app):
    by_name, _ = graph_demos(app)
    numbers = {name: i for i, name in enumerate(PAGES)}
    triples = [[numbers[a], n, numbers[b]] for a, n, b in TRIPLES]
    (app / "all_triple.json").write_text(json.dumps({"data": triples}))
    assert graph_demos(app)[0] == by_name


def test_paths_with_the_same_beginning_are_in_one_split(app):
    asked = []
    list(mobile3m.read(app, lambda key, split="": asked.append(key) or False, Counts()))
    assert asked == ["music/music0_0", "music/music0_0", "music/music0_7"]


def test_pages_that_cannot_be_used_are_counted(app):
    (app / "music0_0_3" / "music0_0_3-screen.png").write_bytes(png()[:50])
    (app / "music0_0_4" / "music0_0_4-xml.txt").write_text("<hierarchy")
    shutil.rmtree(app / "music0_7")
    triples = [*TRIPLES, ["music0_9", 0, "music0_9_0"], ["music0", 7, "music0/../.."]]
    (app / "all_triple.json").write_text(json.dumps({"data": triples}))
    demos, counts = graph_demos(app)
    assert demos == {}
    assert counts.rejected_episodes == {
        "page cannot be reached from the app's home": 2,
        "screenshot does not decode": 1,
        "page whose screenshot or XML cannot be read": 1,
        "page without a screenshot or without XML": 1,
        "page with an impossible name": 1,
    }


@pytest.mark.parametrize(
    "file, text, told",
    [
        ("all_triple.json", "{", "all_triple.json cannot be read"),
        ("all_triple.json", "[1]", "must hold"),
        ("all_triple.json", '{"data": [["music0", 1]]}', "must hold"),
        ("all_triple.json", '{"data": []}', "must have one home page"),
        ("all_action_id.json", '"not json"', "all_action_id.json cannot be read"),
        ("all_action_id.json", "[]", "must hold an object"),
    ],
)
def test_a_damaged_graph_is_refused_by_file(app, file, text, told):
    (app / file).write_text(text)
    with pytest.raises(ValueError, match=told):
        mobile3m.check(app)
    demos, counts = graph_demos(app)
    assert demos == {} and counts.faulty_files == 1


# --- trajectories ------------------------------------------------------------------------------------------------


DONE = (Tap(1, 2), Finish("done"))


def trajectory(name, actions=DONE, reward=1.0, task=None, status=Status.FINISHED, note=""):
    seen = Observation(png(), 108, 240, "<hierarchy/>", "App", 0)
    steps = tuple(
        Step(seen, make_step(i).completion, (png(),), "a thought", action, {}, note if i == 0 else "")
        for i, action in enumerate(actions)
    )
    return Trajectory(name, task or make_task(name), steps, reward, status, "d0")


def run_demos(tmp_path, wanted=anything):
    counts = Counts()
    (file,) = trajectories.files(tmp_path)
    return list(trajectories.read(file, wanted, counts)), counts


def test_successful_trajectories_are_demonstrations(tmp_path):
    save_trajectories(tmp_path, 1, [trajectory("good"), trajectory("bad", reward=0.0),
                                    trajectory("broken", status=Status.INFRA_ERROR)])  # fmt: skip
    (demo,), counts = run_demos(tmp_path)
    assert demo.task == make_task("good")
    step = demo.steps[0]
    assert (step.action, step.thought, step.response, step.listed) == (Tap(1, 2), "a thought", "reply", True)
    assert counts.rejected_episodes == {"not successful": 1, "the device failed": 1} and counts.files == 1


def test_what_went_wrong_in_a_success_is_not_imitated_but_remembered(tmp_path):
    save_trajectories(tmp_path, 1, [trajectory("a", (Tap(1, 2), Invalid("no tag"), Finish()), note="no such app")])
    (demo,), _ = run_demos(tmp_path)
    told = ["the phone did not carry the action out", "the policy's reply was not understood", ""]
    assert [s.reject for s in demo.steps] == told


def test_the_phones_own_split_decides(tmp_path):
    train, test = suite.train_tasks(1)[0], suite.test_tasks(1, "train")[0]
    save_trajectories(tmp_path, 1, [trajectory("a", task=train), trajectory("b", task=test), trajectory("c")])
    found = {}
    run_demos(tmp_path, lambda key, split="": found.update({key: split}) or False)
    assert found == {train.id: "train", test.id: "test", "s/c": ""}


def test_damaged_trajectories_are_counted(tmp_path):
    file = save_trajectories(tmp_path, 1, [trajectory("a"), trajectory("b")])
    first, second = file.read_text().splitlines()
    broken = json.dumps({**json.loads(first), "steps": [{}]})
    file.write_text("\n".join([broken, second, '{"schema": 99}', first, ""]))
    demos, counts = run_demos(tmp_path)
    assert [d.task.id for d in demos] == ["s/b"]
    assert list(counts.rejected_episodes) == ["trajectory is damaged, or a screen of it is missing or damaged"]
    assert "line 3: schema 99" in counts.faults[0]


@pytest.mark.parametrize(
    "path, value",
    [
        (("task", "instruction"), 5),
        (("task", "id"), "half an emoji \ud83d"),
        (("steps", 0, "observation", "width"), None),
        (("steps", 0, "observation", "xml"), 7),
        (("steps", 0, "action"), {"kind": "finish", "message": None}),
    ],
)
def test_a_field_of_another_type_rejects_its_trajectory_alone(tmp_path, path, value):
    file = save_trajectories(tmp_path, 1, [trajectory("a"), trajectory("b")])
    first, second = file.read_text().splitlines()
    record = part = json.loads(first)
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = value
    file.write_text(f"{json.dumps(record)}\n{second}\n")
    demos, counts = run_demos(tmp_path, lambda key, split="": bool(key.encode()))
    assert [d.task.id for d in demos] == ["s/b"]
    assert counts.rejected_episodes.total() == 1 and (counts.files, counts.faults) == (1, [])


def test_the_steps_before_one_that_cannot_be_used_are_kept(tmp_path):
    file = save_trajectories(tmp_path, 1, [trajectory("a")])
    record = json.loads(file.read_text())
    record["steps"] = [copy.deepcopy(record["steps"][0]) for _ in range(3)]
    record["steps"][1]["observation"]["height"] = 0
    file.write_text(json.dumps(record) + "\n")
    (demo,), counts = run_demos(tmp_path)
    assert (len(demo.steps), demo.lost) == (1, 1) and "size" in demo.fault
    assert counts.rejected_episodes.total() == 0


def test_a_reward_that_is_no_number_is_no_success(tmp_path):
    file = save_trajectories(tmp_path, 1, [trajectory("a")])
    file.write_text(json.dumps(json.loads(file.read_text()) | {"reward": float("nan")}) + "\n")
    demos, counts = run_demos(tmp_path)
    assert demos == [] and "line 1: not a JSON object: NaN is not JSON" in counts.faults[0]


def test_a_missing_screen_rejects_its_trajectory(tmp_path):
    save_trajectories(tmp_path, 1, [trajectory("a")])
    shutil.rmtree(tmp_path / "screens")
    demos, counts = run_demos(tmp_path)
    assert demos == [] and counts.rejected_episodes.total() == 1 and counts.files == 1
