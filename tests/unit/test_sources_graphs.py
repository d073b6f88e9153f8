"""Mobile3M's page graphs and our own trajectories as sources of demonstrations."""

import json
import shutil

import pytest
from made_groups import make_step, make_task
from source_files import appium_page, html_button, png, write_graph

from mobilerl.envs.base import Finish, Invalid, Observation, Swipe, Tap, Type
from mobilerl.envs.phone.tasks import suite
from mobilerl.records import Status, Step, Trajectory
from mobilerl.records.files import save_trajectories
from mobilerl.sft.sources import mobile3m, trajectories
from mobilerl.sft.sources.report import Counts, Reject

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


@pytest.mark.parametrize(
    "call, expected",
    [
        (f"click({html_button(*LIBRARY)})", [Tap(125, 968)]),  # middle (90, 1240) px of 720x1280, in 0-999
        (SCROLL, [Swipe(500, 749, 500, 250)]),  # 999 * (360/720, 960/1280) to (360/720, 320/1280)
        (f"input({html_button(*SEARCH)}, 'miles, davis')", [Tap(500, 39), Type("miles, davis")]),
        ('click(<p class="android.widget.TextView" clickable="true"> Find </p>)', [Tap(500, 39)]),
    ],
)
def test_actions_of_mobile3m(call, expected):
    assert mobile3m.convert_action(call, HOME, 720, 1280) == expected


@pytest.mark.parametrize(
    "call, reason",
    [
        ("zoom(<p> a </p>)", "unknown action"),
        (f"click({html_button(*ALBUM)})", "not on its page"),
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
    assert not counts.faults and not counts.rejected_episodes


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
    bad, broken = trajectory("bad", reward=0.0), trajectory("broken", status=Status.INFRA_ERROR)
    save_trajectories(tmp_path, 1, [trajectory("good"), bad, broken])
    (demo,), counts = run_demos(tmp_path)
    assert demo.task == make_task("good")
    step = demo.steps[0]
    assert (step.action, step.thought, step.response, step.listed) == (Tap(1, 2), "a thought", "response", True)
    assert counts.rejected_episodes == {"not successful": 1, "the device failed": 1} and not counts.faults


def test_what_went_wrong_in_a_success_is_not_imitated_but_remembered(tmp_path):
    save_trajectories(tmp_path, 1, [trajectory("a", (Tap(1, 2), Invalid("no tag"), Finish()), note="no such app")])
    (demo,), _ = run_demos(tmp_path)
    told = ["the phone did not carry out the action", "the policy's response could not be parsed", ""]
    assert [s.reject for s in demo.steps] == told


def test_the_phones_own_split_decides(tmp_path):
    train, test = suite.train_tasks(1)[0], suite.held_out_tasks(1)[0]
    save_trajectories(tmp_path, 1, [trajectory("a", task=train), trajectory("b", task=test), trajectory("c")])
    found = {}
    run_demos(tmp_path, lambda key, split="": found.update({key: split}) or False)
    assert found == {train.id: "train", test.id: "test", "s/c": ""}
