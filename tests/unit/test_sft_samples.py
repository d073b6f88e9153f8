"""What the warm-up trains on: demonstrations on the phone, encoded samples, batches and labels."""

import asyncio
import random
from collections import Counter
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from envs.base import InfraError, Tap
from envs.phone.env import PhoneEnv
from envs.phone.tasks import suite
from envs.phone.tasks.music import MusicPause
from mobilerl import tiny
from mobilerl.agent.actions import parse_reply
from mobilerl.agent.context import ContextPolicy
from mobilerl.config import Recipe
from mobilerl.engines.codec import Codec
from sft.data import Data, undisturbed_phone
from sft.demonstrations import demonstrate, demonstrations, single_steps
from sft.reasoning import same_action
from sft.samples import Sample, encode, encode_all
from sft.trainer import IGNORE, LengthBatches, collate

CONTEXT = ContextPolicy(screenshots=1, screen_style="marks", grounding="mark", layout="compact")
TASKS = [suite.make_task(name, 0) for name in ("MusicPause", "TodoDue", "ClockAlarmOn")]


@pytest.fixture(scope="module")
def phone() -> PhoneEnv:
    return PhoneEnv("sim-0", 180, 360, 0.0)


@pytest.fixture(scope="module")
def steps(phone):
    return demonstrations(phone, TASKS)


@pytest.fixture(scope="module")
def codec(tmp_path_factory, steps) -> Codec:
    folder = tmp_path_factory.mktemp("tiny")
    texts = [text for s in steps for text in (s.task.instruction, s.screen.render("marks"), s.observation.app)]
    tiny.create(folder, [*texts, "history app tap open finish"], hidden=16, layers=1, heads=1, vision_hidden=16)
    return Codec.load(folder)


def test_demonstrations_are_the_experts_shortest_paths(steps):
    kinds = [s.action.kind for s in steps if s.task.template == "MusicPause"]
    assert kinds == ["launch", "tap", "finish"]
    for step in steps:  # each step knows the ones before it, and nothing after
        assert len(step.turns) == step.observation.step


def test_an_expert_that_fails_teaches_nothing(phone, monkeypatch):
    monkeypatch.setattr(MusicPause, "check", lambda self, phone, answer: False)
    with pytest.raises(InfraError, match="the expert failed sim/MusicPause/0"):
        asyncio.run(demonstrate(phone, TASKS[0]))


def test_a_sample_is_token_exact_and_reads_back_as_the_action(steps, codec):
    for step, sample in zip(steps, encode_all(steps, CONTEXT, codec), strict=True):
        messages, images = step.messages(CONTEXT)
        assert sample.prompt_ids == codec.encode(messages, images) and sample.images == tuple(images)
        assert sample.response_ids[-1] == codec.eos_id and sample.trained is None
        assert len(sample) == len(sample.prompt_ids) + len(sample.response_ids)
        seen = step.observation
        reply = parse_reply(codec.decode(sample.response_ids), step.screen, "mark", seen.width, seen.height)
        assert same_action(reply.action, step.action, step.screen) and reply.thought == ""


def test_equal_pictures_of_samples_are_one_object(steps, codec):
    copies = [replace(s, observation=replace(s.observation, screenshot=bytes(bytearray(s.observation.screenshot))))
              for s in (steps[0], steps[0])]  # fmt: skip
    first, second = encode_all(iter(copies), CONTEXT, codec)
    assert first.images[0] is second.images[0] and first.images == (steps[0].observation.screenshot,)


def test_a_thought_comes_before_the_same_action(steps, codec):
    sample = encode(steps[0], CONTEXT, codec, "open Music")
    text = codec.decode(sample.response_ids)
    assert text.startswith("<think>open Music</think>")
    assert parse_reply(text, steps[0].screen, "mark", 180, 360).action == steps[0].action


def test_single_steps_name_one_element_and_mean_it(steps):
    made = single_steps(steps, 2, random.Random(0))
    assert len(steps) < len(made) <= 2 * len(steps)
    for step in made:
        element = step.screen.at(step.action.x, step.action.y, marked_only=True)
        assert isinstance(step.action, Tap) and step.turns == () and "click" in element.actions
        name = step.task.instruction.removeprefix("tap ")
        assert name == (element.text.split("|")[0] or element.role)
        same = [e for e in step.screen.elements if (e.text.split("|")[0] or e.role) == name]
        assert same == [element], "an instruction that fits two elements teaches to guess"
    assert [s.action for s in made] == [s.action for s in single_steps(steps, 2, random.Random(0))]


