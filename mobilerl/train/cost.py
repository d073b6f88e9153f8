"""What a recipe will cost, worked out before anything is started: episodes, optimiser steps, memory, disk.

Counts are bounds: the lower ones need every episode to end at its first step, the upper ones every episode to use its
step budget and every dropped group to be collected again. Disk is, as memory in `memory_cost`, an estimate of what is
likely to be the largest parts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from mobilerl.config import Recipe
from mobilerl.fleet import spare_devices
from mobilerl.train.cost_parts import MB, TOKEN_BYTES, Item, Step, most_replayed
from mobilerl.train.memory_cost import memory
from mobilerl.train.model_shape import ModelShape

STEP_JSON_BYTES = 9600
"""One step in replay.jsonl or in a file of trajectories, its XML included; measured."""


def training_cost(recipe: Recipe, budgets: Sequence[int], shape: ModelShape) -> list[Item]:
    """`budgets`: the most steps of every training task."""
    step = Step.of(recipe, shape)
    counts = list(_counts(recipe, budgets))
    most_steps = next(item.high for item in counts if item.what == "steps in an iteration")
    budget = sum(budgets) / len(budgets)
    return [*counts, *_processes(recipe), *memory(recipe, shape, step, most_steps, budget),
            *_disk(recipe, shape, step, budget)]  # fmt: skip


# --- counts ------------------------------------------------------------------------------------------------------


def _counts(recipe: Recipe, budgets: Sequence[int]) -> Iterator[Item]:
    collect, credit, train = recipe.collect, recipe.algorithm.credit, recipe.train
    budget = sum(budgets) / len(budgets)
    spares = spare_devices(recipe)
    yield Item("devices", "devices", None, recipe.phone.count + spares, "", f"phone.count + {spares} spares")
    yield Item("devices", "training tasks", None, len(budgets), "", f"mean step budget {budget:.1f}")

    groups = collect.tasks_per_iteration
    most_groups = groups * (1 + (credit.max_refills if credit.drop_constant_groups else 0))
    episodes, most_episodes = groups * collect.group_size, most_groups * collect.group_size
    yield Item("iteration", "groups", groups, most_groups, "", "tasks_per_iteration, and as many for every refill")
    yield Item("iteration", "episodes", episodes, most_episodes, "", f"groups x {collect.group_size}")
    most_steps = most_episodes * budget
    yield Item("iteration", "steps in an iteration", episodes, most_steps, "", "1 to the step budget of an episode")
    low, high = _optimiser_steps(recipe, most_steps)
    how = "train.updates" if train.updates else "rows / (mini_batch without its replayed share), x passes"
    yield Item("iteration", "optimiser steps", low, high, "", how)

    n = train.iterations
    stops = [f"{train.max_minutes:g} minutes"] if train.max_minutes else []
    ends = f"{n} iterations" + (f", unless {' or '.join(stops)} end it" if stops else "")
    most_run_steps = n * most_steps
    if train.max_env_steps is not None:
        most_run_steps = min(most_run_steps, train.max_env_steps + most_steps)
        ends += f", at most {train.max_env_steps} steps and the iteration they end in"
    least = 0 if stops else n * episodes
    yield Item("run", "episodes", least, min(n * most_episodes, most_run_steps), "", ends)
    yield Item("run", "steps on devices", least, most_run_steps, "", "also calls of the model, and rows to learn from")
    before = recipe.offline.updates if recipe.offline.trajectories else 0
    yield Item("run", "optimiser steps", before + (0 if stops else n * low), before + n * high, "",
               f"{before} of them on stored trajectories" if before else ends)  # fmt: skip
    yield Item("run", "generated tokens", None, most_run_steps * recipe.agent.max_new_tokens, "",
               "every reply as long as agent.max_new_tokens allows")  # fmt: skip


def _optimiser_steps(recipe: Recipe, most_rows: float) -> tuple[int, int]:
    """Of one iteration, as `train/learner.py` makes them; none when every group was constant."""
    train, replay = recipe.train, recipe.algorithm.replay
    if train.updates:
        return 0, train.updates
    gamma = 0.0 if replay.type == "none" else replay.gamma
    room = max(1, train.mini_batch - math.floor(gamma * train.mini_batch))
    return 0, train.passes * max(1, round(most_rows / room))


def _processes(recipe: Recipe) -> Iterator[Item]:
    if recipe.engine.type == "verl":
        cluster = recipe.cluster
        gpus = (cluster.nodes + cluster.rollout_nodes) * cluster.gpus_per_node
        yield Item("machines", "GPUs", None, gpus, "", f"{cluster.nodes} + {cluster.rollout_nodes} nodes")
        yield Item("machines", "processes", None, 1 + gpus, "", "this one and one a GPU, besides Ray's and vLLM's own")
        return
    workers = recipe.collect.workers if recipe.plays_in_workers else 0
    vllm = 1 + recipe.vllm.tensor_parallel if recipe.engine.sampler == "vllm" else 0
    yield Item("machines", "processes", None, 1 + workers + vllm, "",
               f"this one, {workers} rollout workers, {vllm} of vLLM")  # fmt: skip


# --- disk --------------------------------------------------------------------------------------------------------


def _disk(recipe: Recipe, shape: ModelShape, step: Step, budget: float) -> Iterator[Item]:
    train = recipe.train
    trained = shape.trained_before or (
        shape.lora_parameters(recipe.engine.lora_rank) if recipe.engine.lora_rank else shape.parameters
    )
    step_bytes = STEP_JSON_BYTES + TOKEN_BYTES / 4 * step.prompt_tokens + step.png_bytes
    capacity = most_replayed(recipe)
    one = (12 * trained + capacity * budget * step_bytes) / MB
    yield Item("disk", "checkpoints", None, (train.keep_checkpoints + 1) * one, "MiB",
               f"{train.keep_checkpoints} kept and one being written: weights, optimiser, replay")  # fmt: skip
    written = 1 + train.iterations // train.trajectories_every if train.trajectories_every else 0
    screens = written * train.trajectories_kept * budget * step_bytes / MB
    yield Item("disk", "trajectories and screens", 0, screens, "MiB",
               f"{train.trajectories_kept} trajectories of {written} iterations")  # fmt: skip


def disk_total(items: Sequence[Item]) -> float:
    """MiB at most in the run directory."""
    return sum(item.high for item in items if item.group == "disk")


def memory_total(items: Sequence[Item]) -> float:
    """MiB at most: of this process and its workers, on a machine without a GPU."""
    return sum(item.high for item in items if item.group == "memory" and item.what != "containers")
