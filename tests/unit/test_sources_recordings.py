"""Recordings of one's own: every other format becomes the same episodes, and mistakes are explained."""

import json
import re
from dataclasses import replace

import pytest
from made_groups import make_step, make_task
from source_files import (
    CLICK_SAVE,
    appium_page,
    control_episode,
    gesture,
    html_button,
    png,
    wild_step,
    write_control,
    write_graph,
    write_wild,
)

from mobilerl.cli import main
from mobilerl.config.training import SourceSection
from mobilerl.envs.base import Invalid
from mobilerl.records import Status, Trajectory
from mobilerl.records.files import save_trajectories
from mobilerl.sft.sources.conversion import convert
from mobilerl.sft.sources.report import Counts
from mobilerl.sft.sources.stream import READERS, Source, hashed_split

LIBRARY, SEARCH = ("Library", "m:id/library"), ("Find", "m:id/find")
BACK = {"screen": "a.png", "action": {"kind": "back"}}
EPISODE = {"id": "mine/1", "goal": "Go back", "steps": [BACK]}


def control(folder):
    broken = control_episode(3, actions=[CLICK_SAVE, {"action_type": "zoom"}, CLICK_SAVE])
    write_control(folder, control_episode(1), broken, *(control_episode(k) for k in range(4, 40)))


def wild(folder):
    far = gesture((0.8, 0.5), (0.2, 0.5))
    steps = [wild_step(0, 3, **far), wild_step(1, 3, **gesture((0.3, 0.5), (0.3, 0.5))), wild_step(2, 3)]
    write_wild(folder / "general-00000-of-00001", *steps)


def graph(folder):
    home = appium_page((*LIBRARY, (0, 1200, 180, 1280)), (*SEARCH, (10, 20, 710, 80)))
    actions = {f"click({html_button(*LIBRARY)})": 0, f"input({html_button(*SEARCH)}, 'jazz')": 7}
    pages = {"music0": home, "music0_0": home, "music0_7": home}
    write_graph(folder / "music_graph", pages, actions, [["music0", 0, "music0_0"], ["music0", 7, "music0_7"]])


def run_folder(folder):
    steps = [make_step(i, screenshot=png(i % 2, 100, 200)) for i in range(3)]
    unread = replace(make_step(3), action=Invalid("no tag", why="x"))
    made = Trajectory("a", make_task(), (*steps, unread), 1.0, Status.FINISHED, "d0")
    save_trajectories(folder, 1, [made])


def episodes(format, path):
    """All episodes with their splits."""
    source, counts, found = Source(SourceSection(format=format, path=str(path))), Counts(), []
    asked = []

    def wanted(key, fixed=""):
        asked.append(source.split_of(key, fixed, counts))
        return True

    for file in source.files:
        for demo in source.reader.read(file, wanted, counts):
            found.append((demo, asked[-1]))
    assert not counts.faults
    return found


@pytest.mark.parametrize(
    ("format", "make"), [("androidcontrol", control), ("aitw", wild), ("mobile3m", graph), ("trajectories", run_folder)]
)
def test_what_is_converted_reads_back_as_the_same_episodes_in_the_same_splits(tmp_path, format, make):
    make(tmp_path / "data")
    report = convert(SourceSection(format=format, path=str(tmp_path / "data")), tmp_path / "out")
    before, after = episodes(format, tmp_path / "data"), episodes("jsonl", tmp_path / "out")
    assert after == before and before
    screens = {step.screenshot for demo, _ in before for step in demo.steps if step.screenshot}
    assert len(list((tmp_path / "out" / "screens").iterdir())) == len(screens), "equal screens are stored once"
    (counts,) = report.sources.values()
    assert counts.episodes == len(before) and counts.steps == sum(len(demo.steps) for demo, _ in before)
    again = convert(SourceSection(format="jsonl", path=str(tmp_path / "out")), tmp_path / "again")
    assert again.sources and episodes("jsonl", tmp_path / "again") == before


def test_the_command_converts_one_split_and_refuses_a_folder_that_is_there(tmp_path, capsys):
    control(tmp_path / "data")
    words = ["convert", "androidcontrol", str(tmp_path / "data"), str(tmp_path / "test"), "--split", "test"]
    assert main(words) == 0
    keys = [str(k) for k in (1, *range(3, 40)) if hashed_split("androidcontrol", str(k)) == "test"]
    assert [demo.task.id for demo, _ in episodes("jsonl", tmp_path / "test")] == [f"androidcontrol/{k}" for k in keys]
    assert keys
    assert main(words) == 2
    assert "exists: name a new folder" in capsys.readouterr().err


def written(folder, *lines):
    (folder / "screens").mkdir()
    (folder / "screens" / "a.png").write_bytes(png())
    texts = (line if isinstance(line, str) else json.dumps(line) for line in lines)
    (folder / "episodes.jsonl").write_text("".join(f"{text}\n" for text in texts))
    counts = Counts()
    (file,) = READERS["jsonl"].files(folder)
    return list(READERS["jsonl"].read(file, lambda key, split="": True, counts)), counts


def test_few_fields_are_enough(tmp_path):
    (demo,), counts = written(tmp_path, EPISODE)
    (step,) = demo.steps
    assert (demo.task.id, demo.task.instruction, demo.task.max_steps) == ("mine/1", "Go back", 1)
    assert (step.screenshot, step.width, step.height) == (png(), 108, 240) and not step.listed
    assert not counts.faults


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("{", "the line: Invalid JSON"),
        ({**EPISODE, "goal": " "}, "goal: it is empty: write a text"),
        ({"id": "a", "goal": "g"}, "steps: Field required; add it"),
        ({**EPISODE, "name": "a"}, "name: .* remove it, or correct its name"),
        ({**EPISODE, "steps": [{**BACK, "action": {"kind": "click"}}]}, r"steps.0.action: .*'tap', 'long_press'"),
        ({**EPISODE, "steps": [BACK, {**BACK, "action": {"kind": "tap", "x": 5}}]}, r"steps.1.action.tap.y: .* add it"),
        ({**EPISODE, "steps": [{**BACK, "action": {"kind": "tap", "x": 1080, "y": 5}}]}, "x is 1080: give 0 to 999"),
        ({**EPISODE, "steps": [{**BACK, "screen": "../../a.png"}]}, "name a file in screens/, without its folder"),
        ({**EPISODE, "steps": [{"action": {"kind": "back"}}]}, "name its file, or give width and height"),
    ],
)
def test_a_mistake_is_named_with_file_line_field_and_fix_and_the_rest_is_read(tmp_path, line, told):
    demos, counts = written(tmp_path, EPISODE, line, EPISODE)
    assert len(demos) == 2
    (fault,) = counts.faults
    assert fault.startswith(f"{tmp_path / 'episodes.jsonl'}, line 2: ") and "docs/data.md" in fault
    assert re.search(told, fault), fault


def test_a_screen_that_is_missing_ends_an_episode_before_it(tmp_path):
    (demo,), _ = written(tmp_path, {**EPISODE, "steps": [BACK, {**BACK, "screen": "b.png"}, BACK]})
    assert len(demo.steps) == 1 and demo.fault == "screenshot is missing in screens/" and demo.lost == 1
