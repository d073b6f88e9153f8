"""Samples from checkpoints of any model family through verl's servers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

from mobilerl.algorithms.objectives import clipped
from mobilerl.config import load_recipe
from mobilerl.engines.local import LocalEngine, LocalSettings
from mobilerl.engines.registry import make_trainer_engine
from mobilerl.engines.verl import engine
from mobilerl.records.engine import Request, Sampling
from mobilerl_verl_cpu.flags import engine_flags
from mobilerl_verl_cpu.launch import ray_cluster
from mobilerl_verl_cpu.session import ask, complaint, gap, rows_of, samples_of, screens

MAX_PIXELS = 60_000
WORKER = "mobilerl_verl_cpu.sleep.Slept"


VERLS = "actor_rollout_ref."


def compared(model: str, *flags: str) -> dict[str, Any]:
    """What a server draws from a checkpoint, beside what the trainer and the local engine make of it.

    Flags without dashes are settings of verl.
    """
    with ray_cluster(1):
        return _compared(Path(model), flags)


def _compared(model: Path, flags: Sequence[str]) -> dict[str, Any]:
    worker = f"actor_rollout_ref.rollout.engine_kwargs.vllm.worker_extension_cls={WORKER}"
    own = engine_flags(worker, *(flag for flag in flags if flag.startswith(VERLS)))
    settings = ["--cluster.gpus_per_node", "1", "--engine.max_pixels", str(MAX_PIXELS), "--model", str(model)]
    settings += ["--engine.micro_batch_tokens", "1", "--algorithm.learning_rate", "1e-2"]
    recipe = load_recipe("base/tiny-model", [*own, *settings, *(flag for flag in flags if not flag.startswith(VERLS))])
    verl = make_trainer_engine(recipe)
    requests = [ask(verl, *screen) for screen in screens(recipe)]
    # Before any image: a prompt with one clears what a sleep has left.
    said = [{"type": "text", "text": "Open the clock"}]
    text = [Request(verl.codec.encode([{"role": "user", "content": said}], []), (), Sampling(1.0, 8))]
    read = rows_of(verl.generate(text), text)
    text_gap = gap(verl.logprobs(read), [row.rollout_logprobs for row in read])
    verl.publish()
    with patch.object(engine, "collapse", lambda ids, _: list(ids)):
        expanded = complaint(lambda: verl.generate(requests[:1]))
    rows = rows_of(verl.generate(requests), requests)
    scored = verl.logprobs(rows)
    optimizer = {"learning_rate": recipe.algorithm.learning_rate, "warmup_steps": recipe.algorithm.warmup_steps}
    frozen = recipe.engine.freeze_vision
    local, other = (
        LocalEngine(model, LocalSettings(max_pixels=MAX_PIXELS, freeze_vision=freeze, **optimizer))
        for freeze in (frozen, not frozen)
    )
    local_scored = local.logprobs(rows)
    for learner in (verl, local, other):  # one with a micro-batch per sample, the others with one for all
        learner.update(samples_of(rows, None), clipped(recipe.algorithm.loss), "token-mean")
    learned = verl.logprobs(rows)
    local_learned = local.logprobs(rows)
    verl.close()
    return {
        "expanded": expanded,
        "text_gap": text_gap,
        "rollout_gap": gap(scored, [row.rollout_logprobs for row in rows]),
        "local_gap": gap(scored, local_scored),
        "moved": gap(learned, scored),
        "learned_gap": gap(learned, local_learned),
        "vision_gap": gap(local_learned, other.logprobs(rows)),
    }
