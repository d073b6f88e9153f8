"""DPO through an engine: the numbers of a step, what steps do, the pairs' file, and going on after a stop."""

from __future__ import annotations

import copy
import math
from pathlib import Path

import pytest
import torch

from mobilerl.config import Recipe
from mobilerl.engines.local import LocalEngine, LocalSettings
from mobilerl.engines.scoring import sample_logprobs
from mobilerl.models import tiny
from mobilerl.reachagent.dpo import DpoTrainer, dpo_step
from mobilerl.reachagent.pair_files import PreferencePair, StoredPairs, write_pairs
from mobilerl.training.checkpoint import latest
from mobilerl.training.tracking import Tracker, read_metrics

pytestmark = pytest.mark.usefixtures("one_thread")
BETA = 0.3
RECIPE = Recipe(dpo={"beta": BETA, "epochs": 3}, sft={"batch_size": 2}, train={"checkpoint_every": 2})


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("tiny")
    torch.manual_seed(0)
    tiny.create(
        path,
        ["tap Save Cancel Notes open the list finish milk and bread"],
        hidden=32,
        layers=2,
        heads=2,
        vision_hidden=16,
    )
    return path


def engine_of(folder: Path, **settings) -> LocalEngine:
    return LocalEngine(folder, LocalSettings(learning_rate=2e-3, **settings))


@pytest.fixture(scope="module")
def pairs(folder) -> list[PreferencePair]:
    """Responses of different lengths to prompts of different lengths."""
    codec, made = engine_of(folder).codec, []
    for i, text in enumerate(("open the list", "milk", "Save the Notes and finish", "Cancel", "tap")):
        prompt = codec.encode([{"role": "user", "content": [{"type": "text", "text": f"{text}\n" * (i + 1)}]}], [])
        responses = codec.encode_response("tap Save"), codec.encode_response("tap Cancel and finish")
        made.append(PreferencePair(f"p{i}", prompt, (), *(responses if i % 2 else reversed(responses))))
    return made


def test_the_golden_number_of_a_step(folder, pairs):
    """Against the equation written out: -log sigmoid(beta ((w - w_ref) - (l - l_ref))), and its gradient by autograd.

    Every row is a micro-batch of its own in the engine, and all are in one here.
    """
    engine = engine_of(folder, micro_batch_tokens=1)
    reference = torch.tensor([[-9.0, -11.0], [-30.0, -28.0], [-12.0, -40.0]], dtype=torch.float64)
    model = copy.deepcopy(engine.accelerator.unwrap_model(engine.model))
    rows = [row for pair in pairs[:3] for row in pair.samples()]
    logp, mask = sample_logprobs(model, engine.codec, rows, 1.0, "cpu")
    w, l = (logp * mask).sum(1).view(3, 2).T  # noqa: E741 - the paper's letters
    margin = BETA * ((w - reference[:, 0].float()) - (l - reference[:, 1].float()))
    loss = torch.log1p(torch.exp(-margin)).mean()
    loss.backward()

    metrics = dpo_step(engine, pairs[:3], reference, BETA)
    assert metrics["train/loss"] == pytest.approx(loss.item(), abs=1e-5)
    assert metrics["dpo/margin"] == pytest.approx(margin.mean().item(), abs=1e-4)
    assert metrics["dpo/accuracy"] == pytest.approx((margin > 0).double().mean().item())
    expected = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    norm = math.sqrt(sum(float(g.pow(2).sum()) for g in expected.values()))
    assert metrics["train/grad_norm"] == pytest.approx(norm, rel=1e-4)
    for name, parameter in engine.accelerator.unwrap_model(engine.model).named_parameters():
        if name in expected:
            assert torch.allclose(parameter.grad, expected[name] / max(1.0, norm), atol=1e-5), name


class Stopped(RuntimeError):
    """What a killed run does not live to see."""


def train(folder: Path, pairs, run_dir: Path, stop_after: int | None = None, recipe=RECIPE) -> LocalEngine:
    engine = engine_of(folder)
    update, done = engine.update, []

    def stopping(*given):
        if len(done) == stop_after:
            raise Stopped
        done.append(1)
        return update(*given)

    engine.update = stopping
    with Tracker(run_dir) as tracker:
        DpoTrainer(engine, pairs, recipe, run_dir, tracker, first=4).run()
    return engine


def state_of(engine: LocalEngine) -> dict[str, torch.Tensor]:
    weights = {n: p.detach() for n, p in engine.accelerator.unwrap_model(engine.model).named_parameters()}
    moments = engine.optimizer.state_dict()["state"]
    return weights | {f"{i}/{name}": t for i, values in moments.items() for name, t in values.items()}


@pytest.mark.parametrize("stop_after", [1, 5])
def test_a_run_that_was_killed_ends_as_one_that_was_not(folder, pairs, tmp_path, stop_after):
    """Once before the first checkpoint, and once a step after the second."""
    whole = train(folder, pairs, tmp_path / "whole")
    with pytest.raises(Stopped):
        train(folder, pairs, tmp_path / "cut", stop_after)
    kept = latest(tmp_path / "cut")
    assert (kept and kept.name) == (None if stop_after == 1 else "iter-000008")
    resumed = train(folder, pairs, tmp_path / "cut")

    ours, theirs = state_of(resumed), state_of(whole)
    assert ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)
    rows = [
        [{k: v for k, v in row.items() if "time" not in k} for row in read_metrics(tmp_path / d / "metrics.jsonl")]
        for d in ("whole", "cut")
    ]
    assert rows[0] == rows[1] and [row["iteration"] for row in rows[0]] == [*range(5, 14)]
    assert {"train/loss", "dpo/accuracy", "dpo/margin", "train/grad_norm"} <= rows[0][0].keys()
    assert latest(tmp_path / "cut").name == "iter-000013"


def test_pairs_come_back(tmp_path):
    pairs = [
        PreferencePair("a", (1, 2), (b"png", b"other"), (3,), (4, 5), {"source": "agent"}),
        PreferencePair("b", (1,), (b"png",), (3, 6), (4,)),
    ]
    write_pairs(pairs, tmp_path)
    assert list(StoredPairs(tmp_path)) == pairs and StoredPairs(tmp_path)[-1] == pairs[1]
