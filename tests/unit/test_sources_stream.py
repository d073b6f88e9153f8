"""Samples of every source for the codec, mixed, split and counted."""

import json

import pytest
from source_files import CLICK_SAVE, control_episode, png, write_control

from mobilerl.config.training import SourceSection
from mobilerl.policy.context import ContextPolicy
from mobilerl.sft.sources.report import Report
from mobilerl.sft.sources.stream import hashed_split, open_sources, read_splits, steps

CONTEXT = ContextPolicy()
COMPACT = ContextPolicy(screenshots=1, screen_style="marks", grounding="mark", layout="compact")
KEYS = [k for k in range(1, 200) if hashed_split("androidcontrol", str(k)) == "train"]
"""Episodes that a hash leaves to training."""


@pytest.fixture
def control(tmp_path):
    """Three episodes in two shards."""
    write_control(tmp_path / "control", control_episode(KEYS[0]), control_episode(KEYS[1]))
    write_control(tmp_path / "control", control_episode(KEYS[2]), shard=1)
    return tmp_path / "control"


def spec(path, format="androidcontrol", **settings) -> SourceSection:
    return SourceSection(format=format, path=str(path), **settings)


def read(specs, split="train", context=CONTEXT, **settings):
    report = Report()
    return list(steps(open_sources(specs, split, context), split, context, report, **settings)), report


def text_of(message) -> str:
    return "".join(part.get("text", "") for part in message["content"])


def test_samples_of_an_episode(control):
    made, report = read([spec(control)])
    first = [s for s in made if s.task.id == f"androidcontrol/{KEYS[0]}"]
    assert [(s.observation.step, len(s.turns), s.action.kind) for s in first] == [
        (0, 0, "launch"),
        (0, 0, "launch"),
        (1, 1, "tap"),
        (1, 0, "tap"),  # an instruction for this step alone
        (2, 2, "finish"),
    ]
    messages, images = first[4].messages(CONTEXT)
    # Both actions in the history, as responses; the last screenshot but one is shown again, the first is not kept.
    assert [text_of(m) for m in messages if m["role"] == "assistant"] == [
        '<answer>do(action="Launch", app="Notes")</answer>',
        '<answer>do(action="Tap", element=[130,749,870,916])</answer>',
    ]
    assert images == [png(10), png(20)]
    assert [bool(t.observation.screenshot) for t in first[4].turns] == [False, True]
    assert "Button;click;Save;[130,749,870,916]" in text_of(messages[-1])
    alone, _ = first[3].messages(CONTEXT)
    assert first[3].turns == () and f"Do step 1 of {KEYS[0]}" in text_of(alone[-1])
    assert json.loads(report.to_json())[f"androidcontrol:{control}"]["steps"] == 15


def test_mark_grounding_rejects_touches_without_a_mark(control):
    off = control_episode(KEYS[3], actions=[{"action_type": "click", "x": 1, "y": 239}, CLICK_SAVE])
    write_control(control, off, shard=2)
    made, report = read([spec(control)], context=COMPACT)
    assert report.sources[f"androidcontrol:{control}"].rejected_steps == {"no mark stands for the touched element": 1}
    tap = next(s for s in made if s.task.id.endswith(f"/{KEYS[3]}") and s.turns)
    assert tap.observation.step == 1 and tap.turns[0].summary == "tap nothing"


def test_sources_are_mixed_by_weight_and_seed(tmp_path):
    for folder, keys in (("a", KEYS[:8]), ("b", KEYS[8:16])):
        write_control(tmp_path / folder, *(control_episode(k, actions=[CLICK_SAVE] * 9) for k in keys))
    specs = [spec(tmp_path / "a", weight=3.0), spec(tmp_path / "b", weight=1.0)]
    made, report = read(specs, seed=1)
    heavy = sum(int(s.task.id.rpartition("/")[2]) in KEYS[:8] for s in made)
    light = len(made) - heavy
    assert heavy / len(made) == pytest.approx(0.75, abs=0.08)
    assert heavy >= 152 and light >= 152  # each read completely, the smaller share repeated until then
    assert {counts.steps for counts in report.sources.values()} == {152}  # what is repeated is not counted again

    def order(seed, buffer=0):
        return [(s.task.id, s.observation.step) for s in read(specs, seed=seed, buffer=buffer)[0]]

    assert order(1) == [(s.task.id, s.observation.step) for s in made] != order(2)
    assert order(1, buffer=50) == order(1, buffer=50) != order(1)


