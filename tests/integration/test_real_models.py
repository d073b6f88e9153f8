"""Qwen2.5-VL, Qwen3-VL and GLM-4.1V through their real classes and image processors, at a few thousand weights.

Nothing here is downloaded: `model_families` makes folders in the shape in which the families are published.
"""

from __future__ import annotations

import hashlib
import io
import shutil

import numpy as np
import pytest
import torch
from family_fixtures import corpus_fixture, family_fixture, folder_fixture, steps_fixture  # noqa: F401 - fixtures
from model_families import as_of_transformers_4, tokenizer_of
from PIL import Image

from mobilerl.agent.actions import format_reply, parse_reply
from mobilerl.agent.context import ContextPolicy
from mobilerl.algorithms.losses import clipped_policy_loss
from mobilerl.engines.base import MicroBatch, Request, Sampling
from mobilerl.engines.codec import Codec
from mobilerl.engines.loading import load_model
from mobilerl.engines.local import LocalEngine, LocalSettings
from mobilerl.records import Batch, Row

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread")]
CHAT = ContextPolicy()
SMALL = 28 * 28 * 24
"""Pixels: enough to tell screens of different sizes apart, and quick."""


@pytest.fixture(scope="module")
def engine(folder) -> LocalEngine:
    """For tests that change no weights."""
    return LocalEngine(folder, LocalSettings(max_pixels=SMALL))


def png(width: int, height: int, shade: int = 0) -> bytes:
    rng = np.random.default_rng(shade)
    blocks = rng.integers(0, 256, (12, 8, 3), dtype=np.uint8)
    out = io.BytesIO()
    Image.fromarray(blocks).resize((width, height), Image.Resampling.NEAREST).save(out, "PNG")
    return out.getvalue()


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


def rows_of(engine: LocalEngine, temperature: float = 1.0, seed: int = 0) -> list[Row]:
    torch.manual_seed(seed)
    requests = asked(engine.codec, TEXTS, temperature)
    done = engine.generate(requests)
    return [
        Row(f"t{i}", 0, c.prompt_ids, c.token_ids, c.logprobs, r.images, 0)
        for i, (r, c) in enumerate(zip(requests, done, strict=True))
    ]


def apart(a: list[tuple[float, ...]], b: list[tuple[float, ...]]) -> float:
    assert [len(x) for x in a] == [len(x) for x in b]
    return max(abs(x - y) for left, right in zip(a, b, strict=True) for x, y in zip(left, right, strict=True))


def fingerprint(model: torch.nn.Module) -> str:
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode() + tensor.contiguous().numpy().tobytes())
    return digest.hexdigest()


def favour(engine: LocalEngine, ids: list[int], by: float) -> None:
    """Raises the logits of these tokens everywhere."""
    head = engine.model.get_output_embeddings()
    head.bias = torch.nn.Parameter(torch.zeros(head.weight.shape[0]))
    with torch.no_grad():
        head.bias[ids] = by


# --- pictures ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "max_pixels"),
    [((360, 720), None), ((61, 90), None), ((1080, 2400), 500_000), ((2400, 1080), 100_000), ((1080, 2400), 20_000)],
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


def test_the_cap_is_that_of_the_image_processor_itself(family, folder):
    """Pixels are what the family's own processor makes of the picture when it is told the same limit."""
    codec = Codec.load(folder, 90_000)
    shot = png(270, 600)  # 1.3 times 90000 pixels: no box reduction beforehand
    patches, grid = codec.pixels(shot)
    height, width = int(grid[1]) * codec.image_processor.patch_size, int(grid[2]) * codec.image_processor.patch_size
    at_size = Image.open(io.BytesIO(shot)).convert("RGB").resize((width, height), Image.Resampling.BICUBIC)
    unchanged = Codec.load(folder).image_processor(images=[at_size], do_resize=False, return_tensors="np")
    assert patches.shape == unchanged["pixel_values"].shape
    assert np.abs(patches - unchanged["pixel_values"]).max() < 0.03  # rounding to bytes


def test_loading_a_folder_changes_no_default_of_transformers(folder):
    from transformers import Glm4vImageProcessorPil, Qwen2VLImageProcessorPil

    Codec.load(folder)
    assert Qwen2VLImageProcessorPil().size["longest_edge"] == 28 * 28 * 1280
    assert Glm4vImageProcessorPil().size["longest_edge"] == 28 * 28 * 15000


# --- sampling and scoring ----------------------------------------------------------------------------------------


def test_placeholders_never_come_out(family, folder):
    engine = LocalEngine(folder, LocalSettings(max_pixels=SMALL))
    ids = engine.codec.tokenizer.convert_tokens_to_ids
    banned = [ids(token) for token in family.banned]
    assert sorted(banned) == list(engine.codec.banned_ids)
    favour(engine, banned, 50.0)
    for temperature in (0.0, 1.0):
        rows = rows_of(engine, temperature)
        assert not {t for r in rows for t in r.response_ids} & set(banned)
        assert apart(engine.logprobs(rows), [r.rollout_logprobs for r in rows]) <= 1e-4


def test_a_batch_gives_what_its_requests_give_alone(engine):
    requests = asked(engine.codec, TEXTS, temperature=0.0, tokens=12)
    assert len({len(r.prompt_ids) for r in requests}) > 2
    together = engine.generate(requests)
    alone = [engine.generate([r])[0] for r in requests]
    assert [c.token_ids for c in together] == [c.token_ids for c in alone]
    assert apart([c.logprobs for c in together], [c.logprobs for c in alone]) <= 1e-4


