"""SFT with a gradient that is not finite: once, and at every step."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from mobilerl.models import tiny
from mobilerl.models.codec import Codec
from mobilerl.sft import trainer as module
from mobilerl.sft.callbacks import LogCallback
from mobilerl.sft.samples import Sample
from mobilerl.sft.trainer import TrainingJob, train
from mobilerl.training.skipping import NotFinite

pytestmark = pytest.mark.usefixtures("one_thread")
STEPS, BATCH = 6, 2


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("base") / "tiny"
    torch.manual_seed(0)
    tiny.create(folder, ["open the settings"], hidden=16, layers=1, heads=2, vision_hidden=16)
    return folder


@pytest.fixture
def trained(base, tmp_path, monkeypatch):
    """(steps whose gradient is infinite) -> log entries, weights before and after."""
    load = module.trainable_model

    def run(*broken: int):
        entries, before = [], {}

        def loaded(job):
            model = load(job)
            before.update({name: p.detach().clone() for name, p in model.named_parameters()})
            step = iter(range(1, STEPS + 1))
            weight = model.get_output_embeddings().weight
            weight.register_hook(lambda gradient: gradient * (torch.inf if next(step) in broken else 1.0))
            return model

        monkeypatch.setattr(module, "trainable_model", loaded)
        codec = Codec.load(base)
        ids = tuple(codec.tokenizer("open the settings")["input_ids"])
        samples = [Sample(ids[: 1 + i % 2], ids, ()) for i in range(STEPS * BATCH)]
        job = TrainingJob(str(base), 1.0, BATCH, 1e-2, log_every=1)
        log = LogCallback(lambda step, total, loss, rate, skipped: entries.append((step, loss, skipped)))
        model = train(job, codec, samples, tmp_path, [log]).model
        return entries, before, dict(model.named_parameters())

    return run


def test_a_step_whose_gradient_is_not_finite_is_skipped(trained):
    entries, before, after = trained(2, 3)
    assert [(step, skipped) for step, _, skipped in entries] == [(1, 0), (2, 1), (3, 2), (4, 2), (5, 2), (6, 2)]
    assert all(p.isfinite().all() for p in after.values())
    assert entries[-1][1] < entries[0][1] and any(not torch.equal(p, before[n]) for n, p in after.items())


def test_steps_that_are_always_skipped_end_the_training(trained):
    with pytest.raises(NotFinite, match="SFT: NaN or infinity in the gradient of .*weight, so 3 optimizer steps"):
        trained(2, 3, 4)
