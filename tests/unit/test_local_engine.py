"""The local engine on a model of a few thousand weights: what it samples, scores, learns and saves."""

from __future__ import annotations

import hashlib
import io
import math
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from accelerate.state import AcceleratorState
from PIL import Image

from mobilerl import tiny
from mobilerl.algorithms.losses import clipped_policy_loss
from mobilerl.engines import loading, local
from mobilerl.engines.base import MicroBatch, Request, Sampling
from mobilerl.engines.local import LocalEngine, LocalSettings
from mobilerl.engines.sampler import length_batches, sample
from mobilerl.records import Batch, Completion, Row

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


def png(width: int, height: int, shade: int) -> bytes:
    pixels = (np.arange(width * height * 3) * 7 + 31 * shade).astype(np.uint8).reshape(height, width, 3)
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG")
    return out.getvalue()


def requests(engine: LocalEngine, count: int, temperature: float = 1.0, tokens: int = 8) -> list[Request]:
    """Prompts of different lengths with 0, 1 or 2 images of different sizes."""
    made = []
    for i in range(count):
        images = tuple(png(90 + 40 * i, 120 + 30 * j, i + j) for j in range(i % 3))
        content = [{"type": "image"}] * len(images) + [{"type": "text", "text": f"{TEXTS[i % len(TEXTS)]} {i}\n"}]
        prompt = engine.codec.encode([{"role": "user", "content": content}], images)
        made.append(Request(prompt, images, Sampling(temperature, tokens)))
    return made


def row(request: Request, completion: Completion, name: str = "t", step: int = 0) -> Row:
    return Row(name, step, completion.prompt_ids, completion.token_ids, completion.logprobs, request.images, 0)


def sample_rows(engine: LocalEngine, count: int, seed: int = 0, temperature: float = 1.0) -> list[Row]:
    torch.manual_seed(seed)
    asked = requests(engine, count, temperature)
    return [row(r, c, f"t{i // 2}", i % 2) for i, (r, c) in enumerate(zip(asked, engine.generate(asked), strict=True))]


def policy_loss(micro: MicroBatch):
    return clipped_policy_loss(micro.logp, micro.old_logp, micro.advantage, micro.mask, weights=micro.weights)


def batch(rows: list[Row], advantages: list[float] | None = None) -> Batch:
    advantages = advantages or [1.0 if i % 2 else -0.5 for i in range(len(rows))]
    return Batch(rows, advantages, [False] * len(rows))


def weights(engine: LocalEngine) -> dict[str, torch.Tensor]:
    return {name: p.detach().clone() for name, p in engine.model.state_dict().items()}


def fingerprint(engine: LocalEngine) -> str:
    digest = hashlib.sha256()
    for name, tensor in sorted(engine.model.state_dict().items()):
        digest.update(name.encode() + tensor.contiguous().numpy().tobytes())
    return digest.hexdigest()


def largest_difference(a: list[tuple[float, ...]], b: list[tuple[float, ...]]) -> float:
    assert [len(x) for x in a] == [len(x) for x in b]
    return max(abs(x - y) for left, right in zip(a, b, strict=True) for x, y in zip(left, right, strict=True))


# --- sampling and scoring ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_the_trainer_sees_the_log_probabilities_of_the_rollout(folder, temperature):
    engine = LocalEngine(folder, LocalSettings(temperature=temperature))
    rows = sample_rows(engine, 8, temperature=temperature)
    assert largest_difference(engine.logprobs(rows), [r.rollout_logprobs for r in rows]) <= 1e-5
    sharper = [math.exp(sum(r.rollout_logprobs) / len(r.rollout_logprobs)) for r in rows]
    assert all(0 < p < 1 for p in sharper)


def test_settings_of_the_checkpoint_for_generation_do_not_reshape_the_distribution(folder):
    # Published Qwen2.5-VL folders ask for a repetition penalty, top_k, top_p and a temperature of 1e-6.
    engine = LocalEngine(folder, LocalSettings())
    engine.model.generation_config.update(
        do_sample=True, repetition_penalty=1.5, top_k=1, top_p=0.1, temperature=1e-6, no_repeat_ngram_size=1
    )
    rows = sample_rows(engine, 8)
    assert largest_difference(engine.logprobs(rows), [r.rollout_logprobs for r in rows]) <= 1e-5
    assert min(min(r.rollout_logprobs) for r in rows) < -1.0


