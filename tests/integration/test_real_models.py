"""Qwen2.5-VL, Qwen3-VL, Qwen3.5 and GLM-4.1V by their real classes and image processors, at a few thousand weights.

Nothing here is downloaded: `model_families` makes folders in the shape in which the families are published.
"""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from model_checks import as_of_transformers_4, fingerprint, largest_difference
from PIL import Image

from mobilerl.algorithms.losses import clipped_policy_loss
from mobilerl.benchmarks.model_families import FAMILIES, Family, create, png, tokenizer_of
from mobilerl.config import ConfigError
from mobilerl.engines.local import LocalEngine, LocalSettings
from mobilerl.envs.phone.env import PhoneEnv
from mobilerl.envs.phone.tasks import suite
from mobilerl.inference.vllm_weights import checkpoint_weights
from mobilerl.models.codec import Codec
from mobilerl.models.loading import load_model
from mobilerl.policy.context import ContextPolicy
from mobilerl.policy.prompts import DEFAULT_SYSTEM_PROMPTS
from mobilerl.records import MicroBatch, TrainingSample
from mobilerl.records.engine import Request, Sampling
from mobilerl.sft.demonstrations import demonstrations
from mobilerl.sft.samples import ExpertStep, Sample
from mobilerl.sft.trainer import TrainingJob, train

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread")]
CHAT = ContextPolicy()
SMALL = 28 * 28 * 24
"""Pixels: enough to tell screens of different sizes apart, and quick."""


@pytest.fixture(scope="module")
def steps() -> list[ExpertStep]:
    """Demonstrations on a phone with the proportions of a real one."""
    tasks = [suite.make_task(name, suite.HELD_OUT_SEEDS) for name in ("TodoDue", "MapsNoteDistance")]
    return demonstrations(PhoneEnv("sim-0", 270, 600, 0.0), tasks)


@pytest.fixture(scope="module", params=FAMILIES)
def family(request) -> Family:
    return FAMILIES[request.param]


@pytest.fixture(scope="module")
def corpus(steps) -> list[str]:
    return [DEFAULT_SYSTEM_PROMPTS["box"], *(s.screen.render("mobilerl") for s in steps)]


