"""Translates our settings into the configuration of verl's workers and servers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_module
from omegaconf import DictConfig, OmegaConf

from mobilerl.config import ClusterSection, EngineSection, OptimizerSection, VllmSection
from mobilerl.inference.vllm_arguments import image_arguments
from mobilerl.models.adapter_folder import is_adapter, read_adapter
from mobilerl.models.codec import Codec
from mobilerl.models.hub import base_folder
from mobilerl.records.engine import ADAM_BETAS

DTYPE = "bfloat16"
"""Precision of forward and backward passes and of vLLM; weights and optimizer state are float32."""
FROZEN = "mobilerl_freeze_vision"
"""Key of `override_config` that tells our worker whether to train the vision tower."""
ROLLOUT_WORKER = "mobilerl.engines.verl.rollout_worker.RolloutWorker"


@dataclass(frozen=True, slots=True)
class VerlSettings:
    """Settings of the engine. `max_new_tokens` limits a response, `max_images` the screenshots in a prompt."""

    engine: EngineSection
    optimizer: OptimizerSection
    cluster: ClusterSection
    vllm: VllmSection
    temperature: float
    max_new_tokens: int
    max_images: int

    @property
    def micro_batch_tokens(self) -> int:
        """`engine.micro_batch_tokens`, which is a number with this engine."""
        assert self.engine.micro_batch_tokens != "auto"
        return self.engine.micro_batch_tokens


def verl_config(model: Path, codec: Codec, settings: VerlSettings, reference: bool, device: str) -> DictConfig:
    """verl's default configuration overridden by our settings. `device` is verl's name of the accelerator.

    verl's trainer, losses and data pipeline are not used.
    """
    with initialize_config_module("verl.trainer.config", version_base=None):
        config = compose("ppo_trainer")
    OmegaConf.set_struct(config, False)
    cluster, is_lora = settings.cluster, bool(settings.engine.lora_rank) or is_adapter(model)
    changes = {
        "trainer": {"device": device, "nnodes": cluster.nodes, "n_gpus_per_node": cluster.gpus_per_node},
        "actor_rollout_ref": {
            "model": _model(model, settings),
            "actor": {**_actor(settings, is_lora), "optim": _optimizer(settings), "use_kl_loss": reference},
            "ref": {"strategy": "fsdp2", "fsdp_config": _sharding(settings), "log_prob_micro_batch_size_per_gpu": 1},
            "rollout": _rollout(codec, settings),
        },
    }
    return OmegaConf.merge(config, OmegaConf.create(changes), OmegaConf.from_dotlist(list(cluster.overrides)))


def _model(path: Path, settings: VerlSettings) -> dict[str, Any]:
    adapter = read_adapter(path) if is_adapter(path) else None
    return {
        "path": str((base_folder(path) if adapter else path).resolve()),  # workers run in other folders
        "lora_adapter_path": str(path.resolve()) if adapter else None,
        "use_remove_padding": False,
        "enable_gradient_checkpointing": settings.engine.gradient_checkpointing,
        # With "model_config" verl does not copy the rest into the model's own configuration.
        "override_config": {"attn_implementation": "sdpa", "model_config": {}, FROZEN: settings.engine.freeze_vision},
        # With rank 0 verl would ignore the adapter and train its base model.
        "lora_rank": settings.engine.lora_rank or (adapter["r"] if adapter else 0),
        "lora": {"merge": True},  # send merged weights to the servers
    }


def _actor(settings: VerlSettings, is_lora: bool) -> dict[str, Any]:
    kept = ["model", "optimizer", "extra"]
    return {
        "strategy": "fsdp2",
        "ppo_micro_batch_size_per_gpu": 1,  # required by verl, not used
        "fsdp_config": _sharding(settings, small_gradient=is_lora),
        "checkpoint": {"save_contents": kept, "load_contents": kept},
    }


def _sharding(settings: VerlSettings, small_gradient: bool = False) -> dict[str, Any]:
    """One GPU keeps the weights that it computes with for a whole step, instead of casting them anew in every layer.

    Gradients are reduced in the last micro-batch of a step where that takes no memory: before, all are as large as
    without sharding.
    """
    alone = settings.cluster.nodes * settings.cluster.gpus_per_node == 1
    return {
        "reshard_after_forward": not alone,
        "use_no_sync_for_gradient_accumulation": alone or small_gradient,
        "strategy": "fsdp2",
        "model_dtype": "fp32",
        "mixed_precision": {"param_dtype": DTYPE, "reduce_dtype": "float32", "buffer_dtype": "float32"},
        "use_torch_compile": False,
    }


def _optimizer(settings: VerlSettings) -> dict[str, Any]:
    optimizer = settings.optimizer
    return {
        "lr": optimizer.learning_rate,
        "betas": list(ADAM_BETAS),
        "weight_decay": optimizer.weight_decay,
        "clip_grad": optimizer.grad_clip,
        "lr_scheduler_type": "constant",
    }


def _rollout(codec: Codec, settings: VerlSettings) -> dict[str, Any]:
    vllm, response = settings.vllm, settings.max_new_tokens
    shares_gpus = settings.cluster.rollout_nodes == 0
    return {
        "name": "vllm",
        "nnodes": settings.cluster.rollout_nodes,
        "n_gpus_per_node": settings.cluster.gpus_per_node,
        "tensor_model_parallel_size": vllm.tensor_parallel,
        "gpu_memory_utilization": vllm.gpu_memory,
        "prompt_length": vllm.max_prompt,
        "response_length": response,
        "max_model_len": vllm.max_prompt + response,
        "max_num_batched_tokens": max(8192, vllm.max_prompt + response),
        "max_num_seqs": vllm.max_sequences,
        "dtype": DTYPE,
        "free_cache_engine": shares_gpus,
        "engine_kwargs": {
            "vllm": {**image_arguments(codec, settings.max_images), "worker_extension_cls": ROLLOUT_WORKER}
        },
        "log_prob_micro_batch_size_per_gpu": 1,
        "calculate_log_probs": True,
        "checkpoint_engine": {"backend": "naive" if shares_gpus else "nccl"},
    }
