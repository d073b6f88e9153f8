"""What an update costs a worker besides the model: full-size screens, a tiny model, verl's workers without servers.

    python -m mobilerl_verl_cpu.speed FOLDER [SAMPLES [PIXELS [SETTING ...]]]

with `launch.environment`, which this program sets where it is missing. FOLDER: made on the first call. Prints seconds,
of the clock and of the worker's CPU, of each call of an iteration: old log-probabilities, then two epochs of two steps.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import psutil

from mobilerl_verl_cpu.launch import environment

EPOCHS, STEPS = 2, 2
SIZE = (1080, 2400)
LAYERS = 24
SETTINGS = "--engine.micro_batch_tokens 4096 --cluster.gpus_per_node 1 --algorithm.loss.kl_coef 0"


def prepared(folder: Path, count: int, pixels: int) -> list[Any]:
    """`count` samples of experts on full-size screens for the untrained model in `folder`, both made if missing."""
    from mobilerl.benchmarks import samples
    from mobilerl.envs.phone.env import PhoneEnv
    from mobilerl.models.codec import Codec
    from mobilerl.records.batches import keep_batches, read_batches

    if not (folder / "config.json").is_file():
        samples.make_checkpoint(folder, 64, LAYERS)
    kept = folder / f"samples-{count}-{pixels}"
    if not kept.is_dir():
        found = samples.rows_of(PhoneEnv("speed", *SIZE), Codec.load(folder, pixels))
        list(keep_batches(kept, 0, [list(islice(found, count))], keep=1))
    (rows,) = read_batches(kept / "batches" / "iter-000000")
    return [
        replace(row, rollout_logprobs=(-1.0,) * len(row.response_ids), advantage=(-1.0) ** i)
        for i, row in enumerate(rows)
    ]


@contextmanager
def trainer(model: Path, pixels: int, settings: Sequence[str]) -> Iterator[Any]:
    """The engine with one worker and no servers."""
    from mobilerl.config import load_recipe
    from mobilerl.engines.registry import make_trainer_engine
    from mobilerl.engines.verl import engine
    from mobilerl_verl_cpu.flags import engine_flags
    from mobilerl_verl_cpu.launch import ray_cluster

    own = engine_flags("actor_rollout_ref.rollout.checkpoint_engine.backend=gloo")
    flags = [*own, "--cluster.rollout_nodes", "1", "--engine.max_pixels", str(pixels), *SETTINGS.split(), *settings]
    recipe = load_recipe("base/tiny-model", [*flags, "--model", str(model)])
    nobody = SimpleNamespace(get_replicas=list, get_client=lambda: None)
    with ExitStack() as stack:
        stack.enter_context(ray_cluster(1))
        stack.enter_context(patch.object(engine.Cluster, "join", lambda _: SimpleNamespace(leave=lambda: None)))
        stack.enter_context(patch.object(engine.LLMServerManager, "create", lambda *_, **__: nobody))
        verl = make_trainer_engine(recipe)
        yield verl, recipe
        verl.close()


def worker() -> psutil.Process:
    """The busiest of Ray's workers: the one that learns."""
    below = psutil.Process().children(recursive=True)
    return max(below, key=lambda p: p.memory_info().rss if "Policy" in " ".join(p.cmdline()) else 0)


def timed(process: psutil.Process, name: str, call: Callable[[], Any]) -> tuple[float, float]:
    def spent() -> float:
        times = process.cpu_times()
        return times.user + times.system

    began, before = time.perf_counter(), spent()
    said = call()
    wall, cpu = time.perf_counter() - began, spent() - before
    print(
        f"{name:12} {wall:6.2f} s {cpu:6.2f} s of the worker's CPU", said if isinstance(said, dict) else "", flush=True
    )
    return wall, cpu


def main(folder: str, count: str = "96", pixels: str = "500000", *settings: str) -> None:
    from mobilerl.algorithms.objectives import clipped

    rows = prepared(Path(folder), int(count), int(pixels))
    size = -(-len(rows) // STEPS)
    with trainer(Path(folder), int(pixels), settings) as (verl, recipe):
        objective, aggregation = clipped(recipe.algorithm.loss), recipe.algorithm.loss.loss_aggregation
        process = worker()
        timed(process, "warmup", lambda: verl.update(rows[-1:], objective, aggregation))
        old: list[Any] = []
        spent = [timed(process, "logprobs", lambda: old.extend(verl.logprobs(rows)))]
        rows = [replace(row, rollout_logprobs=values) for row, values in zip(rows, old, strict=True)]
        for epoch in range(EPOCHS):
            for step in range(STEPS):
                part = rows[step * size : (step + 1) * size]
                spent.append(
                    timed(process, f"update {epoch}.{step}", lambda p=part: verl.update(p, objective, aggregation))
                )
    wall, cpu = (sum(values) for values in zip(*spent, strict=True))
    print(f"total        {wall:6.2f} s {cpu:6.2f} s of the worker's CPU", flush=True)


if __name__ == "__main__":
    if os.environ.get("MOBILERL_VERL_CPU") != "1":
        temp = tempfile.mkdtemp(prefix="mr", dir="/tmp")
        os.execve(
            sys.executable,
            [sys.executable, "-m", "mobilerl_verl_cpu.speed", *sys.argv[1:]],
            os.environ | environment(Path(temp)),
        )
    main(*sys.argv[1:])
