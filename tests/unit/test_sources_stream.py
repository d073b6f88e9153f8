"""Samples of every source for the codec, mixed, split and counted."""

import itertools
import json
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made_groups import make_trajectory
from source_files import (
    CLICK_SAVE,
    control_episode,
    example,
    gesture,
    png,
    wild_step,
    write_control,
    write_tfrecord,
    write_wild,
)

from envs.base import Finish, Tap
from mobilerl import tiny
from mobilerl.agent.actions import parse_reply
from mobilerl.agent.context import ContextPolicy
from mobilerl.engines.codec import Codec
from mobilerl.trajectory_files import save_trajectories
from sft.samples import encode
from sft.sources import aitw, androidcontrol, stream
from sft.sources.report import MOST_REASONS, Counts, Report
from sft.sources.schema import expand, row_of, step_of
from sft.sources.splits import HashedSplits, check_no_leak, read_splits
from sft.sources.stream import SourceSpec, open_sources, rows, steps

CONTEXT = ContextPolicy()
COMPACT = ContextPolicy(screenshots=1, screen_style="marks", grounding="mark", layout="compact")
KEYS = [k for k in range(1, 200) if HashedSplits("androidcontrol").of(str(k)) == "train"]
"""Episodes that a hash leaves to training."""
SMALL = {"image__encoded": [bytes(3 * 4 * 8)], "image__width": [4], "image__height": [8]}
FEW = {
    "screenshots": [png(width=4, height=8)] * 3,
    "screenshot_widths": [4] * 3,
    "screenshot_heights": [8] * 3,
    "actions": [b'{"action_type": "click", "x": 2, "y": 5}', b'{"action_type": "scroll", "direction": "up"}'],
}
TEST_KEY = next(k for k in range(1, 200) if HashedSplits("androidcontrol").of(str(k)) == "test")


@pytest.fixture
def control(tmp_path):
    """Three episodes in two shards."""
    write_control(tmp_path / "control", control_episode(KEYS[0]), control_episode(KEYS[1]))
    write_control(tmp_path / "control", control_episode(KEYS[2]), shard=1)
    return tmp_path / "control"


@pytest.fixture
def wild(tmp_path):
    name = next(f"w{i}" for i in range(99) if HashedSplits("aitw").of(f"w{i}") == "train")
    write_wild(tmp_path / "wild" / "general", wild_step(0, 2, name, **gesture((0.3, 0.5), (0.3, 0.5))),
               wild_step(1, 2, name))  # fmt: skip
    return tmp_path / "wild"


def spec(path, format="androidcontrol", **settings) -> SourceSpec:
    return SourceSpec(format, str(path), **settings)


def read(specs, split="train", context=CONTEXT, **settings):
    report = Report()
    return list(steps(open_sources(specs), split, context, report, **settings)), report


def text_of(message) -> str:
    return "".join(part.get("text", "") for part in message["content"])


# --- samples -----------------------------------------------------------------------------------------------------


def test_samples_of_an_episode(control):
    made, report = read([spec(control)])
    first = [s for s in made if s.task.id == f"androidcontrol/{KEYS[0]}"]
    assert [(s.index, s.level, s.action.kind) for s in first] == [
        (0, "episode", "launch"), (0, "step", "launch"), (1, "episode", "tap"), (1, "step", "tap"),
        (2, "episode", "finish"),
    ]  # fmt: skip
    messages, images = first[4].messages(CONTEXT)
    # Both actions in the history, as replies; the last screenshot but one is shown again, the first is not kept.
    assert [text_of(m) for m in messages if m["role"] == "assistant"] == [
        '<answer>do(action="Launch", app="Notes")</answer>',
        '<answer>do(action="Tap", element=[130,749,870,916])</answer>',
    ]
    assert images == [png(10), png(20)]
    assert [bool(t.observation.screenshot) for t in first[4].turns] == [False, True]
    assert "Button;click;Save;[130,749,870,916]" in text_of(messages[-1])
    alone, _ = first[3].messages(CONTEXT)
    assert first[3].turns == () and f"Do step 1 of {KEYS[0]}" in text_of(alone[-1])
    assert report.as_dict()[f"androidcontrol:{control}"]["steps"]["kept"] == 15


def test_instructions_for_single_steps_can_be_left_out(control):
    made, _ = read([spec(control, low_level=False)])
    assert {s.level for s in made} == {"episode"} and len(made) == 9


