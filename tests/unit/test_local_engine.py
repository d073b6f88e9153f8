"""The local engine on a model of a few thousand weights: what it samples, scores, learns and saves."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from accelerate.state import AcceleratorState
from model_checks import fingerprint, largest_difference

from mobilerl.algorithms.losses import clipped_policy_loss
from mobilerl.benchmarks.model_families import png
from mobilerl.engines import local
from mobilerl.engines.local import LocalEngine, LocalSettings
from mobilerl.engines.scoring import with_prepared_images
from mobilerl.inference.local import draw
from mobilerl.models import loading, tiny
from mobilerl.models.codec import Codec
from mobilerl.models.images import Images
from mobilerl.models.plain_text import is_plain
from mobilerl.records import Completion, MicroBatch, TrainingSample
from mobilerl.records.engine import Request, Sampling, SkippedStep

pytestmark = pytest.mark.usefixtures("one_thread")
CORPUS = ("Open the Settings app and turn on Wi-Fi", "notes alarm milk hello History app Tap")
TEXTS = ("Open Settings", "turn on Wi-Fi and open the notes app", "milk", "hello 12 345 milk milk notes", "Tap <3>")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("tiny")
    torch.manual_seed(0)
    tiny.create(path, CORPUS, hidden=32, layers=2, heads=2, vision_hidden=16)
    return path


@pytest.fixture(scope="module")
def shared(folder) -> LocalEngine:
    """An engine for tests that change no weights."""
    return LocalEngine(folder, LocalSettings())


def requests(engine: LocalEngine, count: int, temperature: float = 1.0, tokens: int = 8) -> list[Request]:
    """Prompts of different lengths with 0, 1 or 2 images of different sizes."""
    made = []
    for i in range(count):
        images = tuple(png(90 + 40 * i, 120 + 30 * j, i + j) for j in range(i % 3))
        content = [{"type": "image"}] * len(images) + [{"type": "text", "text": f"{TEXTS[i % len(TEXTS)]} {i}\n"}]
        prompt = engine.codec.encode([{"role": "user", "content": content}], images)
        made.append(Request(prompt, images, Sampling(temperature, tokens)))
    return made


def row(request: Request, done: Completion, name: str = "t", step: int = 0) -> TrainingSample:
    return TrainingSample(name, step, done.prompt_ids, done.token_ids, done.logprobs, request.images, 0)


def sample_rows(engine: LocalEngine, count: int, temperature: float = 1.0) -> list[TrainingSample]:
    torch.manual_seed(0)
    asked = requests(engine, count, temperature)
    return [row(r, c, f"t{i // 2}", i % 2) for i, (r, c) in enumerate(zip(asked, engine.generate(asked), strict=True))]


def policy_loss(micro: MicroBatch):
    return clipped_policy_loss(micro.logp, micro.old_logp, micro.advantage, micro.mask, weights=micro.weights)


def batch(rows: list[TrainingSample]) -> list[TrainingSample]:
    return [replace(row, advantage=1.0 if i % 2 else -0.5) for i, row in enumerate(rows)]


def test_no_samples_have_no_log_probabilities(shared):
    assert shared.logprobs([]) == []


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_the_trainer_sees_the_log_probabilities_of_the_rollout(folder, temperature):
    engine = LocalEngine(folder, LocalSettings(temperature=temperature))
    rows = sample_rows(engine, 8, temperature=temperature)
    assert largest_difference(engine.logprobs(rows), [r.rollout_logprobs for r in rows]) <= 1e-5


@pytest.mark.parametrize("temperature", [1.0, 0.0])
def test_image_placeholders_are_never_sampled(folder, temperature):
    engine = LocalEngine(folder, LocalSettings())
    asked = requests(engine, 6, temperature)
    with torch.no_grad():  # the head gives the placeholders the largest logits by far
        head = engine.model.get_output_embeddings()
        head.bias = torch.nn.Parameter(torch.zeros(head.weight.shape[0]))
        head.bias[list(engine.codec.banned_ids)] = 50.0
        inputs = engine.codec.collate([asked[0].prompt_ids], [asked[0].images], pad_left=True)
        assert engine.model(**inputs).logits[0, -1].argmax() in engine.codec.banned_ids
    done = engine.generate(asked)
    assert engine.codec.image_token_id in engine.codec.banned_ids
    assert not {t for c in done for t in c.token_ids} & set(engine.codec.banned_ids)
    rows = [row(r, c) for r, c in zip(asked, done, strict=True)]
    assert largest_difference(engine.logprobs(rows), [r.rollout_logprobs for r in rows]) <= 1e-5


def test_results_are_in_the_order_of_the_requests_and_the_batch_does_not_matter(shared, monkeypatch):
    asked = requests(shared, 7, temperature=0.0)
    together = shared.generate(asked)
    monkeypatch.setattr(local, "GENERATE_ROWS", 2)
    apart = shared.generate(asked)
    assert [c.prompt_ids for c in together] == [r.prompt_ids for r in asked]
    assert [c.token_ids for c in together] == [c.token_ids for c in apart]
    assert largest_difference([c.logprobs for c in together], [c.logprobs for c in apart]) <= 1e-5


def test_tokens_are_drawn_as_often_as_they_are_likely():
    logits = torch.tensor([[2.0, 9.0, -30.0, 1.0, 0.0, 9.0]]).expand(40_000, -1)
    torch.manual_seed(0)
    tokens, logps = draw(logits, torch.tensor([1, 5]), Sampling(temperature=2.0))
    wanted = torch.tensor([2.0, -torch.inf, -30.0, 1.0, 0.0, -torch.inf]).div(2.0).softmax(-1)
    share = tokens.bincount(minlength=6) / len(tokens)
    assert torch.allclose(share, wanted, atol=0.01) and not share[[1, 5]].any()
    assert torch.allclose(logps.exp(), wanted[tokens])


@pytest.mark.parametrize("temperature", [1.0, 0.0])
def test_text_is_sampled_without_the_classes_of_transformers_as_with_them(shared, temperature, monkeypatch):
    words = " ".join(TEXTS).split()
    prompts = [shared.codec.encode([{"role": "user", "content": " ".join(words[: 3 + i])}], []) for i in range(9)]
    asked = [Request(ids, (), Sampling(temperature, 60)) for ids in [*prompts, *prompts[:4]]]
    assert is_plain(shared.model)
    monkeypatch.setattr(shared.codec, "end_ids", frozenset(range(20, 32)))  # some of a few dozen
    torch.manual_seed(1)
    plain = shared.generate(asked)
    monkeypatch.setattr("mobilerl.inference.local.is_plain", lambda model: False)
    torch.manual_seed(1)
    usual = shared.generate(asked)
    assert [c.token_ids for c in plain] == [c.token_ids for c in usual]
    assert largest_difference([c.logprobs for c in plain], [c.logprobs for c in usual]) <= 1e-5
    if temperature:
        assert len({len(c.token_ids) for c in plain}) > 3


@pytest.mark.parametrize("agg", ["token-mean", "sample-mean", "trajectory-mean"])
def test_an_update_does_not_depend_on_the_micro_batches(folder, agg):
    results, gradients = [], []
    for tokens in (1, 150, 100_000):
        engine = LocalEngine(folder, LocalSettings(micro_batch_tokens=tokens))
        rows = sample_rows(engine, 8)
        results.append(engine.update(batch(rows), policy_loss, agg))
        gradients.append(torch.cat([p.grad.flatten() for p in engine.model.parameters() if p.grad is not None]))
    for other in (0, 1):
        assert torch.allclose(gradients[other], gradients[2], rtol=0, atol=2e-6 * float(gradients[2].abs().max()))
        assert results[other] == pytest.approx(results[2], abs=1e-5)
    assert gradients[2].abs().max() > 1e-3


def test_the_images_of_a_micro_batch_are_made_once_and_before_its_turn(folder, monkeypatch):
    engine = LocalEngine(folder, LocalSettings())
    rows, made, cut = sample_rows(engine, 6), [], Images._cut
    monkeypatch.setattr(Images, "_cut", lambda self, png: made.append(png) or cut(self, png))
    engine.codec = Codec.load(folder)
    parts = [[0], [2, 1], [3], [5, 4]]
    for wanted, part in zip(parts, with_prepared_images(engine.codec, rows, parts), strict=True):
        assert part == wanted and {png for i in part for png in rows[i].images} <= set(made)
        engine.codec.collate([rows[i].prompt_ids for i in part], [rows[i].images for i in part], pad_left=True)
    assert sorted(made) == sorted({png for row in rows for png in row.images}) and len(made) > 2


def not_finite(micro: MicroBatch):
    return (micro.logp * micro.mask).sum() * float("nan"), {}


def infinite_metric(micro: MicroBatch):
    ratio = (micro.logp * 1e4).exp().max() * torch.inf
    return (micro.logp * micro.mask).sum() * ratio, {"ratio_max": ratio.detach()}


def finite_without_a_gradient(micro: MicroBatch):
    """The square root of 0 has an infinite derivative."""
    return (micro.logp * 0).sum().sqrt(), {}


@pytest.mark.parametrize(
    ("objective", "changed", "named"),
    [
        (not_finite, {}, "the loss"),
        (infinite_metric, {}, "the objective's ratio_max"),
        (finite_without_a_gradient, {}, "the loss's gradient"),
        (policy_loss, {"advantage": math.nan}, "the advantage"),
        (policy_loss, {"rollout_logprobs": math.nan}, "the sampler's log-probabilities"),
    ],
)
def test_a_gradient_that_is_not_finite_is_not_applied_and_its_cause_is_named(folder, objective, changed, named):
    engine = LocalEngine(folder, LocalSettings(learning_rate=1e-2, warmup_steps=10))
    rows = batch(sample_rows(engine, 4))
    broken = {k: (v,) * len(rows[2].response_ids) if k == "rollout_logprobs" else v for k, v in changed.items()}
    before = fingerprint(engine.model)
    with pytest.raises(SkippedStep) as skipped:
        engine.update([*rows[:2], replace(rows[2], **broken), rows[3]], objective, "token-mean")
    assert str(skipped.value) == named
    assert fingerprint(engine.model) == before and engine.steps == 0
    assert math.isfinite(engine.update(rows, policy_loss, "token-mean")["grad_norm"])
    assert fingerprint(engine.model) != before and engine.steps == 1


def test_a_weight_that_is_not_finite_is_named_and_not_saved(folder, tmp_path):
    engine = LocalEngine(folder, LocalSettings())
    rows = batch(sample_rows(engine, 2))
    name, weight = [(n, p) for n, p in engine.model.named_parameters() if p.dim() > 1 and "layers.1" in n][-1]
    handle = weight.register_hook(lambda gradient: gradient * torch.inf)
    with pytest.raises(SkippedStep, match=f"^the gradient of {name}$"):
        engine.update(rows, policy_loss, "token-mean")
    handle.remove()
    with torch.no_grad():
        weight[0, 0] = torch.inf
    with pytest.raises(SkippedStep, match="^the log-probabilities$"):
        engine.update(rows, policy_loss, "token-mean")
    with pytest.raises(ValueError, match=f"not finite .{name}., so they are not saved"):
        engine.save(tmp_path / "saved")
    assert not (tmp_path / "saved").exists()


def test_micro_batches_keep_the_columns_of_a_sample_together(folder):
    engine = LocalEngine(folder, LocalSettings(micro_batch_tokens=150))
    rows = sample_rows(engine, 6)
    old = [tuple(x - 1.0 for x in r.rollout_logprobs) for r in rows]
    ref = [tuple(x - 2.0 for x in r.rollout_logprobs) for r in rows]
    seen: list[int] = []

    def look(micro: MicroBatch):
        for k, advantage in enumerate(micro.advantage.tolist()):
            i, on = int(advantage), micro.mask[k].bool()
            seen.append(i)
            assert on.sum() == len(rows[i].response_ids) and bool(micro.off_policy[k]) == (i % 2 == 0)
            assert micro.rollout_logp[k][on].tolist() == pytest.approx(rows[i].rollout_logprobs)
            assert micro.logp[k][on].tolist() == pytest.approx(rows[i].rollout_logprobs, abs=1e-5)
            assert micro.old_logp[k][on].tolist() == pytest.approx(old[i])
            assert micro.ref_logp[k][on].tolist() == pytest.approx(ref[i])
        return micro.logp.sum() * 0.0, {"tokens": micro.mask.sum(), "weight": micro.weights.sum()}

    full = [
        replace(row, advantage=float(i), replayed=i % 2 == 0, old_logprobs=old[i], ref_logprobs=ref[i])
        for i, row in enumerate(rows)
    ]
    metrics = engine.update(full, look, "trajectory-mean")
    assert sorted(seen) == list(range(6)) and metrics["weight"] == pytest.approx(1.0)
    assert metrics["tokens"] == sum(len(r.response_ids) for r in rows)


def train(engine: LocalEngine, updates: int) -> list[tuple[int, ...]]:
    """Rounds of sampling (from the engine's own random state), learning and publishing."""
    drawn = []
    for _ in range(updates):
        asked = requests(engine, 4)
        done = engine.generate(asked)
        drawn += [c.token_ids for c in done]
        engine.update(batch([row(r, c) for r, c in zip(asked, done, strict=True)]), policy_loss, "token-mean")
        engine.publish()
    return drawn


@pytest.mark.parametrize("lora_rank", [0, 4])
def test_resumed_training_is_equal_bit_for_bit(folder, tmp_path, lora_rank):
    settings = LocalSettings(learning_rate=1e-3, warmup_steps=4, lora_rank=lora_rank)
    torch.manual_seed(5)
    straight = LocalEngine(folder, settings)
    drawn = train(straight, 3)
    straight.save(tmp_path)
    drawn += train(straight, 3)

    torch.manual_seed(99)
    resumed = LocalEngine(folder, settings)
    resumed.load(tmp_path)
    assert drawn[12:] == train(resumed, 3)
    assert fingerprint(resumed.model) == fingerprint(straight.model)
    assert (resumed.version, resumed.steps) == (straight.version, straight.steps) == (6, 6)


@pytest.mark.parametrize("with_adapter", [False, True])
@pytest.mark.parametrize("lora_rank", [0, 4])
def test_the_reference_stays_what_training_began_with(folder, tmp_path, lora_rank, with_adapter):
    """Also where that is a model with an adapter that was trained before."""
    before = LocalEngine(folder, LocalSettings(learning_rate=3e-2, lora_rank=4))
    rows = sample_rows(before, 4)
    if with_adapter:
        train(before, 2)
        before.save(tmp_path)
        folder = tmp_path
    first = before.logprobs(rows)
    engine = LocalEngine(folder, LocalSettings(learning_rate=3e-2, lora_rank=lora_rank, reference=True))
    assert engine.logprobs(rows, reference=True) == first
    train(engine, 2)
    now = engine.logprobs(rows)
    assert largest_difference(now, first) > 1e-3
    assert engine.logprobs(rows, reference=True) == first and engine.logprobs(rows) == now


@pytest.fixture
def fresh_accelerate():
    """accelerate keeps one precision for a whole process; afterwards the other engines' is back."""
    state = AcceleratorState._shared_state
    kept = dict(state)
    state.clear()
    yield
    state.clear()
    state.update(kept)


@pytest.mark.usefixtures("fresh_accelerate")
def test_small_steps_reach_the_weights_when_computing_in_bfloat16(folder, tmp_path, monkeypatch):
    for module in (loading, local):
        monkeypatch.setattr(module, "compute_dtype", lambda: torch.bfloat16)
    engine = LocalEngine(folder, LocalSettings(learning_rate=1e-6, warmup_steps=0))
    rows = sample_rows(engine, 8)
    assert {p.dtype for p in engine.model.parameters()} == {torch.float32}
    # Sampler and scoring compute alike, so that they differ by rounding only.
    rollout = [r.rollout_logprobs for r in rows]
    assert largest_difference(engine.logprobs(rows), rollout) < 0.1
    before = {name: p.detach().clone() for name, p in engine.model.state_dict().items()}
    train(engine, 3)
    moved = [(p - before[name]).abs() for name, p in engine.model.state_dict().items()]
    share = sum(int((m > 5e-7).sum()) for m in moved) / sum(m.numel() for m in moved)
    assert share > 0.3, "most weights of a bfloat16 model would stay where they are"
    engine.save(tmp_path)
    again = LocalEngine(folder, LocalSettings(learning_rate=1e-6, warmup_steps=0))
    again.load(tmp_path)
    assert fingerprint(again.model) == fingerprint(engine.model)


def updated(folder: Path, **settings: object) -> tuple[LocalEngine, dict[str, float], list[Completion], int]:
    """An engine after one update, its metrics, its greedy responses, and the bytes kept for the backward pass."""
    torch.manual_seed(1)
    engine = LocalEngine(folder, LocalSettings(reference=True, **settings))
    rows, kept = sample_rows(engine, 4), 0

    def keep(t: torch.Tensor) -> torch.Tensor:
        nonlocal kept
        kept += t.numel() * t.element_size()
        return t

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
        metrics = engine.update(batch(rows), policy_loss, "token-mean")
    return engine, metrics, engine.generate(requests(engine, 2, temperature=0.0)), kept


@pytest.mark.parametrize("lora_rank", [0, 4])
def test_gradient_checkpointing_gives_the_same_results_from_less_memory(folder, lora_rank):
    plain, metrics, responses, kept = updated(folder, lora_rank=lora_rank)
    again, metrics_again, responses_again, kept_again = updated(
        folder, lora_rank=lora_rank, gradient_checkpointing=True
    )
    assert metrics_again == metrics and responses_again == responses
    assert again.weights() == plain.weights()
    assert kept_again < 0.6 * kept


def test_inputs_of_adapters_are_cast_by_autocast_only(folder):
    """peft would cast each to float32, the adapter's type, and autocast back."""
    adapted = loading.add_lora(loading.load_model(folder).bfloat16(), 4).get_base_model()
    layer = adapted.model.language_model.layers[0].self_attn.q_proj
    seen = []
    layer.lora_A["default"].register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].dtype))
    with torch.autocast("cpu", torch.bfloat16):
        out = layer(torch.randn(3, layer.in_features, dtype=torch.bfloat16))
    assert seen == [torch.bfloat16] and layer.lora_A["default"].weight.dtype == torch.float32
    assert out.dtype == torch.bfloat16