@pytest.mark.parametrize("temperature", [1.0, 0.0])
def test_placeholders_of_images_never_come_out(folder, temperature):
    engine = LocalEngine(folder, LocalSettings())
    asked = requests(engine, 6, temperature)
    favourite = engine.codec.image_token_id
    with torch.no_grad():  # whatever the state, the head gives the placeholder the largest logit by far
        head = engine.model.get_output_embeddings()
        head.bias = torch.nn.Parameter(torch.zeros(head.weight.shape[0]))
        head.bias[list(engine.codec.banned_ids)] = 50.0
        inputs = engine.codec.collate([asked[0].prompt_ids], [asked[0].images], pad_left=True)
        assert engine.model(**inputs).logits[0, -1].argmax() in engine.codec.banned_ids
    done = engine.generate(asked)
    assert len(engine.codec.banned_ids) == 4 and favourite in engine.codec.banned_ids
    assert not {t for c in done for t in c.token_ids} & set(engine.codec.banned_ids)
    rows = [row(r, c) for r, c in zip(asked, done, strict=True)]
    assert largest_difference(engine.logprobs(rows), [r.rollout_logprobs for r in rows]) <= 1e-5


def test_greedy_takes_the_most_likely_token_and_needs_no_luck(shared):
    asked = requests(shared, 4, temperature=0.0)
    first, second = shared.generate(asked), shared.generate(asked)
    assert first == second
    torch.manual_seed(1)
    rows = [row(r, c) for r, c in zip(asked, first, strict=True)]
    drawn = shared.generate([Request(r.prompt_ids, r.images, Sampling(1.0, 1)) for r in asked] * 8)
    best = [r.rollout_logprobs[0] for r in rows] * 8
    assert all(c.logprobs[0] <= b + 1e-6 for c, b in zip(drawn, best, strict=True))


def test_a_completion_ends_with_its_end_token_or_at_the_limit(folder):
    engine = LocalEngine(folder, LocalSettings())
    with torch.no_grad():
        head = engine.model.get_output_embeddings()
        head.bias = torch.nn.Parameter(torch.zeros(head.weight.shape[0]))
        head.bias[engine.codec.eos_id] = 4.0
    torch.manual_seed(0)
    done = engine.generate(requests(engine, 24, tokens=6))
    lengths = {len(c.token_ids) for c in done}
    assert len(lengths) > 1
    for c in done:
        assert len(c.logprobs) == len(c.token_ids) and all(math.isfinite(x) and x <= 0 for x in c.logprobs)
        assert engine.codec.eos_id not in c.token_ids[:-1]
        assert c.token_ids[-1] == engine.codec.eos_id or len(c.token_ids) == 6
        assert c.text == engine.codec.decode(c.token_ids) and "<|" not in c.text


def test_results_are_in_the_order_of_the_requests_and_the_batch_does_not_matter(folder, shared):
    asked = requests(shared, 7, temperature=0.0)
    small = LocalEngine(folder, LocalSettings(generate_batch=2))
    together, apart = shared.generate(asked), small.generate(asked)
    assert [c.prompt_ids for c in together] == [r.prompt_ids for r in asked]
    assert [c.token_ids for c in together] == [c.token_ids for c in apart]
    assert largest_difference([c.logprobs for c in together], [c.logprobs for c in apart]) <= 1e-5


def test_long_prompts_are_sampled_few_at_a_time():
    """Attention over prompts grows with the square of the longest: a full batch of long ones would not fit."""
    asked = [Request((1,) * n, (), Sampling(1.0, 4)) for n in (10, 900, 12, 11, 900, 5000, 10)]
    parts = list(length_batches(asked, rows=3, tokens=1000))
    assert parts == [[0, 6, 3], [2], [1], [4], [5]]


def test_sampling_has_its_own_number_of_threads(folder, monkeypatch):
    used = []
    monkeypatch.setattr(local, "sample", lambda *args: (used.append(torch.get_num_threads()), sample(*args))[1])
    engine = LocalEngine(folder, LocalSettings(generate_threads=2))
    engine.generate(requests(engine, 1))
    LocalEngine(folder, LocalSettings()).generate(requests(engine, 1))
    assert used == [2, 1] and torch.get_num_threads() == 1


def test_equal_prompts_are_sampled_independently(shared):
    torch.manual_seed(0)
    done = shared.generate([requests(shared, 3)[2]] * 8)
    assert len({c.token_ids for c in done}) == 8


def test_log_probabilities_do_not_depend_on_the_batch(shared):
    rows = sample_rows(shared, 8)
    alone = [shared.logprobs([r])[0] for r in rows]
    assert largest_difference(shared.logprobs(rows), alone) <= 1e-5


