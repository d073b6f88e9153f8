"""What a run's settings are in vLLM's own words."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig

from mobilerl.engines.codec import Codec

ROUNDED_UP = 64
"""Tokens of a row and a column of a picture that is small enough to be rounded up."""


@dataclass(frozen=True, slots=True)
class VllmSettings:
    """`max_prompt` and `max_new_tokens` are tokens of one call, `gpu_memory` a share, `timeout_s` seconds."""

    tensor_parallel: int = 1
    gpu_memory: float = 0.6
    max_prompt: int = 8192
    max_new_tokens: int = 64
    max_images: int = 1
    max_sequences: int = 256
    dtype: str = "float32"
    """Must be that of the weights that learn: else the same weights give other log-probabilities."""
    eager: bool = False
    timeout_s: float = 600.0
    """Longest start, refresh or call, its waiting included."""
    seed: int = 0
    threads: int = 0
    """CPU threads of a worker that has no GPU; 0: as vLLM chooses."""


def engine_arguments(folder: Path, codec: Codec, settings: VllmSettings) -> dict[str, Any]:
    """Keyword arguments of vLLM's `AsyncEngineArgs`, all of them plain data."""
    from_weights = AutoConfig.from_pretrained(folder).get_text_config().max_position_embeddings
    return {
        "model": str(folder),
        "load_format": "dummy",  # the learner's own weights follow: an adapter's folder has no others
        "generation_config": "vllm",  # a checkpoint's top-p or penalties would reshape what is sampled
        "logprobs_mode": "processed_logprobs",  # as drawn: at the temperature, over the allowed tokens
        "worker_extension_cls": "mobilerl.engines.vllm.worker.WeightLoader",
        "logits_processors": ["mobilerl.engines.vllm.worker:BannedTokens"],
        "additional_config": {"mobilerl_banned_ids": list(codec.banned_ids)},
        "mm_processor_kwargs": {"size": picture_limits(codec)},
        "limit_mm_per_prompt": {"image": settings.max_images, "video": 0},
        "skip_mm_profiling": not torch.cuda.is_available(),
        "max_model_len": min(settings.max_prompt + settings.max_new_tokens, from_weights),
        "max_num_seqs": settings.max_sequences,
        "tensor_parallel_size": settings.tensor_parallel,
        "gpu_memory_utilization": settings.gpu_memory,
        "dtype": settings.dtype,
        "enforce_eager": settings.eager,
        "enable_prefix_caching": True,
        "disable_log_stats": True,
        "seed": settings.seed,
    }


def picture_limits(codec: Codec) -> dict[str, int]:
    """Pixels of the pictures that vLLM's image processor takes as they are: they come in their final size.

    The lower limit is out of the way, since a picture that was cut down to the upper one may lie below it, and the
    upper one leaves room for a row and a column of patches by which small pictures are rounded up.
    """
    processor = codec.image_processor
    frames = processor.temporal_patch_size  # GLM counts a still image's pixels once for each
    longest = codec.max_pixels * frames if codec.max_pixels else processor.size["longest_edge"]
    return {"shortest_edge": 1, "longest_edge": longest + ROUNDED_UP * frames * codec.merge * processor.patch_size**2}


def environment(settings: VllmSettings) -> dict[str, str]:
    """Of the vLLM process. What the user has set of its own wins."""
    forced = {
        "VLLM_WORKER_MULTIPROC_METHOD": "spawn",  # the process has threads: a fork of it may hang
        "VLLM_USE_V2_MODEL_RUNNER": "0",  # the newer one does not have all that we ask for
        "VLLM_NO_USAGE_STATS": "1",
    }
    preferred: dict[str, str] = {}
    if not torch.cuda.is_available():
        # Learner and sampler take turns on the same cores: neither may claim some for itself.
        preferred = {"VLLM_CPU_OMP_THREADS_BIND": "nobind", "VLLM_CPU_KVCACHE_SPACE": "1"}
    if settings.threads:
        preferred["OMP_NUM_THREADS"] = str(settings.threads)
    return preferred | os.environ | forced