@pytest.fixture(scope="module")
def folder(family, corpus, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp(family.name)
    create(family, path, corpus)
    return path


@pytest.fixture(scope="module")
def engine(folder) -> LocalEngine:
    """For tests that change no weights."""
    return LocalEngine(folder, LocalSettings(max_pixels=SMALL))


def asked(codec: Codec, texts: list[str], temperature: float = 1.0, tokens: int = 8) -> list[Request]:
    """Prompts of different lengths, with 0, 1 or 2 screens of different sizes."""
    made = []
    for i, text in enumerate(texts):
        images = tuple(png(120 + 90 * i, 400 + 50 * j, i + j) for j in range(i % 3))
        content = [{"type": "image"}] * len(images) + [{"type": "text", "text": text}]
        system = {"role": "system", "content": [{"type": "text", "text": "Tap."}]}
        prompt = codec.encode([system, {"role": "user", "content": content}], images)
        made.append(Request(prompt, images, Sampling(temperature, tokens)))
    return made


TEXTS = ["Open Settings", "Turn on Wi-Fi, then go back to the home screen", "Tap the clock", "x", "What is the time?"]


def rows_of(engine: LocalEngine, temperature: float = 1.0, seed: int = 0) -> list[TrainingSample]:
    torch.manual_seed(seed)
    requests = asked(engine.codec, TEXTS, temperature)
    done = engine.generate(requests)
    return [
        TrainingSample(f"t{i}", 0, c.prompt_ids, c.token_ids, c.logprobs, r.images, 0)
        for i, (r, c) in enumerate(zip(requests, done, strict=True))
    ]


# --- images ----------------------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(8, 700), st.integers(8, 700), st.sampled_from((None, 3_000, 30_000, 300_000)))
def test_images_are_what_the_image_processor_makes_of_them(folder, width, height, max_pixels):
    assume(max(width, height) / min(width, height) < 100)
    codec = Codec.load(folder, max_pixels)
    processor, shot = codec.image_processor, png(width, height)
    pixels, grid = codec.pixels(shot)
    rows, columns = (side // processor.patch_size for side in codec.images.size_seen(width, height))
    assert grid.tolist() == [1, rows, columns]
    # What the family's own processor makes of the image, after the box reduction that is ours.
    small = Image.open(io.BytesIO(shot)).convert("RGB")
    if max_pixels and (factor := int((width * height / max_pixels) ** 0.5)) > 1:
        small = small.reduce(factor)
    limits = codec.images.limits()
    own = processor(images=[small], return_tensors="np", **({"size": limits} if limits else {}))
    assert own["image_grid_thw"].tolist() == [grid.tolist()]
    # It resizes with Pillow, we with torch, which rounds some pixels differently; all else is equal.
    assert abs(pixels - own["pixel_values"]).mean() < 0.01
    seen = processor(images=[codec.images.scale(shot)], do_resize=False, return_tensors="np")
    np.testing.assert_allclose(pixels, seen["pixel_values"], atol=1e-6)


@pytest.mark.parametrize(
    ("size", "max_pixels"), [((61, 90), None), ((1080, 2400), 500_000), ((2400, 1080), 100_000), ((1080, 2400), 20_000)]
)
def test_a_prompt_has_as_many_placeholders_as_the_vision_tower_gives_features(family, folder, size, max_pixels):
    codec = Codec.load(folder, max_pixels)
    images = [png(*size), png(270, 600, 1)]
    content = [{"type": "image"}, {"type": "text", "text": "before"}, {"type": "image"}, {"type": "text", "text": "."}]
    ids = codec.encode([{"role": "user", "content": content}], images)
    inputs = codec.collate([ids], [images], pad_left=True)
    model = load_model(folder).eval()
    with torch.no_grad():
        features = model.model.get_image_features(inputs["pixel_values"], inputs["image_grid_thw"]).pooler_output
    first, second = (len(f) for f in features)
    begins = [i for i, token in enumerate(ids) if token == codec.image_token_id and ids[i - 1] != token]
    runs = [ids[begins[0] : begins[1]].count(codec.image_token_id), ids[begins[1] :].count(codec.image_token_id)]
    assert runs == [first, second]
    if max_pixels:
        assert max(runs) * family.factor**2 <= max_pixels
        # The cap is made use of: of a screen that is larger, no more than rows and columns of a patch are lost.
        side = max_pixels**0.5
        assert first * family.factor**2 >= (side - 2 * family.factor) ** 2
    with torch.no_grad():
        assert model(**inputs).logits.shape == (1, len(ids), len(codec.tokenizer))


# --- sampling and scoring ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_the_trainer_sees_the_log_probabilities_of_the_rollout(folder, temperature):
    """Whatever generation_config.json asks for, of which every family publishes something."""
    engine = LocalEngine(folder, LocalSettings(temperature=temperature, max_pixels=SMALL))
    rows = rows_of(engine, temperature)
    assert {len(r.images) for r in rows} == {0, 1, 2}
    assert largest_difference(engine.logprobs(rows), [r.rollout_logprobs for r in rows]) <= 1e-4
    assert min(min(r.rollout_logprobs) for r in rows) < -1.0


def test_every_end_token_of_the_family_ends_a_response(family, folder):
    engine = LocalEngine(folder, LocalSettings(max_pixels=SMALL))
    head = engine.model.get_output_embeddings()
    for token in family.ends:
        end = engine.codec.tokenizer.convert_tokens_to_ids(token)
        head.bias = torch.nn.Parameter(50.0 * (torch.arange(head.weight.shape[0]) == end))
        (done,) = engine.generate(asked(engine.codec, TEXTS[:1], tokens=5))
        assert done.token_ids == (end,) and done.text == ""


def test_a_folder_written_by_transformers_4_is_the_same_model(folder, engine, tmp_path):
    """All that is published is; its config.json has other fields."""
    older = tmp_path / "copy"
    shutil.copytree(folder, older)
    as_of_transformers_4(older)
    again = LocalEngine(older, LocalSettings(max_pixels=SMALL))
    rows = rows_of(engine)
    assert again.logprobs(rows) == engine.logprobs(rows)
    again.save(tmp_path)
    assert LocalEngine(tmp_path, LocalSettings(max_pixels=SMALL)).logprobs(rows) == engine.logprobs(rows)


def test_glm_4_6v_flash_is_glm_4_1v_with_another_image_processor(tmp_path):
    """So it is published: model type glm4v, and the image processor of GLM-4.6V."""
    create(FAMILIES["GLM-4.1V"], tmp_path, TEXTS)
    edit("preprocessor_config.json", image_processor_type="Glm46VImageProcessor")(tmp_path)
    engine = LocalEngine(tmp_path, LocalSettings(max_pixels=SMALL))
    assert type(engine.codec.image_processor).__name__ == "Glm46VImageProcessorPil"
    assert type(engine.model).__name__ == "Glm4vForConditionalGeneration"
    rows = rows_of(engine)
    assert largest_difference(engine.logprobs(rows), [r.rollout_logprobs for r in rows]) <= 1e-4


# --- learning ----------------------------------------------------------------------------------------------------


def policy_loss(micro: MicroBatch):
    return clipped_policy_loss(micro.logp, micro.old_logp, micro.advantage, micro.mask, weights=micro.weights)


def test_an_update_changes_weights_and_a_saved_folder_is_the_model(family, folder, tmp_path):
    engine = LocalEngine(folder, LocalSettings(learning_rate=1e-3, max_pixels=SMALL))
    rows = rows_of(engine)
    before, text, vision = fingerprint(engine.model), *parts(engine.model)
    metrics = engine.update(
        [replace(r, advantage=a) for r, a in zip(rows, [1.0, -1.0, 1.0, -1.0, 1.0], strict=True)],
        policy_loss,
        "token-mean",
    )
    assert metrics["grad_norm"] > 0 and fingerprint(engine.model) != before
    assert all(old != new for old, new in zip((text, vision), parts(engine.model), strict=True))

    engine.save(tmp_path)
    again = LocalEngine(tmp_path, LocalSettings(learning_rate=1e-3, max_pixels=SMALL))
    assert fingerprint(again.model) == fingerprint(engine.model)
    assert again.logprobs(rows) == engine.logprobs(rows)
    assert (again.codec.end_ids, again.codec.banned_ids) == (engine.codec.end_ids, engine.codec.banned_ids)
    assert rows_of(again) == rows_of(engine)
    again.load(tmp_path)
    assert again.steps == 1


@pytest.mark.parametrize("lora_rank", [0, 4])
def test_a_resumed_engine_equals_one_that_was_never_stopped(folder, tmp_path, lora_rank):
    settings = LocalSettings(
        learning_rate=1e-2, warmup_steps=0, max_pixels=SMALL, lora_rank=lora_rank, gradient_checkpointing=True
    )
    engine = LocalEngine(folder, settings)
    rows = [replace(r, advantage=1.0 - 2 * (i % 2)) for i, r in enumerate(rows_of(engine))]
    engine.update(rows, policy_loss, "token-mean")
    engine.save(tmp_path / "saved")
    resumed = LocalEngine(folder, settings)
    resumed.load(tmp_path / "saved")
    again = LocalEngine(tmp_path / "saved", settings)  # as another run, or an evaluation, loads it
    assert again.logprobs(rows) == resumed.logprobs(rows) == engine.logprobs(rows)
    assert resumed.update(rows, policy_loss, "token-mean") == engine.update(rows, policy_loss, "token-mean")
    assert fingerprint(resumed.model) == fingerprint(engine.model) and rows_of(resumed) == rows_of(engine)
    if lora_rank:
        base = load_model(folder)
        base.load_state_dict(dict(checkpoint_weights(again.model)))
        merged = LocalEngine(folder, LocalSettings(max_pixels=SMALL), base)
        assert largest_difference(merged.logprobs(rows), again.logprobs(rows)) < 1e-4


@pytest.mark.parametrize("lora_rank", [0, 4])
def test_a_frozen_vision_tower_is_not_trained(folder, lora_rank):
    more = {"lora_rank": 4} if lora_rank else {"freeze_vision": True}
    engine = LocalEngine(folder, LocalSettings(learning_rate=1e-3, max_pixels=SMALL, **more))
    model = engine.model.get_base_model() if lora_rank else engine.model
    tower = list(model.model.visual.parameters())
    rows, vision = rows_of(engine), parts(model)[1]
    before = engine.logprobs(rows)
    engine.update([replace(r, advantage=1.0 - 2 * (i % 2)) for i, r in enumerate(rows)], policy_loss, "token-mean")
    assert parts(model)[1] == vision and engine.logprobs(rows) != before
    assert tower and not any(p.requires_grad for p in tower)
    learned = {id(p) for group in engine.optimizer.param_groups for p in group["params"]}
    assert learned and learned.isdisjoint(map(id, tower))


@pytest.mark.parametrize("frozen", [False, True])
def test_sft_trains_the_vision_tower_unless_it_is_frozen(folder, engine, tmp_path, frozen):
    samples = [Sample(r.prompt_ids, r.response_ids, r.images) for r in rows_of(engine)]
    job = TrainingJob(str(folder), 1.0, len(samples), 1e-2, max_pixels=SMALL, freeze_vision=frozen, log_every=1)
    before = parts(load_model(folder, learns=True))
    trainer = train(job, engine.codec, samples, tmp_path)
    (text, vision), tower = parts(trainer.model), list(trainer.model.model.visual.parameters())
    assert text != before[0] and (vision == before[1]) is frozen
    learned = {id(p) for group in trainer.optimizer.param_groups for p in group["params"]}
    assert {id(p) in learned for p in tower} == {not frozen} == {p.requires_grad for p in tower}


def parts(model: torch.nn.Module) -> tuple[str, str]:
    return fingerprint(model.model.language_model), fingerprint(model.model.visual)


# --- MobileRL's format -------------------------------------------------------------------------------------------


def test_the_chat_layout_is_the_familys(family, engine, steps):
    """Roles, images and texts stand where the family's template puts them, and nothing else does."""
    step = max(steps, key=lambda s: len(s.turns))
    assert len(step.turns) >= 2
    messages, images = step.messages(CHAT)
    assert len(images) == 2
    ids = engine.codec.encode(messages, images)
    codec, one = engine.codec, engine.codec.tokenizer.convert_tokens_to_ids(family.image)
    text = codec.tokenizer.decode([t for i, t in enumerate(ids) if t != one or ids[i - 1] != one])
    told = []
    for message in messages:
        told += [part["text"] if part["type"] == "text" else family.image for part in message["content"]]
    at = 0
    for piece in told:
        assert piece in text[at:], piece[:60]
        at = text.index(piece, at) + len(piece)
    assert "'type'" not in text and text.endswith(family.assistant_opens)
    assert text.count(family.user_opens) == sum(m["role"] == "user" for m in messages)
    assert text.count(family.image) == 2
    assert "relative bounds" in text or step.screen.render("mobilerl") in text


# --- mixed folders -----------------------------------------------------------------------------------------------


def edit(name: str, **values: object) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder / name
        path.write_text(json.dumps(json.loads(path.read_text()) | values))

    return change


BROKEN = {
    "patch size": (edit("preprocessor_config.json", patch_size=8), "patch_size is 8"),
    "placeholder": (edit("config.json", image_token_id=3), "writes 0 placeholders"),
    "template": (lambda folder: (folder / "chat_template.jinja").unlink(), "no chat template"),
    "processor": (lambda folder: (folder / "preprocessor_config.json").unlink(), "holds no preprocessor_config.json"),
    "damage": (lambda folder: (folder / "preprocessor_config.json").write_text("{"), "cannot be read"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_parts_that_do_not_belong_together_are_refused(folder, tmp_path, kind):
    broken = shutil.copytree(folder, tmp_path / "copy")
    change, says = BROKEN[kind]
    change(broken)
    with pytest.raises(ConfigError) as error:
        Codec.load(broken)
    said = str(error.value)
    assert says in said and str(broken) in said and "\n" not in said


def test_a_tokenizer_of_another_family_is_refused(family, folder, corpus, tmp_path):
    other = FAMILIES["GLM-4.1V" if family.name != "GLM-4.1V" else "Qwen3-VL"]
    broken = shutil.copytree(folder, tmp_path / "copy")
    tokenizer_of(other, corpus, size=650).save_pretrained(broken)
    with pytest.raises(ConfigError, match="writes 0 placeholders"):
        Codec.load(broken)
    tokenizer_of(family, corpus, size=900).save_pretrained(broken)
    with pytest.raises(ConfigError, match="the tokenizer has .* tokens, but the model only"):
        Codec.load(broken)
