"""How much memory a recipe will take: of this process, of its rollout workers, of a GPU under verl.

Estimates of what is likely to be the largest parts; docs/command-line.md says how they are worked out and how they
compare with a measured run.
"""

from __future__ import annotations

from collections.abc import Iterator

from mobilerl.config import Recipe
from mobilerl.engines.defaults import GENERATE_ROWS, GENERATE_TOKENS, PIXEL_CACHE_BYTES
from mobilerl.fleet import spare_devices
from mobilerl.train.cost_parts import MB, Item, Step, most_replayed
from mobilerl.train.model_shape import ModelShape

PROCESS_MB = 400
"""A process with torch, transformers and the engine imported; measured on Linux."""
PHONE_MB = 0.4
"""An embedded phone with some screens; measured."""
PIXEL_CACHE_MB = PIXEL_CACHE_BYTES / MB
"""Pictures cut into patches that a process keeps."""


def memory(recipe: Recipe, shape: ModelShape, step: Step, most_steps: float, budget: float) -> Iterator[Item]:
    """`most_steps`: of an iteration; `budget`: the mean step budget of a task."""
    yield from _model_memory(recipe, shape, step)
    workers = recipe.collect.workers if recipe.plays_in_workers else 0
    embedded = recipe.fleet.type == "embedded" and recipe.phone.suite == "sim"
    capacity = most_replayed(recipe)
    kept = capacity * budget * step.memory_bytes / MB
    one = f"{step.memory_bytes / 1024:.0f} KiB"
    yield Item("memory", "replay", 0, kept, "MiB", f"{capacity} trajectories of {budget:.1f} steps of {one}")
    playing = most_steps * step.memory_bytes / MB
    yield Item("memory", "an iteration's trajectories", None, playing, "MiB", "its steps, screenshots included")
    if embedded:
        yield Item("memory", "embedded phones", None, recipe.phone.count * PHONE_MB, "MiB", f"{PHONE_MB:g} each")
    elif recipe.fleet.type == "docker":
        count = recipe.phone.count + spare_devices(recipe)
        yield Item("memory", "containers", None, count * recipe.fleet.memory_mb, "MiB", "fleet.memory_mb each")
    pixels = min(PIXEL_CACHE_MB, (most_steps + capacity * budget) * step.image_tokens * shape.merge**2
                 * shape.patch_elements * 4 / MB)  # fmt: skip
    yield Item("memory", "this process", None, PROCESS_MB + pixels, "MiB", "Python, torch, pictures cut into patches")
    if workers:
        weights = 4 * shape.parameters / MB
        each = PROCESS_MB + weights + _generation_mb(recipe, shape, step, 4) + pixels
        yield Item("memory", "rollout workers", None, workers * each + playing, "MiB",
                   f"{workers} x (a process, weights, sampling), and their share of the trajectories")  # fmt: skip


def _model_memory(recipe: Recipe, shape: ModelShape, step: Step) -> Iterator[Item]:
    engine, rank = recipe.engine, recipe.engine.lora_rank
    trained = shape.trained_before or (shape.lora_parameters(rank) if rank else shape.parameters)
    total = shape.parameters + (trained if rank and not shape.trained_before else 0)
    if engine.type == "verl":
        yield from _verl_memory(recipe, shape, step, total, trained)
        return
    # What learns is float32 everywhere, as is the optimiser's state; what is frozen is as the device computes.
    size, on = 4, "on a CPU; frozen ones 2 on a GPU"
    yield Item("memory", "weights", None, size * total / MB, "MiB", f"{total / 1e6:.1f} M parameters, 4 bytes {on}")
    if recipe.algorithm.loss.kl_coef and not rank and not shape.trained_before:
        yield Item("memory", "reference weights", None, size * total / MB, "MiB", "a copy for algorithm.loss.kl_coef")
    yield Item("memory", "gradients", None, size * trained / MB, "MiB", f"{trained / 1e6:.1f} M parameters learn")
    yield Item("memory", "optimiser", None, 2 * size * trained / MB, "MiB", "two moments of AdamW")
    tokens = max(engine.micro_tokens, step.prompt_tokens + recipe.agent.max_new_tokens)
    activations = activation_mb(recipe, shape, step, tokens, size)
    yield Item("memory", "activations", None, activations, "MiB", f"a micro-batch of {tokens} tokens")
    if not recipe.plays_in_workers and engine.sampler == "own":
        yield Item("memory", "sampling", None, _generation_mb(recipe, shape, step, size), "MiB",
                   "keys and values of the rows sampled at once, and reading their prompts")  # fmt: skip