def test_a_screen_is_seen(engine):
    """Else the tests of log-probabilities would pass without a vision tower."""
    dark, bright = (rows_with(engine, png(200, 400, shade)) for shade in (3, 4))
    assert dark.prompt_ids == bright.prompt_ids
    assert apart(engine.logprobs([dark]), engine.logprobs([bright])) > 1e-3


def rows_with(engine: LocalEngine, image: bytes) -> Row:
    content = [{"type": "image"}, {"type": "text", "text": "look"}]
    prompt = engine.codec.encode([{"role": "user", "content": content}], [image])
    reply = engine.codec.encode_reply('<answer>do(action="Back")</answer>')
    return Row("t", 0, prompt, reply, (0.0,) * len(reply), (image,), 0)


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_the_trainer_sees_the_log_probabilities_of_the_rollout(folder, temperature):
    """Whatever generation_config.json asks for, of which every family publishes something."""
    engine = LocalEngine(folder, LocalSettings(temperature=temperature, max_pixels=SMALL))
    rows = rows_of(engine, temperature)
    assert {len(r.images) for r in rows} == {0, 1, 2}
    assert apart(engine.logprobs(rows), [r.rollout_logprobs for r in rows]) <= 1e-4
    assert min(min(r.rollout_logprobs) for r in rows) < -1.0


def test_every_end_token_of_the_family_ends_a_reply(family, folder):
    engine = LocalEngine(folder, LocalSettings(max_pixels=SMALL))
    for token in family.ends:
        end = engine.codec.tokenizer.convert_tokens_to_ids(token)
        favour(engine, [end], 50.0)
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


# --- learning ----------------------------------------------------------------------------------------------------


def policy_loss(micro: MicroBatch):
    return clipped_policy_loss(micro.logp, micro.old_logp, micro.advantage, micro.mask, weights=micro.weights)


def test_an_update_changes_weights_and_a_saved_folder_is_the_model(family, folder, tmp_path):
    engine = LocalEngine(folder, LocalSettings(learning_rate=1e-3, max_pixels=SMALL))
    rows = rows_of(engine)
    before, text, vision = fingerprint(engine.model), *parts(engine.model)
    metrics = engine.update(Batch(rows, [1.0, -1.0, 1.0, -1.0, 1.0], [False] * 5), policy_loss, "token-mean")
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


def parts(model: torch.nn.Module) -> tuple[str, str]:
    return fingerprint(model.model.language_model), fingerprint(model.model.visual)


def test_adapters_sit_on_every_linear_layer_of_the_language_model(folder, tmp_path):
    engine = LocalEngine(folder, LocalSettings(learning_rate=1e-2, lora_rank=2, max_pixels=SMALL))
    base = engine.model.get_base_model().model.language_model
    wrapped = {name for name, module in base.named_modules() if hasattr(module, "lora_A")}
    linear = {name.removesuffix(".base_layer") for name, m in base.named_modules()
              if isinstance(m, torch.nn.Linear) and "lora_" not in name}  # fmt: skip
    assert wrapped == linear and len(linear) >= 2 * 6
    rows = rows_of(engine)
    engine.update(Batch(rows, [1.0] * 5, [False] * 5), policy_loss, "token-mean")
    engine.save(tmp_path)
    again = LocalEngine(tmp_path, LocalSettings(lora_rank=2, max_pixels=SMALL))
    assert apart(again.logprobs(rows), engine.logprobs(rows)) == 0.0
    assert again.codec.end_ids == engine.codec.end_ids


# --- MobileRL's format -------------------------------------------------------------------------------------------


def test_the_chat_layout_is_the_familys(family, engine, steps):
    """Roles, pictures and texts stand where the family's template puts them, and nothing else does."""
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


def test_replies_go_through_the_tokens_and_back_to_the_same_action(family, engine, steps):
    for step in steps:
        reply = format_reply(step.action, step.screen, "box", "what is there, and what comes next: 'ja', 日本 😀")
        ids = engine.codec.encode_reply(reply)
        assert ids[-1] == engine.codec.eos_id and engine.codec.decode(ids) == reply
        seen = step.observation
        parsed = parse_reply(engine.codec.decode(ids), step.screen, "box", seen.width, seen.height)
        assert format_reply(parsed.action, step.screen, "box") == format_reply(step.action, step.screen, "box")


def test_the_chat_layout_is_sampled_and_scored(engine, steps):
    """The whole prompt of a real step: two screens, all of the screen's text, thoughts of earlier turns."""
    messages, images = steps[1].messages(CHAT)
    request = Request(engine.codec.encode(messages, images), tuple(images), Sampling(1.0, 6))
    torch.manual_seed(0)
    (done,) = engine.generate([request])
    row = Row("t", 0, done.prompt_ids, done.token_ids, done.logprobs, request.images, 0)
    assert apart(engine.logprobs([row]), [done.logprobs]) <= 1e-4


def test_an_answer_tag_that_is_a_special_token_stays_in_the_text(family, corpus):
    """As in tokenizers of models that were trained to reply in tags; such a tag may also be what ends a reply."""
    tokenizer = tokenizer_of(family, corpus)
    tags = ["<answer>", "</answer>"]
    tokenizer.add_special_tokens({"additional_special_tokens": tags})
    end = tokenizer.convert_tokens_to_ids("</answer>")
    config = family.build(tokenizer).config
    processor = type("P", (), {"merge_size": 2})()
    codec = Codec(tokenizer, processor, config, end_ids=[end])
    reply = '<think>so</think><answer>do(action="Back")</answer>'
    assert codec.encode_reply(reply)[-1] == end
    assert codec.decode(codec.encode_reply(reply)) == reply