def test_without_a_list_of_elements_the_prompt_has_no_screen_text(wild):
    (tap, done), _ = read([spec(wild, "aitw")])
    messages, _ = tap.messages(CONTEXT)
    assert text_of(messages[-1]).endswith('{"current_app": "com.android.settings"}')
    assert "could not be read" not in text_of(messages[-1]) and "Network" not in text_of(messages[-1])
    assert tap.reply(CONTEXT) == '<answer>do(action="Tap", element=[102,250,897,350])</answer>'
    assert done.turns[0].summary == "tap Network & internet"


def test_every_reply_is_read_back_as_its_action(control, wild):
    for grounding in ("box", "point"):
        context = ContextPolicy(grounding=grounding)
        made, _ = read([spec(control), spec(wild, "aitw")], context=context)
        for step in made:
            written = step.reply(context)
            action = parse_reply(
                written, step.screen, grounding, step.observation.width, step.observation.height
            ).action
            assert action.kind == step.action.kind
            if isinstance(action, Tap):
                assert step.screen.at(action.x, action.y) is step.screen.at(step.action.x, step.action.y)


def test_the_codec_takes_samples_of_all_sources(tmp_path, control):
    tiny.create(tmp_path / "tiny", ["Save the note My notes Title app history finish"], hidden=16, layers=1, heads=1,
                vision_hidden=16)  # fmt: skip
    codec = Codec.load(tmp_path / "tiny")
    made, _ = read([spec(control)], context=COMPACT)
    sample = encode(next(s for s in made if s.action.kind == "tap"), COMPACT, codec)
    assert len(sample.images) == 1 and len(sample.prompt_ids) > 10
    assert "<2>" in codec.decode(sample.response_ids)  # Save is the second element that can be acted on


def test_mark_grounding_needs_a_list(wild, control):
    with pytest.raises(ValueError, match="gives no sample of the split 'train': no list of screen elements"):
        read([spec(wild, "aitw")], context=COMPACT)
    off = control_episode(KEYS[3], actions=[{"action_type": "click", "x": 1, "y": 239}, CLICK_SAVE])
    write_control(control, off, shard=2)
    made, report = read([spec(control)], context=COMPACT)
    assert report.sources[f"androidcontrol:{control}"].rejected_steps == {"no mark means what was touched": 1}
    tap = next(s for s in made if s.task.id.endswith(f"/{KEYS[3]}") and s.level == "episode")
    assert tap.index == 1 and tap.turns[0].summary == "tap nothing"


def test_rows_give_back_the_samples(control):
    made, _ = read([spec(control)])
    for step in made:
        assert step_of(row_of(step)) == step
    streamed = list(rows(open_sources([spec(control)]), "train", CONTEXT, Report()))
    assert [step_of(row) for row in streamed] == made


# --- mixing ------------------------------------------------------------------------------------------------------


def test_sources_are_mixed_by_weight_and_seed(tmp_path):
    for folder in ("a", "b"):
        write_control(tmp_path / folder, *(control_episode(k, actions=[CLICK_SAVE] * 9) for k in KEYS[:8]))
    specs = [spec(tmp_path / "a", weight=3.0, low_level=False), spec(tmp_path / "b", weight=1.0, low_level=False)]
    made, report = read(specs, seed=1)
    drawn = Counter(s.source for s in made)
    assert drawn[specs[0].name] / len(made) == pytest.approx(0.75, abs=0.08)
    assert drawn[specs[0].name] >= 80 and drawn[specs[1].name] == 80  # both to their end, the heavy one repeated
    assert {counts.steps for counts in report.sources.values()} == {80}  # what is repeated is not counted again

    def order(seed, buffer=0):
        return [(s.source, s.task.id, s.index) for s in read(specs, seed=seed, buffer=buffer)[0]]

    assert order(1) == [(s.source, s.task.id, s.index) for s in made] != order(2)
    assert order(1, buffer=50) == order(1, buffer=50) != order(1)


def test_the_stream_is_lazy(control):
    made = steps(open_sources([spec(control)]), "train", CONTEXT, report := Report())
    list(itertools.islice(made, 2))
    assert report.sources[f"androidcontrol:{control}"].files == 0


# --- splits ------------------------------------------------------------------------------------------------------


