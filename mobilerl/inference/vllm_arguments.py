"""How vLLM is started as a sampler: its environment and its engine arguments."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig

from mobilerl.config import ConfigError, VllmSection
from mobilerl.inference.vllm_adapter import RANKS
from mobilerl.models.adapter_folder import is_adapter
from mobilerl.models.codec import Codec
from mobilerl.models.hub import base_folder
from mobilerl.models.linear_attention import has_linear_attention
from mobilerl.models.loading import compute_dtype

ROUNDED_UP = 64
"""Tokens in a row and a column of an image that is small enough to be rounded up."""


@dataclass(frozen=True, slots=True)
class AdapterShape:
    """What vLLM reserves for a LoRA adapter: its highest rank, and last parts of the names of the adapted modules."""

    rank: int
    modules: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class VllmSettings:
    """`max_new_tokens` is per request; `threads` are CPU threads of a worker without a GPU (0 for vLLM's default)."""

    vllm: VllmSection
    max_new_tokens: int = 64
    max_images: int = 1
    seed: int = 0
    threads: int = 0
    adapter: AdapterShape | None = None
    """The adapter that vLLM applies; None if all weights are sent."""


def set_environment(settings: VllmSettings) -> None:
    """Sets environment variables for vLLM. The user's own take precedence where vLLM works with other values."""
    os.environ |= {
        "MOBILERL_TRAINER_PID": str(os.getpid()),
        "VLLM_WORKER_MULTIPROC_METHOD": "spawn",  # this process has threads: a fork may hang
        # On a CPU, 1 would start another process, which computes for the engine's.
        "VLLM_ENABLE_V1_MULTIPROCESSING": str(int(torch.cuda.is_available())),
        "VLLM_USE_V2_MODEL_RUNNER": "0",  # the newer one lacks custom logits processors
        "VLLM_ENGINE_READY_TIMEOUT_S": str(int(settings.vllm.timeout_s)),
    }
    defaults = {"VLLM_NO_USAGE_STATS": "1", "VLLM_LOGGING_LEVEL": "ERROR"}
    if not torch.cuda.is_available():
        # Trainer and sampler take turns on the same cores, so neither may reserve any.
        defaults |= {"VLLM_CPU_OMP_THREADS_BIND": "nobind", "VLLM_CPU_KVCACHE_SPACE": "1"}
    if settings.threads:
        defaults["OMP_NUM_THREADS"] = str(settings.threads)
    for name, value in defaults.items():
        os.environ.setdefault(name, value)


def engine_arguments(folder: Path, codec: Codec, settings: VllmSettings) -> dict[str, Any]:
    """Keyword arguments of vLLM's `AsyncEngineArgs`."""
    vllm = settings.vllm
    if is_adapter(folder):
        folder = base_folder(folder)
    config = AutoConfig.from_pretrained(folder)
    positions = config.get_text_config().max_position_embeddings
    return {
        "model": str(folder),
        "load_format": "dummy",  # the trainer sends the weights
        "generation_config": "vllm",  # ignore top-p and penalties of the checkpoint
        "logprobs_mode": "processed_logprobs",  # at the temperature, over the allowed tokens
        "worker_extension_cls": "mobilerl.inference.vllm_worker.WeightLoader",
        "logits_processors": ["mobilerl.inference.vllm_worker:BannedTokens"],
        "additional_config": {"mobilerl_banned_ids": list(codec.banned_ids)},
        "skip_mm_profiling": not torch.cuda.is_available(),
        "max_model_len": min(vllm.max_prompt + settings.max_new_tokens, positions),
        "max_num_seqs": vllm.max_sequences,
        "tensor_parallel_size": vllm.tensor_parallel,
        "gpu_memory_utilization": vllm.gpu_memory,
        "enable_sleep_mode": bool(vllm.sleep),
        "dtype": str(_dtype(config)).removeprefix("torch."),
        "enforce_eager": not torch.cuda.is_available(),
        "enable_prefix_caching": True,
        "disable_log_stats": True,
        "seed": settings.seed,
        **image_arguments(codec, settings.max_images),
        **_adapter_arguments(settings.adapter),
        **read_overrides(vllm.overrides),
    }


def _dtype(config: Any) -> torch.dtype:
    """Precision of vLLM: on a CPU it computes linear attention in bfloat16 only."""
    rounds = has_linear_attention(config) and not torch.cuda.is_available()
    return torch.bfloat16 if rounds else compute_dtype()


def _adapter_arguments(adapter: AdapterShape | None) -> dict[str, Any]:
    if adapter is None:
        return {}
    return {
        "enable_lora": True,
        "max_loras": 1,
        "max_lora_rank": min(rank for rank in RANKS if rank >= adapter.rank),
        # Otherwise it would also compute adapters of the embeddings and of all logits.
        "lora_target_modules": list(adapter.modules),
    }


def read_overrides(overrides: Iterable[str]) -> dict[str, Any]:
    """Engine arguments from words name=value, with values in JSON or, failing that, text."""
    arguments = {}
    for name, _, text in (word.partition("=") for word in overrides):
        try:
            arguments[name] = json.loads(text)
        except ValueError:
            arguments[name] = text
    return arguments


def check_names(overrides: Iterable[str], known: Collection[str]) -> None:
    """Raises ConfigError for a word that is not name=value with one of vLLM's arguments as its name."""
    for word in overrides:
        name, equals, _ = word.partition("=")
        if not equals or name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise ConfigError(f"vllm.overrides: {word!r} is not name=value with an engine argument of vLLM{hint}")


def image_arguments(codec: Codec, most: int) -> dict[str, Any]:
    """Engine arguments for prompts with at most `most` images; none for a text model."""
    if codec.image_processor is None:
        return {}
    return {"mm_processor_kwargs": {"size": image_limits(codec)}, "limit_mm_per_prompt": {"image": most, "video": 0}}


def image_limits(codec: Codec) -> dict[str, int]:
    """Limits with which vLLM's image processor leaves images unchanged, since `Images.scaled` already scaled them.

    An image scaled down to the upper limit may be below the lower one, and small images are rounded up by a row and a
    column of patches.
    """
    processor = codec.image_processor
    frames = processor.temporal_patch_size  # GLM counts a still image's pixels once per frame
    longest = codec.max_pixels * frames if codec.max_pixels else processor.size["longest_edge"]
    return {"shortest_edge": 1, "longest_edge": longest + ROUNDED_UP * frames * codec.merge * processor.patch_size**2}
