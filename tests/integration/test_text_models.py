"""Causal language models as policies: Llama (SmolLM2), Qwen2.5 and Qwen3 with random weights."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from model_checks import fingerprint, largest_difference

from mobilerl.algorithms.objectives import clipped
from mobilerl.benchmarks.text_families import TEXT_FAMILIES, create_text_model
from mobilerl.cli import main
from mobilerl.config import AgentSection, ClippedLossSection, ConfigError
from mobilerl.engines.local import LocalEngine, LocalSettings
from mobilerl.engines.scoring import sample_logprobs
from mobilerl.inference.vllm_weights import checkpoint_weights
from mobilerl.models.codec import Codec
from mobilerl.models.loading import add_lora, load_model
from mobilerl.models.memory import parameters
from mobilerl.models.text_models import check_screenshots
from mobilerl.records import TrainingSample
from mobilerl.records.engine import Request, Sampling
from mobilerl.sft.samples import Sample
from mobilerl.sft.trainer import TrainingJob, train

pytestmark = pytest.mark.usefixtures("one_thread")
TEXTS = ("tap the button", "x", "open the settings and turn on the light", "tap the button", "go back")
RATE = 1e-2


@pytest.fixture(scope="module", params=TEXT_FAMILIES)
def folder(request, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp(request.param)
    create_text_model(request.param, path, TEXTS)
    return path


def settings(lora: int = 0) -> LocalSettings:
    return LocalSettings(learning_rate=RATE, warmup_steps=0, lora_rank=lora, gradient_checkpointing=bool(lora))


def rows_of(engine: LocalEngine, temperature: float = 1.0) -> list[TrainingSample]:
    torch.manual_seed(1)
    prompts = [engine.codec.encode([{"role": "user", "content": [{"type": "text", "text": t}]}], ()) for t in TEXTS]
    done = engine.generate([Request(prompt, (), Sampling(temperature, 9)) for prompt in prompts])
    return [
        TrainingSample(f"t{i}", 0, c.prompt_ids, c.token_ids, c.logprobs, (), 0, advantage=(-1.0) ** i)
        for i, c in enumerate(done)
    ]


def learn(engine: LocalEngine, rows: list[TrainingSample]) -> dict[str, float]:
    return engine.update(rows, clipped(ClippedLossSection()), "trajectory-mean")


def gradients(model: torch.nn.Module, loss: torch.Tensor) -> dict[str, torch.Tensor]:
    model.zero_grad()
    loss.backward()
    return {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("lora", [0, 4])
def test_packed_rows_have_the_loss_and_every_gradient_of_single_ones(folder, lora):
    model, codec = load_model(folder).float(), Codec.load(folder)
    if lora:
        torch.manual_seed(0)
        model = add_lora(model, lora)
        for name, weight in model.named_parameters():
            if "lora_B" in name:
                torch.nn.init.normal_(weight, std=0.2)
    rows = rows_of(LocalEngine(folder, settings()))
    weights = [torch.linspace(-1, 1, len(r.response_ids)) for r in rows]  # of both signs, like advantages

    def weighted(logp: torch.Tensor) -> torch.Tensor:
        return sum((w * own[len(own) - len(w) :]).sum() for w, own in zip(weights, logp, strict=True))

    loss = weighted(sample_logprobs(model, codec, rows, 1.0, "cpu")[0])
    mine = gradients(model, loss)
    model.set_attn_implementation("sdpa")
    single = []
    for row in rows:
        ids = torch.tensor([row.prompt_ids + row.response_ids])
        logp = model(input_ids=ids).logits[0, :-1].log_softmax(-1).gather(1, ids[0, 1:, None])[:, 0]
        single.append(logp[-len(row.response_ids) :])
    wanted = weighted(single)
    assert float(loss.detach()) == pytest.approx(float(wanted.detach()), abs=1e-4)
    theirs = gradients(model, wanted)
    assert mine.keys() == theirs.keys() and len(mine) == (2 * 7 * 2 if lora else len(list(model.parameters())))
    for name, value in theirs.items():
        torch.testing.assert_close(mine[name], value, atol=1e-4, rtol=1e-4, msg=name)


@pytest.mark.parametrize("lora", [0, 4])
def test_sampler_and_learner_agree_before_and_after_an_update(folder, lora):
    engine = LocalEngine(folder, settings(lora))
    for _ in range(2):
        rows = rows_of(engine)
        assert largest_difference(engine.logprobs(rows), [r.rollout_logprobs for r in rows]) < 1e-5
        assert min(map(min, engine.logprobs(rows))) < -1.0
        before = fingerprint(engine.model)
        assert learn(engine, rows)["grad_norm"] > 0 and fingerprint(engine.model) != before


@pytest.mark.parametrize("lora", [0, 4])
def test_a_resumed_engine_equals_one_that_was_never_stopped(folder, lora, tmp_path):
    base = tmp_path / "base"
    shutil.copytree(folder, base)
    engine = LocalEngine(base, settings(lora))
    rows = rows_of(engine)
    learn(engine, rows)
    engine.save(tmp_path / "saved")
    resumed = LocalEngine(base, settings(lora))
    resumed.load(tmp_path / "saved")
    assert fingerprint(resumed.model) == fingerprint(engine.model)
    assert learn(resumed, rows) == learn(engine, rows)
    assert rows_of(resumed) == rows_of(engine) and fingerprint(resumed.model) == fingerprint(engine.model)
    again = LocalEngine(tmp_path / "saved", settings(lora))  # as another run, or an evaluation, loads it
    resumed.load(tmp_path / "saved")
    assert again.logprobs(rows) == resumed.logprobs(rows)
    if lora:
        merged = load_model(folder)
        merged.load_state_dict(dict(checkpoint_weights(again.model)), strict=False)
        logp, mask = sample_logprobs(merged, again.codec, rows, 1.0, "cpu")
        wanted, _ = sample_logprobs(again.model, again.codec, rows, 1.0, "cpu")
        torch.testing.assert_close(logp, wanted, atol=1e-4, rtol=1e-4)


def test_sft_learns_a_response(folder, tmp_path):
    codec, losses = Codec.load(folder), []
    prompt = codec.encode([{"role": "user", "content": TEXTS[0]}], ())
    samples = [Sample(prompt, codec.encode_response("go back"), ())] * 8
    trainer = train(TrainingJob(str(folder), 2.0, 2, RATE, log_every=1), codec, samples, tmp_path)
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert losses[-1] < losses[0] / 2


def test_screenshots_are_refused_in_one_line(folder, tmp_path, capsys):
    with pytest.raises(
        ConfigError, match=r"agent.screenshots = 2, but .* reads text only \(its config.json has no vision_config"
    ):
        check_screenshots(folder, AgentSection(screenshots=2))
    flags = ["--config", "sft", "--agent.screenshots", "1", "--model", str(folder), "--run-dir", str(tmp_path / "run")]
    assert main(["sft", *flags]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "set it to 0, or take a vision-language model" in said


def test_other_text_models_are_refused(folder, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(folder, other)
    config = (other / "config.json").read_text()
    for kind in ('"llama"', '"qwen2"', '"qwen3"'):
        config = config.replace(f'"model_type": {kind}', '"model_type": "gemma2"')
    (other / "config.json").write_text(config)
    with pytest.raises(ConfigError, match="'gemma2' are not supported"):
        Codec.load(other)


def test_memory_counts_the_weights(folder):
    assert parameters(folder, settings())[0] == sum(p.numel() for p in load_model(folder).parameters())
    assert 0 < parameters(folder, settings(4))[1] < 40_000
    weights, trained = parameters(folder, LocalSettings(freeze_vision=True))
    assert weights == trained, "there is no vision tower to freeze"
    assert all(p.requires_grad for p in LocalEngine(folder, LocalSettings(freeze_vision=True)).model.parameters())