def test_a_hash_keeps_episodes_for_testing(tmp_path):
    write_control(tmp_path, control_episode(KEYS[0]), control_episode(TEST_KEY))
    train, report = read([spec(tmp_path)])
    test, _ = read([spec(tmp_path)], "test")
    assert {s.task.id for s in train} == {f"androidcontrol/{KEYS[0]}"}
    assert {s.task.id for s in test} == {f"androidcontrol/{TEST_KEY}"}
    assert report.sources[f"androidcontrol:{tmp_path}"].other_split == 1
    check_no_leak(train, test)
    with pytest.raises(ValueError, match=f"leak: episode androidcontrol/{TEST_KEY}"):
        check_no_leak([*train, *test], test)


def test_the_share_of_a_hash_is_what_was_asked_for():
    rule = HashedSplits("aitw", 0.05)
    found = Counter(rule.of(str(i)) for i in range(20_000))
    assert found["test"] / 20_000 == pytest.approx(0.05, abs=0.006)
    assert any(HashedSplits("androidcontrol", 0.05).of(str(i)) != rule.of(str(i)) for i in range(100))


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
        ('{"train": 1}', "train must be a list"),
        ('{"test": [1]}', "must be an object with the lists train, validation, test"),
        ("[]", "must be an object"),
        ("{", "cannot be read"),
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
    with pytest.raises(ValueError, match="leak: two androidcontrol sources are split by different rules"):
        open_sources([spec(tmp_path / "a"), spec(tmp_path / "b")])
    open_sources([spec(tmp_path / "a"), spec(tmp_path / "b", splits=str(tmp_path / "a" / "splits.json"))])


# --- refusals and the report -------------------------------------------------------------------------------------


def test_what_cannot_be_read_is_refused_at_the_start(tmp_path):
    with pytest.raises(ValueError, match="does not exist"):
        open_sources([spec(tmp_path / "nowhere")])
    with pytest.raises(ValueError, match="no files in"):
        open_sources([spec(tmp_path)])
    (tmp_path / "shard").write_bytes(b"something else altogether")
    with pytest.raises(ValueError, match="nothing in .* can be read: androidcontrol: .*shard, record 0"):
        open_sources([spec(tmp_path)])
    with pytest.raises(ValueError, match="there are no sources"):
        open_sources([])
    write_control(tmp_path, control_episode(KEYS[0], "Save"))  # one sound file is enough; the other is counted
    made, report = read([spec(tmp_path)])
    told = report.as_dict()[f"androidcontrol:{tmp_path}"]["files"]
    assert made and told["read"] == 1 and told["faulty"] == 1 and "check sum of the length" in told["faults"][0]
    (tmp_path / "shard").unlink()
    with pytest.raises(ValueError, match="gives no sample of the split 'test' .it has no episode there, and 1 of"):
        read([spec(tmp_path)], "test")


def test_a_source_of_nothing_but_rejects_is_not_read_to_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr(stream, "TRIED", 3)
    write_control(tmp_path, *(control_episode(k, " ") for k in KEYS[:6]), control_episode(KEYS[6]))
    with pytest.raises(ValueError, match="gives no sample of the split 'train': goal is empty"):
        open_sources([spec(tmp_path)])[0].check_usable("train", CONTEXT)


def test_a_wrong_split_file_is_told_before_all_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(stream, "TRIED", 3)
    write_control(tmp_path, *(control_episode(k) for k in range(1, 6)))
    (tmp_path / "splits.json").write_text('{"train": [5], "test": [1, 2]}')
    open_sources([spec(tmp_path)])[0].check_usable("train", CONTEXT)  # any few of these may come first
    monkeypatch.setattr(stream, "PASSED_OVER", 4)
    with pytest.raises(ValueError, match="gives no sample of the split 'train': not in the split file"):
        open_sources([spec(tmp_path)])[0].check_usable("train", CONTEXT)


def test_a_run_that_failed_at_first_is_a_source(tmp_path, monkeypatch):
    monkeypatch.setattr(stream, "TRIED", 3)
    save_trajectories(tmp_path, 1, [make_trajectory(f"t{i}", float(i == 5), 2) for i in range(6)])
    open_sources([spec(tmp_path, "trajectories")])[0].check_usable("train", CONTEXT)