def test_requests_of_one_call_share_their_sampling(shared):
    one, two = requests(shared, 1), requests(shared, 1, temperature=0.5)
    with pytest.raises(ValueError, match="share their sampling"):
        shared.generate(one + two)


# --- learning ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("agg", ["token-mean", "row-mean", "trajectory-mean"])
def test_an_update_does_not_depend_on_the_micro_batches(folder, agg):
    results, gradients = [], []
    for micro_tokens in (1, 150, 100_000):
        engine = LocalEngine(folder, LocalSettings(micro_tokens=micro_tokens, grad_clip=1e9))
        rows = sample_rows(engine, 8)
        assert len(list(engine._micro_batches(rows))) == {1: 8, 100_000: 1}.get(micro_tokens, 5) or micro_tokens == 150
        results.append(engine.update(batch(rows), policy_loss, agg))
        gradients.append(torch.cat([p.grad.flatten() for p in engine.model.parameters() if p.grad is not None]))
    for other in (0, 1):
        assert torch.allclose(gradients[other], gradients[2], rtol=0, atol=2e-6 * float(gradients[2].abs().max()))
        assert results[other] == pytest.approx(results[2], abs=1e-5)
    assert gradients[2].abs().max() > 1e-3


def test_advantages_push_log_probabilities_up_and_down(folder):
    engine = LocalEngine(folder, LocalSettings(learning_rate=1e-4))
    rows = sample_rows(engine, 4)
    before = [sum(x) for x in engine.logprobs(rows)]
    metrics = engine.update(batch(rows, [1.0, -1.0, 1.0, -1.0]), policy_loss, "row-mean")
    after = [sum(x) for x in engine.logprobs(rows)]
    assert [a > b for a, b in zip(after, before, strict=True)] == [True, False, True, False]
    assert metrics["ratio_mean"] == pytest.approx(1.0, abs=1e-4) and metrics["clip_frac"] == 0.0
    assert metrics["grad_norm"] > 0


def test_a_replayed_trajectory_beside_its_fresh_self_counts_as_another(folder):
    engine = LocalEngine(folder, LocalSettings())
    fresh, *_ = sample_rows(engine, 1)
    seen = []

    def look(micro: MicroBatch):
        seen.append(sorted(micro.weights.sum(1).tolist()))
        return policy_loss(micro)

    other = replace(fresh, trajectory_id="other")
    engine.update(Batch([fresh, fresh, other], [1.0] * 3, [False, True, False]), look, "trajectory-mean")
    assert seen == [pytest.approx([1 / 3] * 3)]


def test_rows_of_other_weights_are_older(folder):
    engine = LocalEngine(folder, LocalSettings())
    rows = [replace(row, version=v) for row, v in zip(sample_rows(engine, 3), (4, 5, 5), strict=True)]
    seen = {}

    def look(micro: MicroBatch):
        seen.update(zip(micro.advantage.tolist(), micro.older.tolist(), strict=True))
        return policy_loss(micro)

    engine.update(Batch(rows, [1.0, 2.0, 3.0], [False, False, True], version=5), look, "row-mean")
    assert seen == {1.0: True, 2.0: False, 3.0: True}


def test_rows_without_advantage_change_nothing(folder):
    engine = LocalEngine(folder, LocalSettings())
    rows = sample_rows(engine, 4)
    before = fingerprint(engine)
    assert engine.update(batch(rows, [0.0] * 4), policy_loss, "token-mean")["grad_norm"] == 0.0
    assert fingerprint(engine) == before


def test_a_gradient_that_is_not_finite_is_not_applied(folder):
    engine = LocalEngine(folder, LocalSettings(learning_rate=1e-2, warmup_steps=10))
    rows = sample_rows(engine, 4)
    before = fingerprint(engine)

    def broken(micro: MicroBatch):
        return (micro.logp * micro.mask).sum() * float("nan"), {}

    assert not math.isfinite(engine.update(batch(rows), broken, "token-mean")["grad_norm"])
    assert fingerprint(engine) == before and engine.steps == 0
    assert math.isfinite(engine.update(batch(rows), policy_loss, "token-mean")["grad_norm"])
    assert fingerprint(engine) != before and engine.steps == 1


