"""Calculates the memory that a recipe needs on one GPU (docs/gpu.md); `mobilerl bench gpu` measures it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mobilerl.config import EngineSection, Recipe

GB = 1e9
OWN = 1.5 * GB
"""Memory taken by CUDA and torch themselves (assumed)."""
TEXT_TOKENS = 1000
"""Prompt length without image tokens (assumed)."""
TINY = 4 * GB
"""Memory up to which a model is trained on a CPU."""
CARDS = (16, 24, 40, 48, 80, 141, 180)


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory in bytes without vLLM: while learning, and held all the time."""

    learning: float
    held: float


def parameters(folder: str | Path, engine: EngineSection) -> tuple[int, int]:
    """Number of parameters of a model, and of those that are trained."""
    import torch
    from transformers import AutoConfig

    from mobilerl.models.loading import model_class

    config = AutoConfig.from_pretrained(folder)
    with torch.device("meta"):
        model = model_class(config).from_config(config)
    weights = sum(p.numel() for p in model.parameters())
    if engine.lora_rank:
        return weights, engine.lora_rank * _count_adapted(model)
    visual = [p for name, p in model.named_parameters() if name.startswith("model.visual.")]
    frozen = visual if engine.freeze_vision else ()
    return weights, weights - sum(p.numel() for p in frozen)


def estimate_memory(folder: str | Path, engine: EngineSection, max_new_tokens: int, screenshots: int) -> Memory:
    """Memory that the local engine needs on a GPU to train the checkpoint `folder`."""
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(folder)
    weights, trained = parameters(folder, engine)
    if engine.lora_rank:  # the base in bfloat16; adapters, gradients and AdamW's two moments in float32
        held, states = 2 * weights + 12 * trained, 2 * weights + 16 * trained
    else:
        held, states = 4 * weights + 8 * trained, 4 * weights + 12 * trained
    return Memory(states + _activations(config, engine, max_new_tokens, screenshots) + OWN, held + OWN)


def _count_adapted(model: Any) -> int:
    """Sum of the rows and columns of all matrices that LoRA adapts."""
    from mobilerl.models.loading import LORA_TARGETS

    adapted = [m for name, m in model.named_modules() if re.fullmatch(LORA_TARGETS, name)]
    return sum(m.in_features + m.out_features for m in adapted)


def _activations(config: Any, engine: EngineSection, max_new_tokens: int, screenshots: int) -> float:
    """Bytes of activations for the largest micro-batch."""
    from mobilerl.models.response_head import LOGITS

    text, vision = config.get_text_config(), getattr(config, "vision_config", None)
    side = vision.patch_size * vision.spatial_merge_size if vision else 1
    image = screenshots * (engine.max_pixels or 2048 * 1024) // side**2 if vision else 0
    row = image + TEXT_TOKENS + max_new_tokens
    tokens = row if engine.micro_batch_tokens == "auto" else max(engine.micro_batch_tokens, row)
    rows = tokens // row
    wide = 2 if engine.lora_rank else 4  # bytes per hidden state
    language = _tower(text.num_hidden_layers, text.hidden_size, text.intermediate_size, wide, tokens, engine)
    logits = 16 * min(LOGITS, text.vocab_size * rows * max_new_tokens)
    if not vision:
        return language + logits
    patches = rows * image * vision.spatial_merge_size**2
    tower = _tower(vision.depth, vision.hidden_size, vision.intermediate_size, wide, patches, engine)
    if engine.lora_rank or engine.freeze_vision:  # without a gradient none of the tower's activations are kept
        tower = _layer(vision.hidden_size, vision.intermediate_size) * patches
    return language + tower + logits


def _tower(depth: int, hidden: int, inner: int, wide: int, tokens: int, engine: EngineSection) -> float:
    if engine.gradient_checkpointing:
        return (wide * hidden * depth + _layer(hidden, inner)) * tokens
    return depth * _layer(hidden, inner) * tokens


def _layer(hidden: int, inner: int) -> int:
    """Bytes per token that the backward pass of a layer needs."""
    return 6 * inner + 24 * hidden


@dataclass(frozen=True, slots=True)
class Fit:
    """Bytes that a recipe needs, vLLM included, on a GPU with `card` bytes."""

    learning: float
    sampling: float
    card: float

    @property
    def ok(self) -> bool:
        return max(self.learning, self.sampling) <= self.card

    def __str__(self) -> str:
        parts = f"about {self.learning / GB:.1f} GB while learning and {self.sampling / GB:.1f} while sampling"
        return f"{parts}, of {self.card / GB:.0f} (calculated)"


def fit(recipe: Recipe, card: float) -> Fit | None:
    """Whether a GPU with `card` bytes suffices for the recipe; None if that cannot be calculated."""
    if recipe.engine.type == "verl" or not recipe.model or not (Path(recipe.model) / "config.json").is_file():
        return None
    memory = estimate_memory(recipe.model, recipe.engine, recipe.agent.max_new_tokens, recipe.agent.screenshots)
    vllm = recipe.vllm.gpu_memory * card if recipe.engine.type == "vllm" else 0.0
    beside_learning = 0.0 if recipe.vllm.sleeps(recipe.rollout.max_staleness) else vllm
    return Fit(memory.learning + beside_learning, memory.held + vllm, card)


def smallest_card(recipe: Recipe) -> int | None:
    """Memory in GB of the smallest common GPU that suffices for the recipe; None if none does or more are needed."""
    fits = [(card, fit(recipe, card * GB)) for card in CARDS]
    return next((card for card, found in fits if found and found.ok), None)


def hardware(recipe: Recipe) -> str:
    """What the recipe needs to train, in words; "" if that cannot be calculated."""
    tiny = fit(recipe, TINY)
    if tiny and tiny.ok and recipe.engine.type == "local":
        return f"a CPU is enough: the model needs {tiny.learning / GB:.1f} GB, as calculated"
    card = smallest_card(recipe)
    return f"one GPU of {card} GB is enough, as calculated (docs/gpu.md); a CPU needs none" if card else ""
