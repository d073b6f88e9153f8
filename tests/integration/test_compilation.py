"""`engine.compile`: the loss and every gradient of the layers as they are, compiled once for all layers and lengths."""

from __future__ import annotations

import shutil

import pytest
import torch
from torch._dynamo.utils import counters

from mobilerl.benchmarks.model_families import FAMILIES, create, png
from mobilerl.engines.local import LocalEngine, LocalSettings
from mobilerl.records import TrainingSample
from mobilerl.records.engine import Request, Sampling

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler on a CPU"),
    pytest.mark.usefixtures("one_thread"),
]
TEXTS = ("tap the button", "compare these two screens with care, and say what they are")


def samples(engine: LocalEngine, count: int) -> list[TrainingSample]:
    made = []
    for i in range(count):
        image = png(140 + 28 * i, 280, i)
        content = [{"type": "image"}, {"type": "text", "text": TEXTS[i % 2] * (i + 1)}]
        prompt = engine.codec.encode([{"role": "user", "content": content}], [image])
        response = engine.codec.encode_response(TEXTS[1])
        made.append(TrainingSample("t", i, prompt, response, (-1.0,) * len(response), (image,), 0, advantage=1 - i))
    return made


def learn(engine: LocalEngine, count: int) -> tuple[float, dict[str, torch.Tensor]]:
    metrics = engine.update(
        samples(engine, count), lambda micro: ((micro.weights * micro.logp).sum(), {}), "token-mean"
    )
    return metrics["loss"], {n: p.grad.clone() for n, p in engine.model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("lora_rank", [0, 4])
@torch._dynamo.config.patch(disable=False)  # as conftest.py does
def test_losses_and_gradients_are_those_of_layers_that_are_not_compiled(lora_rank, tmp_path):
    create(FAMILIES["Qwen2.5-VL"], tmp_path, TEXTS)
    found, compiled = [], []
    for compile in (False, True):
        torch.manual_seed(0)
        settings = LocalSettings(
            compile=compile, lora_rank=lora_rank, gradient_checkpointing=True, max_pixels=40_000, learning_rate=1e-4
        )
        engine = LocalEngine(tmp_path, settings)
        counters.clear()
        found.append([learn(engine, 2)])
        compiled.append(counters["stats"]["unique_graphs"])
        found[-1] += [learn(engine, 3), learn(engine, 1)]
        assert counters["stats"]["unique_graphs"] == compiled[-1], "it was compiled again for other lengths"
        asked = samples(engine, 1)[0]
        assert engine.generate([Request(asked.prompt_ids, asked.images, Sampling(0.0, 4))])[0].token_ids
    assert compiled[0] == 0 < compiled[1]
    for (loss, gradients), (wanted, theirs) in zip(*reversed(found), strict=True):
        assert loss == pytest.approx(wanted, rel=1e-5)
        assert gradients.keys() == theirs.keys()
        for name, gradient in theirs.items():
            scale = max(1.0, float(gradient.abs().max()))
            torch.testing.assert_close(gradients[name] / scale, gradient / scale, atol=1e-5, rtol=0, msg=name)
