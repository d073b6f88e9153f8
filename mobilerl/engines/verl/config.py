"""From a recipe to the configuration that verl's workers and servers read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_module
from omegaconf import DictConfig, OmegaConf

from mobilerl.config import Recipe
from mobilerl.engines.codec import Codec
from mobilerl.engines.defaults import ADAM_BETAS
from mobilerl.engines.loading import ADAPTER_FILE
from mobilerl.engines.vllm.settings import picture_limits


def verl_config(model: Path, codec: Codec, recipe: Recipe, reference: bool, device: str) -> DictConfig:
    """verl's own defaults with the recipe's settings over them. `device` is what verl calls the accelerator.

    Only what verl does for us is set: how weights are sharded, optimised, saved, sent and served. Its trainer, its
    losses and its data pipeline are not used.
    """
    with initialize_config_module("verl.trainer.config", version_base=None):
        config = compose("ppo_trainer")
    OmegaConf.set_struct(config, False)
    cluster = recipe.cluster
    ours = {
        "trainer": {"device": device, "nnodes": cluster.nodes, "n_gpus_per_node": cluster.gpus_per_node},
        "actor_rollout_ref": {
            "model": _model(model, recipe),
            "actor": {**_trained(recipe), "optim": _optimizer(recipe), "use_kl_loss": reference},
            "ref": {"strategy": "fsdp2", "fsdp_config": _sharding(recipe), "log_prob_micro_batch_size_per_gpu": 1},
            "rollout": _rollout(codec, recipe),
        },
    }
    return OmegaConf.merge(config, OmegaConf.create(ours), OmegaConf.from_dotlist(list(cluster.overrides)))


def _model(path: Path, recipe: Recipe) -> dict[str, Any]:
    file = path / ADAPTER_FILE
    adapter = json.loads(file.read_text()) if file.is_file() else None
    return {
        "path": _base(adapter) if adapter else str(path.resolve()),
        "lora_adapter_path": str(path.resolve()) if adapter else None,
        "use_remove_padding": False,
        "enable_gradient_checkpointing": recipe.cluster.checkpointing,
        "override_config": {"attn_implementation": recipe.cluster.attention},
        # Where no rank is told, verl leaves an adapter out and trains its base.
        "lora_rank": recipe.engine.lora_rank or (adapter["r"] if adapter else 0),
        "lora": {"merge": True},  # the servers get whole weights, as with full training
    }


def _base(adapter: dict[str, Any]) -> str:
    """In full, since workers run in folders of their own."""
    name = adapter["base_model_name_or_path"]
    return str(Path(name).resolve()) if Path(name).is_dir() else name


def _trained(recipe: Recipe) -> dict[str, Any]:
    kept = ["model", "optimizer", "extra"]
    return {
        "strategy": "fsdp2",
        "ppo_micro_batch_size_per_gpu": 1,  # verl asks for a number; micro-batches are cut by tokens in `sharding`
        "fsdp_config": _sharding(recipe),
        "checkpoint": {"save_contents": kept, "load_contents": kept},
    }


def _sharding(recipe: Recipe) -> dict[str, Any]:
    cluster = recipe.cluster
    return {
        "strategy": "fsdp2",
        "model_dtype": "fp32",
        "mixed_precision": {"param_dtype": cluster.dtype, "reduce_dtype": "float32", "buffer_dtype": "float32"},
        "param_offload": cluster.offload,
        "optimizer_offload": cluster.offload,
        "use_torch_compile": False,
    }


def _optimizer(recipe: Recipe) -> dict[str, Any]:
    engine = recipe.engine
    return {
        "lr": engine.learning_rate,
        "betas": list(ADAM_BETAS),
        "weight_decay": engine.weight_decay,
        "clip_grad": engine.grad_clip,
        "lr_scheduler_type": "constant",
    }


def _rollout(codec: Codec, recipe: Recipe) -> dict[str, Any]:
    vllm, reply = recipe.vllm, recipe.agent.max_new_tokens
    shares_gpus = recipe.cluster.rollout_nodes == 0
    return {
        "name": "vllm",
        "nnodes": recipe.cluster.rollout_nodes,
        "n_gpus_per_node": recipe.cluster.gpus_per_node,
        "tensor_model_parallel_size": vllm.tensor_parallel,
        "gpu_memory_utilization": vllm.gpu_memory,
        "prompt_length": vllm.max_prompt,
        "response_length": reply,
        "max_model_len": vllm.max_prompt + reply,
        "max_num_batched_tokens": max(8192, vllm.max_prompt + reply),
        "max_num_seqs": vllm.max_sequences,
        "dtype": vllm.dtype if vllm.dtype != "auto" else recipe.cluster.dtype,
        "enforce_eager": vllm.eager,
        "free_cache_engine": shares_gpus,
        "engine_kwargs": {"vllm": {"mm_processor_kwargs": {"size": picture_limits(codec)}}},
        "log_prob_micro_batch_size_per_gpu": 1,
        "calculate_log_probs": True,
        "checkpoint_engine": {"backend": "naive" if shares_gpus else "nccl"},
    }