def test_a_hash_gives_no_validation(control, monkeypatch):
    monkeypatch.setattr(androidcontrol, "read", None)
    with pytest.raises(ValueError, match="split by a hash, which gives no validation; name a split file"):
        open_sources([spec(control)])[0].check_usable("validation", CONTEXT)


@pytest.mark.parametrize("wrong", [{"format": "rico"}, {"weight": 0.0}, {"weight": float("nan")}])
def test_settings_that_cannot_be_are_refused(wrong):
    with pytest.raises(ValueError, match="sft.sources"):
        SourceSpec(**{"format": "aitw", "path": "x", **wrong})


def test_the_report_says_what_became_of_everything(tmp_path):
    shake = control_episode(KEYS[1], actions=[CLICK_SAVE, {"action_type": "shake"}, CLICK_SAVE, CLICK_SAVE])
    bad = control_episode(KEYS[2], screenshots=[b"x"] * 3)
    write_control(tmp_path, control_episode(KEYS[0]), shake, bad, control_episode(KEYS[3], " "))
    _, report = read([spec(tmp_path, low_level=False)])
    name = f"androidcontrol:{tmp_path}"
    assert json.loads(report.to_json())[name] == {
        "episodes": {"kept": 2, "other_split": 0, "rejected": 2,
                     "reasons": {"goal is empty": 1, "no step could be used": 1}},
        "steps": {"kept": 4, "rejected": 7, "reasons": {
            "follows a step that could not be converted": 5, "unknown action type 'shake'": 1,
            "screenshot does not decode": 1}, "notes": {}},
        "files": {"read": 1, "faulty": 0, "faults": []},
    }  # fmt: skip
    told = str(report)
    assert f"{name}: 4 steps of 2 episodes kept; 7 steps and 2 episodes rejected" in told
    assert "  1 steps: screenshot does not decode" in told


def test_reasons_that_quote_damaged_files_do_not_pile_up():
    counts = Counts()
    for number in range(10 * MOST_REASONS):
        counts.reject_steps(f"unknown action type {number}")
    assert len(counts.rejected_steps) == MOST_REASONS + 1
    assert counts.rejected_steps["other reasons"] == 9 * MOST_REASONS


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_no_damage_inside_a_record_stops_the_stream(tmp_path, data):
    """What is damaged here has sound check sums: a writer's mistakes, not the disk's."""
    wild = data.draw(st.booleans())
    record = example(wild_step(episode="w1", **SMALL) if wild else control_episode(KEYS[0], **FEW))
    record = bytearray(record[: data.draw(st.one_of(st.just(len(record)), st.integers(0, len(record))))])
    for _ in range(data.draw(st.integers(0, 4))):
        if record:
            record[data.draw(st.integers(0, len(record) - 1))] = data.draw(st.integers(0, 255))
    path = write_tfrecord(tmp_path / "shard", [bytes(record)], packed=False)
    reader, counts = (aitw if wild else androidcontrol), Counts()
    for demo in reader.read(path, lambda key, split="": True, counts):
        for sample in expand(demo, "s", "train", CONTEXT, True, counts):
            row_of(sample)
            sample.messages(CONTEXT)
            sample.reply(CONTEXT)
    assert counts.files == 1
    assert counts.steps or counts.rejected_episodes


def test_our_own_runs_are_a_source(tmp_path):
    run = tmp_path / "run"
    good = make_trajectory("a", 1.0, 2, screenshot=png(width=100, height=200))
    save_trajectories(run, 1, [good, make_trajectory("b", 0.0, 2)])
    made, report = read([spec(run, "trajectories")])
    tapped = '<think>thought</think><answer>do(action="Tap", element=[1,2,1,2])</answer>'
    assert [(s.action, s.turns[:1] and s.turns[0].response) for s in made] == [(Tap(1, 2), ()), (Tap(1, 2), tapped)]
    assert made[0].task == good.task and made[0].listed
    assert report.sources[f"trajectories:{run}"].rejected_episodes == {"not successful": 1}


def test_history_is_as_long_as_the_context_shows(control):
    for shown, kept in ((0, 0), (1, 0), (2, 1), (3, 2)):
        made, _ = read([spec(control, low_level=False)], context=replace(CONTEXT, screenshots=shown))
        last = next(s for s in made if isinstance(s.action, Finish))
        assert sum(bool(t.observation.screenshot) for t in last.turns) == kept
        assert len(last.messages(replace(CONTEXT, screenshots=shown))[1]) == min(shown, 3)
