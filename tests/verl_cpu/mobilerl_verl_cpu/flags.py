"""Settings of `mobilerl train` for the engine of many GPUs at a size that two CPU cores bear."""

from __future__ import annotations

import json

VERL_SETTINGS = (
    "actor_rollout_ref.actor.fsdp_config.mixed_precision.param_dtype=float32",
    "actor_rollout_ref.ref.fsdp_config.mixed_precision.param_dtype=float32",
) + tuple(
    f"actor_rollout_ref.rollout.{setting}"
    for setting in (
        "dtype=float32",
        "enforce_eager=true",
        "checkpoint_engine.update_weights_bucket_megabytes=16",
        "max_num_batched_tokens=2048",
        "free_cache_engine=false",  # a CPU has no memory of its own to hand back and forth
        "enable_sleep_mode=false",
        "engine_kwargs.vllm.skip_mm_profiling=true",
        "engine_kwargs.vllm.distributed_executor_backend=uni",  # one process fewer for each server
    )
)


def engine_flags(*overrides: str) -> tuple[str, ...]:
    """`overrides`: further settings of verl."""
    return (
        *"""--engine.type verl --engine.micro_batch_tokens 1024 --engine.gradient_checkpointing false
    --vllm.max_prompt 1024 --vllm.max_sequences 8""".split(),
        "--cluster.overrides",
        json.dumps([*VERL_SETTINGS, *overrides]),
    )


ENGINE_FLAGS = engine_flags()