def test_objectives_see_what_belongs_to_their_rows(folder):
    engine = LocalEngine(folder, LocalSettings(micro_tokens=150))
    rows = sample_rows(engine, 6)
    old = [tuple(x - 1.0 for x in r.rollout_logprobs) for r in rows]
    ref = [tuple(x - 2.0 for x in r.rollout_logprobs) for r in rows]
    advantages = [float(i) for i in range(6)]
    seen: dict[int, int] = {}
    total = 0.0

    def look(micro: MicroBatch):
        nonlocal total
        for k, advantage in enumerate(micro.advantage.tolist()):
            i, on = int(advantage), micro.mask[k].bool()
            seen[i] = seen.get(i, 0) + 1
            assert on.sum() == len(rows[i].response_ids) and bool(micro.older[k]) == (i % 2 == 0)
            assert micro.rollout_logp[k][on].tolist() == pytest.approx(rows[i].rollout_logprobs)
            assert micro.logp[k][on].tolist() == pytest.approx(rows[i].rollout_logprobs, abs=1e-5)
            assert micro.old_logp[k][on].tolist() == pytest.approx(old[i])
            assert micro.ref_logp[k][on].tolist() == pytest.approx(ref[i])
        total += micro.weights.sum().item()
        return micro.logp.sum() * 0.0, {"low_max": micro.logp.detach().sum() * 0.0 - 3.0, "rows": micro.mask.sum()}

    full = Batch(rows, advantages, [i % 2 == 0 for i in range(6)], old, ref)
    metrics = engine.update(full, look, "trajectory-mean")
    assert seen == dict.fromkeys(range(6), 1) and total == pytest.approx(1.0)
    assert metrics["low_max"] == -3.0 and metrics["rows"] == sum(len(r.response_ids) for r in rows)


# --- reference, persistence, adapters ----------------------------------------------------------------------------


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


def optimizer_tensors(engine: LocalEngine) -> list[torch.Tensor]:
    state = engine.optimizer.state_dict()["state"]
    return [torch.as_tensor(v) for i in sorted(state) for _, v in sorted(state[i].items())]


@pytest.mark.parametrize("lora_rank", [0, 4])
def test_interrupted_training_goes_on_bit_for_bit(folder, tmp_path, lora_rank):
    settings = LocalSettings(learning_rate=1e-3, warmup_steps=4, lora_rank=lora_rank)
    torch.manual_seed(5)
    straight = LocalEngine(folder, settings)
    drawn = train(straight, 3)
    straight.save(tmp_path)
    state = torch.get_rng_state()
    drawn += train(straight, 3)

    torch.manual_seed(99)
    resumed = LocalEngine(folder, settings)
    resumed.load(tmp_path)
    assert resumed.version == 3 and resumed.steps == 3 and torch.equal(torch.get_rng_state(), state)
    assert drawn[12:] == train(resumed, 3)
    assert fingerprint(resumed) == fingerprint(straight)
    assert (resumed.version, resumed.steps) == (straight.version, straight.steps) == (6, 6)
    assert all(map(torch.equal, optimizer_tensors(resumed), optimizer_tensors(straight)))
    assert resumed.optimizer.param_groups[0]["lr"] == straight.optimizer.param_groups[0]["lr"]


@pytest.mark.parametrize("lora_rank", [0, 4])
def test_a_saved_folder_is_a_checkpoint_of_its_own(folder, tmp_path, lora_rank):
    settings = LocalSettings(learning_rate=1e-2, lora_rank=lora_rank)
    engine = LocalEngine(folder, settings)
    rows = sample_rows(engine, 4)
    engine.update(batch(rows), policy_loss, "token-mean")
    engine.save(tmp_path)
    again = LocalEngine(tmp_path, settings)
    assert again.logprobs(rows) == engine.logprobs(rows)
    assert sample_rows(again, 4, seed=3) == sample_rows(engine, 4, seed=3)


@pytest.mark.parametrize("lora_rank", [0, 4])
def test_the_reference_stays_what_training_began_with(folder, lora_rank):
    engine = LocalEngine(folder, LocalSettings(learning_rate=1e-2, lora_rank=lora_rank, reference=True))
    rows = sample_rows(engine, 4)
    first = engine.logprobs(rows)
    assert largest_difference(engine.logprobs(rows, reference=True), first) == 0.0
    train(engine, 2)
    assert largest_difference(engine.logprobs(rows, reference=True), first) == 0.0
    assert largest_difference(engine.logprobs(rows), first) > 1e-3


