"""The engine of many GPUs beside the local one, on the same weights and rows."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import psutil
import torch
from verl.workers.engine.fsdp import FSDPEngine

from mobilerl.algorithms.objectives import clipped, with_rollout_gap
from mobilerl.config import ConfigError, Recipe, load_recipe
from mobilerl.engines.local import LocalEngine, LocalSettings
from mobilerl.engines.registry import make_trainer_engine
from mobilerl.engines.verl import cluster
from mobilerl.engines.verl.cluster import Cluster
from mobilerl.engines.verl.engine import STATE_FILE, VerlEngine
from mobilerl.engines.verl.worker import PolicyEngine
from mobilerl.envs.phone.tasks import suite
from mobilerl.inference.engine_policy import StreamPolicy
from mobilerl.records import Completion, MicroBatch, TrainingSample
from mobilerl.records.batches import keep_batches, read_batches
from mobilerl.records.engine import EngineError, Request, Sampling, SkippedStep
from mobilerl.suites.phone.training import make_phones
from mobilerl.training.checkpoint import load_engine
from mobilerl.training.setup import make_collector
from mobilerl_verl_cpu.flags import ENGINE_FLAGS
from mobilerl_verl_cpu.launch import ray_cluster

ADVANTAGES = (1.0, -1.0, 0.5, -0.5, 2.0)
"""Odd in number, so that two processes never have equal work."""


def screens(recipe: Recipe) -> list[tuple[str, bytes]]:
    phone = make_phones(recipe.phone, 1)[0]
    tasks = suite.train_tasks(1)[: len(ADVANTAGES)]
    return [(task.instruction, asyncio.run(phone.reset(task)).screenshot) for task in tasks]


def ask(engine: LocalEngine | VerlEngine, instruction: str, png: bytes) -> Request:
    said = [{"type": "text", "text": instruction}]
    if engine.codec.image_processor is None:
        return Request(engine.codec.encode([{"role": "user", "content": said}], ()), (), Sampling(1.0, 8))
    said.insert(0, {"type": "image"})
    return Request(engine.codec.encode([{"role": "user", "content": said}], [png]), (png,), Sampling(1.0, 8))


def rows_of(done: Sequence[Completion], requests: Sequence[Request]) -> list[TrainingSample]:
    return [
        TrainingSample(f"t{i // 2}", i % 2, c.prompt_ids, c.token_ids, c.logprobs, r.images, c.version)
        for i, (c, r) in enumerate(zip(done, requests, strict=True))
    ]


def gap(a: Iterable[Sequence[float]], b: Iterable[Sequence[float]]) -> float:
    return max(abs(x - y) for p, q in zip(a, b, strict=True) for x, y in zip(p, q, strict=True))


async def played(verl: VerlEngine, recipe: Recipe) -> dict[str, Any]:
    """A group as a run collects it, and one that is given up while its responses are being drawn."""
    task = suite.train_tasks(1)[0]
    collector = make_collector(recipe, verl, make_phones(recipe.phone, 3), in_process=True)
    async with collector:
        groups = await collector.collect([task], "whole", 3)
        await collector.dispatch(task, "given-up", 3)
        async with asyncio.timeout(600):
            while not verl.requests.running:
                await asyncio.sleep(0.001)
    rows = [row for group in groups for t in group.trajectories for row in t.samples()]
    scored = verl.logprobs(rows)  # where GPUs are shared, not before servers are done with what was given up
    left = verl.requests.running if recipe.cluster.rollout_nodes == 0 else 0
    verl.publish()
    return {
        "streams": isinstance(collector.actor.policy, StreamPolicy),
        "rows": len(rows),
        "versions": [row.version for row in rows],
        "gap": gap(scored, [row.rollout_logprobs for row in rows]),
        "left": left,
    }


def samples_of(rows: Sequence[TrainingSample], reference: Sequence[tuple[float, ...]] | None) -> list[TrainingSample]:
    return [
        replace(row, advantage=a, ref_logprobs=reference[i] if reference else None)
        for i, (row, a) in enumerate(zip(rows, ADVANTAGES, strict=True))
    ]


def iteration(
    verl: VerlEngine, local: LocalEngine, requests: Sequence[Request], recipe: Recipe, folder: Path
) -> dict[str, Any]:
    """Samples, scores, updates both engines from one file of mini-batches, and publishes.

    Asks for more while the weights are being learned.
    """
    done = verl.generate(requests)
    rows = rows_of(done, requests)
    logprobs = verl.logprobs(rows)
    anchored = recipe.algorithm.loss.kl_coef > 0
    reference = verl.logprobs(rows, reference=True) if anchored else None
    batch = samples_of(rows, reference)
    list(keep_batches(folder, verl.version, [batch], keep=1))
    [batch] = read_batches(folder / "batches" / f"iter-{verl.version:06d}")
    objective = with_rollout_gap(clipped(recipe.algorithm.loss))
    early = [verl.submit(r) for r in requests]  # the GPUs are the learner's since `logprobs`
    measured = {
        "versions": [c.version for c in done],
        "lengths": [len(c.token_ids) for c in done],
        "rollout_gap": gap(logprobs, [r.rollout_logprobs for r in rows]),
        "local_gap": gap(logprobs, local.logprobs(rows)),
        "reference_gap": gap(reference, local.logprobs(rows, reference=True)) if anchored else 0.0,
        "verl": verl.update(batch, objective, recipe.algorithm.loss.loss_aggregation),
        "local": local.update(batch, objective, recipe.algorithm.loss.loss_aggregation),
        "answered_early": sum(f.done() for f in early),
    }
    verl.publish()
    local.publish()
    return {**measured, "answered_later": [f.result(600).version for f in early]}


def not_finite_in_one_process(micro: MicroBatch) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """The gradient is finite everywhere."""
    loss = (micro.weights * micro.logp).sum()
    return loss + torch.nan if (micro.advantage == max(ADVANTAGES)).any() else loss, {}


def skipped(verl: VerlEngine, local: LocalEngine, batch: Sequence[TrainingSample]) -> dict[str, Any]:
    """What both engines say of a loss that is not finite, and what it does to the weights."""
    before, steps, said = verl.logprobs(batch), verl.steps, []
    for engine in (verl, local):
        try:
            engine.update(batch, not_finite_in_one_process, "token-mean")
        except SkippedStep as skip:
            said.append(str(skip))
    return {"said": said, "moved": gap(verl.logprobs(batch), before), "steps": verl.steps - steps}


def resumed(
    verl: VerlEngine, local: LocalEngine, model: Path, folder: Path, requests: Sequence[Request], recipe: Recipe
) -> dict[str, Any]:
    """Saves, learns on, loads, learns the same again."""
    rows = rows_of(verl.generate(requests), requests)
    objective, agg = clipped(recipe.algorithm.loss), recipe.algorithm.loss.loss_aggregation
    kept = verl.logprobs(rows)
    batch = samples_of(rows, kept if recipe.algorithm.uses_reference else None)
    skips = skipped(verl, local, batch)
    folder.mkdir()
    verl.save(folder)
    verl.update(batch, objective, agg)
    moved = verl.logprobs(rows)
    verl.load(folder)
    restored = verl.logprobs(rows)
    verl.update(batch, objective, agg)
    again = verl.logprobs(rows)
    verl.publish()
    state = folder / STATE_FILE
    state.write_text(json.dumps(json.loads(state.read_text()) | {"processes": 4}))
    return {
        "skipped": skips,
        "of_other_gpus": complaint(lambda: load_engine(folder, verl)),
        "rollout_gap": gap(kept, [r.rollout_logprobs for r in rows]),
        "learned": gap(kept, LocalEngine(model, LocalSettings()).logprobs(rows)),
        "folder_gap": gap(LocalEngine(folder, LocalSettings()).logprobs(rows), kept),
        "local_gap": gap(local.logprobs(rows), kept),
        "moved": gap(moved, kept),
        "restored_gap": gap(restored, kept),
        "repeated_gap": gap(again, moved),
        "version": verl.generate(requests[:1])[0].version,
    }


def complaint(call: Callable[[], object]) -> str:
    try:
        call()
    except (ConfigError, EngineError, ValueError) as error:
        return str(error)
    return ""


def lost(verl: VerlEngine, requests: Sequence[Request]) -> str:
    """What a request hears after the vLLM processes were killed."""
    _, server = psutil.Process().parents()[:2]  # the parents are this fork's guard and the server of all forks
    for process in server.children(recursive=True):
        with suppress(psutil.Error):
            if "EngineCore" in " ".join(process.cmdline()):
                process.kill()
    return complaint(lambda: verl.generate(requests))


def sent_in(precision: str) -> list[str]:
    """Precisions in which weights leave a trainer that computes in `precision`; the sessions compute in float32."""
    held = [("weight", torch.ones(2)), ("places", torch.ones(2, dtype=torch.int64))]
    engine = object.__new__(PolicyEngine)
    engine.engine_config = SimpleNamespace(mixed_precision={"param_dtype": precision})
    with patch.object(FSDPEngine, "get_per_tensor_param", lambda self: (iter(held), None)):
        weights, _ = engine.get_per_tensor_param()
    return [str(weight.dtype) for _, weight in weights]


def beside_the_local_engine(model: str | Path, folder: str | Path, *settings: str) -> dict[str, Any]:
    """`model`: a checkpoint written by `mobilerl.models.tiny.create`; `folder`: for another. The settings are flags."""
    model, folder = Path(model), Path(folder)
    recipe = load_recipe("base/tiny-model", [*ENGINE_FLAGS, "--cluster.gpus_per_node", "2", *settings])
    engine, anchored = recipe.engine, recipe.algorithm.loss.kl_coef > 0
    with ray_cluster(2):
        with patch.object(cluster, "CPUS_PER_GPU", 5):
            few_cpus = complaint(lambda: Cluster.join(recipe.cluster))
        apart = recipe.cluster.model_copy(update={"gpus_per_node": 1, "rollout_nodes": 1})
        no_cupy = complaint(lambda: Cluster.join(apart))
        few = complaint(lambda: Cluster.join(recipe.cluster.model_copy(update={"gpus_per_node": 3})))
        verl = make_trainer_engine(recipe.model_copy(update={"model": str(model)}))
        local = LocalEngine(
            model,
            LocalSettings(
                learning_rate=recipe.algorithm.learning_rate,
                warmup_steps=recipe.algorithm.warmup_steps,
                micro_batch_tokens=engine.micro_batch_tokens,
                lora_rank=engine.lora_rank,
                reference=anchored,
            ),
        )
        requests = [ask(verl, *screen) for screen in screens(recipe)]
        steps = [iteration(verl, local, requests, recipe, folder.with_suffix(".kept")) for _ in range(2)]
        result: dict[str, Any] = {"steps": steps}
        if not engine.lora_rank:  # rounded weights would hide what episodes are to show
            result["played"] = asyncio.run(played(verl, recipe))
        result |= resumed(verl, local, model, folder, requests, recipe)
        result |= {"too_few": few, "too_few_cpus": few_cpus, "no_cupy": no_cupy}
        result["too_long"] = complaint(lambda: verl.submit(replace(requests[0], prompt_ids=(1,) * 2000)))
        result["sent"] = {name: sent_in(name) for name in ("bfloat16", "float32")}
        result["lost"] = lost(verl, requests)
        verl.close()
    return result
