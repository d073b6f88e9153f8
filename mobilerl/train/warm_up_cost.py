"""What a warm-up will cost, worked out before anything is started: samples, optimiser steps, memory, disk."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence

from mobilerl.config import Recipe
from mobilerl.train.cost_parts import MB, Item, Step
from mobilerl.train.memory_cost import PIXEL_CACHE_MB, PROCESS_MB, activation_mb
from mobilerl.train.model_shape import ModelShape


def warm_up_cost(
    recipe: Recipe, demonstrated: Sequence[int], shape: ModelShape, stages: Collection[int] = (1, 2)
) -> list[Item]:
    """`demonstrated`: the steps of an expert's run of every demonstrated template."""
    sft, step = recipe.sft, Step.of(recipe, shape)
    steps = sft.demos_per_template * sum(demonstrated)
    lessons = 0 if recipe.model else sft.lessons
    fresh = 1.0 + (sft.lesson_share if lessons else 0.0)
    stage1 = (steps * (1 + sft.single_steps) + (sft.source_steps if sft.sources else 0)) * fresh
    stage2 = steps * sft.candidates * fresh
    found = [
        Item("warm-up", "demonstrations", None, sft.demos_per_template * len(demonstrated), "",
             f"sft.demos_per_template x {len(demonstrated)} templates"),
        Item("warm-up", "demonstrated steps", None, steps, "", "at most: of the longest expert run of each template"),
    ]  # fmt: skip
    if lessons:
        reading = math.ceil((sft.recitals + lessons) / sft.lesson_batch)
        found.append(Item("warm-up", "optimiser steps, lessons", None, reading, "", "samples / sft.lesson_batch"))
    for stage, samples, times in ((1, stage1, sft.stage1_epochs), (2, stage2, sft.stage2_rounds * sft.stage2_epochs)):
        if stage in stages:
            made = math.ceil(samples * times / sft.batch_size)
            found.append(Item("warm-up", f"optimiser steps, stage {stage}", None, made, "",
                              f"{samples:.0f} samples x {times:g} epochs / {sft.batch_size}"))  # fmt: skip
    ranks = sft.nodes * max(1, sft.processes)
    others = ranks if sft.processes else 0
    found.append(Item("machines", "processes", None, 1 + others, "", f"this one, and {others} that train"))
    kept = (1 in stages) + sft.stage2_rounds * (2 in stages) + 1 + (0 if recipe.model else 3)
    return [*found, *_warm_up_memory(recipe, shape, step, ranks, steps), _checkpoints(recipe, shape, kept)]


def _warm_up_memory(recipe: Recipe, shape: ModelShape, step: Step, ranks: int, steps: int) -> Iterator[Item]:
    sft = recipe.sft
    trained = _trained(recipe, shape)
    split = {"zero3": (ranks, ranks), "zero2": (1, ranks)}.get(sft.deepspeed.removesuffix("-offload"), (1, 1))
    weights, state = 4 * shape.parameters / split[0] / MB, 12 * trained / split[1] / MB
    yield Item("memory", "weights", None, weights, "MiB", f"{shape.parameters / 1e6:.1f} M parameters, of one process")
    yield Item("memory", "gradients and optimiser", None, state, "MiB", f"{trained / 1e6:.1f} M parameters learn")
    rows = sft.micro_batch or math.ceil(sft.batch_size / ranks)
    tokens = sft.packing or rows * (step.prompt_tokens + recipe.agent.max_new_tokens)
    activations = activation_mb(recipe, shape, step, tokens, 4, sft.gradient_checkpointing)
    yield Item("memory", "activations", None, activations, "MiB", f"{rows} samples or {tokens} tokens at once")
    yield Item("memory", "screens and texts", None, steps * step.memory_bytes / MB, "MiB", "of the demonstrations")
    yield Item("memory", "this process", None, PROCESS_MB + PIXEL_CACHE_MB, "MiB", "Python, torch, cut-up pictures")


def _checkpoints(recipe: Recipe, shape: ModelShape, count: int) -> Item:
    checkpoint = 4 * (_trained(recipe, shape) if recipe.engine.lora_rank else shape.parameters) / MB
    return Item("disk", "checkpoints", None, count * checkpoint, "MiB", f"weights after {count} stages, final included")


def _trained(recipe: Recipe, shape: ModelShape) -> int:
    rank = recipe.engine.lora_rank
    return shape.trained_before or (shape.lora_parameters(rank) if rank else shape.parameters)