@pytest.mark.parametrize("lora_rank", [0, 4])
def test_an_adapter_that_was_trained_before_is_its_own_reference(folder, tmp_path, lora_rank):
    before = LocalEngine(folder, LocalSettings(learning_rate=3e-2, lora_rank=4))
    rows = sample_rows(before, 4)
    base = before.logprobs(rows)
    train(before, 2)
    before.save(tmp_path)
    first = before.logprobs(rows)
    assert largest_difference(first, base) > 1e-3
    engine = LocalEngine(tmp_path, LocalSettings(learning_rate=3e-2, lora_rank=lora_rank, reference=True))
    assert engine.logprobs(rows, reference=True) == first
    train(engine, 2)
    now = engine.logprobs(rows)
    assert largest_difference(now, first) > 1e-3
    assert engine.logprobs(rows, reference=True) == first and engine.logprobs(rows) == now


def test_a_reference_that_scores_does_not_disturb_what_is_sampled_meanwhile(folder):
    engine = LocalEngine(folder, LocalSettings(learning_rate=3e-2, lora_rank=4, reference=True))
    rows = sample_rows(engine, 4)
    train(engine, 2)
    alone = sample_rows(engine, 8, seed=5)
    over = threading.Event()

    def score() -> None:
        while not over.is_set():
            engine.logprobs(rows, reference=True)

    thread = threading.Thread(target=score)
    thread.start()
    try:
        beside = [sample_rows(engine, 8, seed=5) for _ in range(10)]
    finally:
        over.set()
        thread.join()
    assert all(b == alone for b in beside)


@pytest.fixture
def accelerate_anew():
    """accelerate keeps one precision for a whole process; afterwards the other engines' is back."""
    state = AcceleratorState._shared_state
    kept = dict(state)
    state.clear()
    yield
    state.clear()
    state.update(kept)


@pytest.mark.usefixtures("accelerate_anew")
def test_where_the_device_computes_in_bfloat16_small_steps_still_reach_the_weights(folder, tmp_path, monkeypatch):
    for module in (loading, local):
        monkeypatch.setattr(module, "compute_dtype", lambda: torch.bfloat16)
    engine = LocalEngine(folder, LocalSettings(learning_rate=1e-6))
    rows = sample_rows(engine, 8)
    assert {p.dtype for p in engine.model.parameters()} == {torch.float32}
    # Sampler and scoring compute alike, so that they differ by rounding only.
    rollout = [r.rollout_logprobs for r in rows]
    assert largest_difference(engine.logprobs(rows), rollout) < 0.1
    before = weights(engine)
    train(engine, 3)
    moved = [(p - before[n]).abs() for n, p in weights(engine).items()]
    share = sum(int((m > 5e-7).sum()) for m in moved) / sum(m.numel() for m in moved)
    assert share > 0.3, "most weights of a bfloat16 model would stay where they are"
    engine.save(tmp_path)
    again = LocalEngine(folder, LocalSettings(learning_rate=1e-6))
    again.load(tmp_path)
    assert all(torch.equal(p, weights(again)[n]) for n, p in weights(engine).items())


def test_without_a_reference_asking_for_it_says_what_to_do(shared):
    rows = sample_rows(shared, 1)
    with pytest.raises(ValueError, match="reference"):
        shared.logprobs(rows, reference=True)


@pytest.mark.parametrize("lora_rank", [0, 4])
def test_a_copy_takes_over_the_weights(folder, lora_rank):
    engine, copy = (LocalEngine(folder, LocalSettings(lora_rank=lora_rank, learning_rate=1e-2)) for _ in range(2))
    rows = sample_rows(engine, 4)
    engine.update(batch(rows), policy_loss, "row-mean")
    engine.publish()
    assert copy.logprobs(rows) != engine.logprobs(rows)
    copy.set_weights(engine.weights(), engine.version)
    assert copy.version == engine.version == 1
    assert copy.logprobs(rows) == engine.logprobs(rows)


def test_an_adapter_names_its_base_in_full(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(folder.parent)
    LocalEngine(Path(folder.name), LocalSettings(lora_rank=4)).save(tmp_path)
    monkeypatch.chdir(tmp_path)
    LocalEngine(tmp_path, LocalSettings())


def test_with_lora_only_the_adapter_trains(folder):
    engine = LocalEngine(folder, LocalSettings(learning_rate=1e-2, lora_rank=4))
    before = weights(engine)
    train(engine, 1)
    changed = {name for name, p in weights(engine).items() if not torch.equal(p, before[name])}
    assert changed and all("lora_" in name and "visual" not in name for name in changed)
    trained = {name for name, p in engine.model.named_parameters() if p.requires_grad}
    assert changed <= trained and all("lora_" in name for name in trained)
