"""The calculated memory of one GPU, for models of published sizes without weights."""

from __future__ import annotations

from pathlib import Path

import pytest
from transformers import Qwen3VLConfig

from mobilerl.benchmarks.gpu.shapes import SHAPES, make_folder
from mobilerl.config import EngineSection, load_recipe
from mobilerl.doctor import machine
from mobilerl.models.memory import GB, OWN, estimate_memory, smallest_card

RECIPES = Path(__file__).parents[2] / "recipes" / "gpu"
QWEN3_4B = {
    "text_config": {
        "vocab_size": 151936,
        "hidden_size": 2560,
        "intermediate_size": 9728,
        "num_hidden_layers": 36,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "tie_word_embeddings": True,
    },
    "vision_config": {
        "depth": 24,
        "hidden_size": 1024,
        "intermediate_size": 4096,
        "out_hidden_size": 2560,
        "deepstack_visual_indexes": [5, 11, 17],
    },
    "tie_word_embeddings": True,
}


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    make_folder(SHAPES["3B"], folder / "3B")
    Qwen3VLConfig(**QWEN3_4B).save_pretrained(folder / "4B")
    return {"qwen2.5-vl-3b-lora": folder / "3B", "qwen3-vl-4b-lora": folder / "4B"}


@pytest.mark.parametrize("name", ["qwen2.5-vl-3b-lora", "qwen3-vl-4b-lora"])
def test_a_recipe_of_one_gpu_fits_where_it_says(models, name, monkeypatch):
    recipe = load_recipe(RECIPES / f"{name}.toml", ["--model", str(models[name])])
    assert recipe.rollout.workers == 0 and recipe.algorithm.loss.recompute_old_logprobs
    assert smallest_card(recipe) == 24
    for card, flags in (
        (48, "--engine.micro_batch_tokens 16384 --vllm.gpu_memory 0.6"),
        (80, "--engine.micro_batch_tokens 8192 --vllm.gpu_memory 0.6 --engine.gradient_checkpointing false"),
    ):
        larger = load_recipe(RECIPES / f"{name}.toml", ["--model", str(models[name]), *flags.split()])
        assert 24 < smallest_card(larger) <= card
    monkeypatch.setattr(machine, "gpu_bytes", lambda: 16 * GB)
    check = machine.gpu_memory(recipe)
    assert check.state == "warning" and "vllm.gpu_memory" in check.fix and "of 16 (calculated)" in check.detail


def test_weights_and_optimizer_are_counted(models):
    published = 3.75e9  # parameters of Qwen2.5-VL-3B
    model = models["qwen2.5-vl-3b-lora"]
    everything = estimate_memory(model, EngineSection(lora_rank=0), 512, 1)
    assert everything.held - OWN == pytest.approx(12 * published, rel=0.01)
    adapters = 64 * 36 * (2 * 4096 + 2 * (2048 + 256) + 3 * (2048 + 11008))
    lora = estimate_memory(model, EngineSection(), 512, 1)
    assert lora.held - OWN == pytest.approx(2 * published + 12 * adapters, rel=0.01)
    kept = estimate_memory(model, EngineSection(gradient_checkpointing=False), 512, 1)
    assert kept.learning > lora.learning + 10 * GB, "without recomputation every layer's activations are kept"
