"""What SFT trains on: demonstrations on the phone, encoded samples, batches and labels."""

import random
from dataclasses import replace

import pytest

from mobilerl.config import Recipe
from mobilerl.envs.base import Tap
from mobilerl.envs.phone.env import PhoneEnv
from mobilerl.envs.phone.tasks import suite
from mobilerl.models import tiny
from mobilerl.models.codec import Codec
from mobilerl.models.loading import load_model
from mobilerl.policy.context import ContextPolicy, make_context
from mobilerl.policy.parsing import parse_response
from mobilerl.sft.batches import IGNORE, collate
from mobilerl.sft.data import SftData
from mobilerl.sft.demonstrations import demonstrations, single_steps
from mobilerl.sft.matching import matches
from mobilerl.sft.samples import Sample, encode_all

CONTEXT = ContextPolicy(screenshots=1, screen_style="marks", grounding="mark", layout="compact")
TASKS = [suite.make_task(name, 0) for name in ("MusicPause", "TodoDue", "ClockAlarmOn")]


@pytest.fixture(scope="module")
def steps():
    return demonstrations(PhoneEnv("sim-0", 180, 360, 0.0), TASKS)


@pytest.fixture(scope="module")
def codec(tmp_path_factory, steps) -> Codec:
    folder = tmp_path_factory.mktemp("tiny")
    texts = [text for s in steps for text in (s.task.instruction, s.screen.render("marks"), s.observation.app)]
    tiny.create(folder, [*texts, "history app tap open finish"], hidden=16, layers=1, heads=1, vision_hidden=16)
    return Codec.load(folder)


def test_a_sample_is_token_exact_and_reads_back_as_the_action(steps, codec):
    for step, sample in zip(steps, encode_all(steps, CONTEXT, codec), strict=True):
        messages, images = step.messages(CONTEXT)
        assert sample.prompt_ids == codec.encode(messages, images) and sample.images == tuple(images)
        assert sample.response_ids[-1] == codec.eos_id and sample.trained is None
        assert len(sample) == len(sample.prompt_ids) + len(sample.response_ids)
        seen = step.observation
        response = parse_response(codec.decode(sample.response_ids), step.screen, "mark", seen.width, seen.height)
        assert matches(response.action, step.action, step.screen) and response.thought == ""


def test_the_chat_layout_shows_the_experts_earlier_responses():
    context = ContextPolicy()
    for task in TASKS:
        steps = demonstrations(PhoneEnv("sim-0", 180, 360, 0.0), [task], context)
        said = [m["content"][0]["text"] for m in steps[-1].messages(context)[0] if m["role"] == "assistant"]
        assert len(said) == len(steps) - 1 > 0
        for step, response in zip(steps, said, strict=False):
            assert matches(context.parse(response, step.screen).action, step.action, step.screen)


def test_single_steps_name_one_element_and_mean_it(steps):
    made = single_steps(steps, random.Random(0))
    assert 0 < len(made) <= len(steps)
    for step in made:
        element = step.screen.at(step.action.x, step.action.y, marked_only=True)
        assert isinstance(step.action, Tap) and step.turns == () and "click" in element.actions
        name = step.task.instruction.removeprefix("tap ")
        assert name == (element.text.split("|")[0] or element.role)
        same = [e for e in step.screen.elements if (e.text.split("|")[0] or e.role) == name]
        assert same == [element], "an instruction that fits two elements teaches to guess"


@pytest.mark.parametrize(("name", "seed"), [("MusicPause", suite.HELD_OUT_SEEDS), ("MusicAddToPlaylist", 0)])
def test_a_held_out_instance_cannot_get_into_the_demonstrations(tmp_path, monkeypatch, name, seed):
    data = SftData(Recipe(phone={"width": 180, "height": 360}), tmp_path, CONTEXT, print)
    leaked = [suite.make_task("TodoDue", 0), suite.make_task(name, seed)]
    monkeypatch.setattr(suite, "train_tasks", lambda *args, **kwargs: leaked)
    with pytest.raises(ValueError, match="leak"):
        _ = data.expert_steps


def test_processes_make_the_same_demonstrations_and_a_purpose_is_said_once(tmp_path):
    made = []
    for processes in (0, 2):
        given = Recipe(
            suite={"type": "generated", "apps": 64},
            agent={
                "layout": "compact",
                "grounding": "mark",
                "screen_style": "marks",
                "screenshots": 0,
                "history_thoughts": True,
            },
            sft={"demos_per_template": 1, "processes": processes},
        )
        context = make_context(given.agent)
        made.append([step.messages(context) for step in SftData(given, tmp_path, context, print).expert_steps])
    assert made[0] == made[1]
    texts = [messages[0]["content"][-1]["text"] for messages, _ in made[0]]
    histories = [text.partition("history:\n")[2].splitlines()[:-1] for text in texts]
    most = max(sum("; " in line for line in history) for history in histories)
    assert most == 3 and all(h == [] or "; " in h[0] for h in histories)


def test_labels_belong_to_the_logits_before_them_and_are_only_what_is_trained(tmp_path):
    tiny.create(tmp_path, ["tap the green button"], hidden=32, layers=2, heads=2, vision_hidden=16)
    model, codec = load_model(tmp_path), Codec.load(tmp_path)
    one = Sample((25, 26, 27), (28, 29), ())
    two = Sample((25,), (26, 27, 28, 29), (), trained=(False, True, False, True))
    inputs = collate([one, two], model, codec)
    assert inputs["input_ids"].tolist() == [[25, 26, 27, 28, 29, 25, 26, 27, 28, 29]]
    assert inputs["logits_to_keep"].tolist() == [2, 3, 6, 8]
    assert inputs["labels"].tolist() == [[28, 29, 27, 29]]
    assert inputs["position_ids"][0].tolist() == [[0, 1, 2, 3, 4, 0, 1, 2, 3, 4]]
    nothing = collate([replace(one, trained=(False, False))], model, codec)
    assert nothing["labels"].tolist() == [[IGNORE]]