# --- the leak guard ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "seed"),
    [("MusicPause", suite.HELD_OUT_SEEDS), ("MusicAddToPlaylist", 0)],
)
def test_a_held_out_instance_cannot_get_into_the_demonstrations(tmp_path, monkeypatch, name, seed):
    data = Data(Recipe(phone={"width": 180, "height": 360}), tmp_path, CONTEXT, print)
    leaked = [suite.make_task("TodoDue", 0), suite.make_task(name, seed)]
    monkeypatch.setattr(suite, "train_tasks", lambda *args, **kwargs: leaked)
    with pytest.raises(ValueError, match="leak"):
        data.expert_steps()


def test_demonstrations_show_only_templates_meant_for_it(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr("sft.data.demonstrations", lambda phone, tasks: asked.extend(tasks) or [])
    recipe = Recipe(sft={"demos_per_template": 2})
    Data(recipe, tmp_path, CONTEXT, print).expert_steps()
    assert Counter(t.template for t in asked) == {t.__name__: 2 for t in suite.templates("train", demo=True)}
    assert not any(suite.held_out(t.template, dict(t.params)) for t in asked)


@pytest.mark.parametrize(("rate", "disturbed"), [(1.0, True), (0.0, False)])
def test_a_popup_costs_the_expert_a_step(rate, disturbed):
    phone = PhoneEnv("sim-0", 180, 360, rate)
    lengths = [len(demonstrations(phone, [suite.make_task("NotesDelete", seed)])) for seed in range(4)]
    assert (min(lengths) > 5) is disturbed


def test_recorded_demonstrations_show_no_popups():
    phone = undisturbed_phone(Recipe(phone={"popup_rate": 1.0, "width": 180, "height": 360}))
    assert [len(demonstrations(phone, [suite.make_task("MusicPause", seed)])) for seed in range(4)] == [3] * 4


# --- batches -----------------------------------------------------------------------------------------------------


@given(lengths=st.lists(st.integers(1, 99), min_size=1, max_size=200), size=st.integers(1, 9), seed=st.integers(0, 99))
def test_every_sample_comes_once_per_epoch(lengths, size, seed):
    batches = LengthBatches(lengths, size, seed)
    epochs = [list(batches) for _ in range(2)]
    for epoch in epochs:
        assert sorted(i for batch in epoch for i in batch) == list(range(len(lengths)))
        assert len(epoch) == len(batches) and all(len(batch) <= size for batch in epoch)
    again = LengthBatches(lengths, size, seed)
    assert [list(again) for _ in range(2)] == epochs


def test_batches_hold_samples_of_similar_length():
    rng = random.Random(0)
    lengths = [rng.randrange(10, 300) for _ in range(320)]
    padded = sum(len(b) * max(lengths[i] for i in b) for b in LengthBatches(lengths, 20, 0))
    assert padded < 1.15 * sum(lengths)


def test_no_samples_is_said_at_once():
    with pytest.raises(ValueError, match="no samples"):
        LengthBatches([], 4, 0)


def test_labels_are_the_replies_at_the_right_edge_and_only_what_is_trained(codec):
    one = Sample((5, 6, 7), (8, 9), ())
    two = Sample((5,), (6, 7, 8, 9), (), trained=(False, True, False, True))
    inputs = collate([one, two], codec)
    x = IGNORE
    assert inputs["labels"].tolist() == [[x, x, 8, 9], [x, 7, x, 9]]
    assert inputs["input_ids"].tolist() == [[5, 6, 7, 8, 9], [5, 6, 7, 8, 9]]
    short = collate([replace(one, prompt_ids=(5,)), two], codec)
    assert short["input_ids"].tolist()[0] == [codec.pad_id, codec.pad_id, 5, 8, 9]
    assert torch.equal(short["attention_mask"][0], torch.tensor([0, 0, 1, 1, 1]))