def test_a_source_gives_no_more_than_its_limit(tmp_path):
    for folder, keys in (("a", KEYS[:8]), ("b", KEYS[8:16])):
        write_control(tmp_path / folder, *(control_episode(k, actions=[CLICK_SAVE] * 9) for k in keys))
    specs = [spec(tmp_path / "a", limit=100), spec(tmp_path / "b")]

    def shares(**settings) -> tuple[int, int]:
        made, _ = read(specs, seed=1, **settings)
        heavy = sum(int(s.task.id.rpartition("/")[2]) in KEYS[:8] for s in made)
        return heavy, len(made) - heavy

    assert shares() == (100, 152) and shares(limits=[0, 7]) == (0, 7)
    larger, all_of_it = shares(limits=[200, None])
    assert 152 <= larger <= 200 and all_of_it >= 152, "a limit is a maximum"


def test_a_hash_keeps_episodes_for_testing(tmp_path):
    test_key = next(k for k in range(1, 200) if hashed_split("androidcontrol", str(k)) == "test")
    write_control(tmp_path, control_episode(KEYS[0]), control_episode(test_key))
    train, report = read([spec(tmp_path)])
    test, _ = read([spec(tmp_path)], "test")
    assert {s.task.id for s in train} == {f"androidcontrol/{KEYS[0]}"}
    assert {s.task.id for s in test} == {f"androidcontrol/{test_key}"}
    assert report.sources[f"androidcontrol:{tmp_path}"].other_split == 1


def test_a_published_split_beside_the_data_is_used(tmp_path):
    write_control(tmp_path, control_episode(1), control_episode(2), control_episode(3), control_episode(4))
    (tmp_path / "splits.json").write_text(json.dumps({"train": [1], "validation": [2], "test": [3]}))
    for number, split in ((1, "train"), (2, "validation"), (3, "test")):
        made, report = read([spec(tmp_path)], split)
        assert {s.task.id for s in made} == {f"androidcontrol/{number}"}
        counts = report.sources[f"androidcontrol:{tmp_path}"]
        assert counts.other_split == 2 and counts.rejected_episodes == {"not in the split file": 1}


@pytest.mark.parametrize(
    "text, told",
    [
        ('{"train": [1, 2], "test": ["2"]}', "leak: split file .* has episode 2 in train and in test"),
        ("[" * 200_000, "cannot be read"),
        ('{"test": [1]}', "must be an object with the lists train, validation, test"),
    ],
)
def test_a_split_file_that_leaks_or_is_none_is_refused(tmp_path, text, told):
    (tmp_path / "splits.json").write_text(text)
    with pytest.raises(ValueError, match=told):
        read_splits(tmp_path / "splits.json")


def test_two_copies_of_a_data_set_must_be_split_alike(tmp_path):
    for folder in ("a", "b"):
        write_control(tmp_path / folder, control_episode(1))
    (tmp_path / "a" / "splits.json").write_text('{"train": [1], "test": []}')
    with pytest.raises(ValueError, match="leak: two androidcontrol sources have different splits"):
        read([spec(tmp_path / "a"), spec(tmp_path / "b")])
    (tmp_path / "b" / "splits.json").write_text('{"train": [1], "test": []}')
    read([spec(tmp_path / "a"), spec(tmp_path / "b")])


def test_what_cannot_be_read_is_refused_at_the_start(tmp_path):
    with pytest.raises(ValueError, match="does not exist"):
        read([spec(tmp_path / "nowhere")])
    (tmp_path / "shard").write_bytes(b"something else altogether")
    with pytest.raises(ValueError, match="has no sample of the split .*shard, record 0"):
        read([spec(tmp_path)])
    write_control(tmp_path, control_episode(KEYS[0], "Save"))  # one sound file is enough; the other is counted
    made, report = read([spec(tmp_path)])
    (fault,) = json.loads(report.to_json())[f"androidcontrol:{tmp_path}"]["faults"]
    assert made and "checksum of the length" in fault