def _verl_memory(recipe: Recipe, shape: ModelShape, step: Step, total: int, trained: int) -> Iterator[Item]:
    gpus = recipe.cluster.nodes * recipe.cluster.gpus_per_node
    state = (4 * total + 12 * trained) / gpus / MB
    where = "in main memory while not used" if recipe.cluster.offload else "on every GPU"
    yield Item("memory of a GPU", "weights, gradients, optimiser", None, state, "MiB",
               f"{total / 1e6:.0f} M x 4 + {trained / 1e6:.0f} M x 12 bytes over {gpus} GPUs, {where}")  # fmt: skip
    size = 2 if recipe.cluster.dtype == "bfloat16" else 4
    gathered = size * max(total / max(1, shape.layers), shape.vocabulary * shape.hidden) / MB
    yield Item("memory of a GPU", "gathered layer", None, gathered, "MiB", "the largest unit FSDP puts together")
    tokens = max(recipe.engine.micro_tokens, step.prompt_tokens + recipe.agent.max_new_tokens)
    activations = activation_mb(recipe, shape, step, tokens, size, recipe.cluster.checkpointing)
    yield Item("memory of a GPU", "activations", None, activations, "MiB", f"a micro-batch of {tokens} tokens")


def activation_mb(recipe: Recipe, shape: ModelShape, step: Step, tokens: int, size: int,
                  recompute: bool | None = None) -> float:  # fmt: skip
    """Of forward and backward of one micro-batch of `tokens`, in MiB; `size`: bytes of an element.

    A decoder layer keeps about 8 h + 3 (q + 2 k) + q + 4 f elements a token: inputs of the norms and their float32
    copies, projections before and after rotation, the attention's output, and gate, up, activation and product. With
    recomputation it keeps its input, h, and one layer at a time is held in full. Logits are float32, made for replies
    alone, and are held three times: as the model gives them, over the temperature, and as a gradient.
    """
    recompute = recipe.engine.recompute if recompute is None else recompute
    h, q, k = shape.hidden, shape.queries, shape.keys
    full = 8 * h + 3 * (q + 2 * k) + q + 4 * shape.inner
    kept = shape.layers * h + full if recompute else shape.layers * full
    row = step.prompt_tokens + recipe.agent.max_new_tokens
    rows = max(1, tokens // row)
    logits = 12.0 * rows * (recipe.agent.max_new_tokens + 1) * shape.vocabulary
    patches = rows * recipe.agent.screenshots * step.image_tokens * shape.merge**2
    vision_layer = 16 * shape.vision_hidden + 4 * shape.vision_inner
    vision = patches * (shape.vision_layers * vision_layer * size + shape.patch_elements * 4.0)
    return (size * tokens * kept + logits + vision) / MB


def _generation_mb(recipe: Recipe, shape: ModelShape, step: Step, size: int) -> float:
    """Keys and values of the rows sampled at once, twice while the cache grows, and one layer's share of a prefill."""
    rows = max(1, min(GENERATE_ROWS, GENERATE_TOKENS // step.prompt_tokens, recipe.phone.count))
    tokens = rows * (step.prompt_tokens + recipe.agent.max_new_tokens)
    cache = 2.0 * tokens * shape.layers * 2 * shape.keys * size
    prompt = rows * step.prompt_tokens * (4 * shape.hidden + 4 * shape.inner) * size
    patches = rows * recipe.agent.screenshots * step.image_tokens * shape.merge**2
    vision = patches * (8 * shape.vision_hidden + 4 * shape.vision_inner) * size + patches * shape.patch_elements * 4
    return (cache + prompt + vision + 8.0 * rows * shape.vocabulary) / MB
