"""Loading of models from checkpoint folders (full weights or LoRA adapters), precision, and gradient checkpointing."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.utils import logging

from mobilerl.models.adapter_folder import is_adapter
from mobilerl.models.adapters import add_adapter, check_tensors, leave_casts_to_autocast, list_names
from mobilerl.models.alignment import align_vision_mlps
from mobilerl.models.attention import use_concatenated_attention
from mobilerl.models.hub import base_folder
from mobilerl.models.linear_attention import separate_rows
from mobilerl.models.patch_embedding import multiply_patches
from mobilerl.models.response_head import use_response_head
from mobilerl.models.text_models import is_text_model

if TYPE_CHECKING:
    from peft import PeftModel
    from transformers import PreTrainedModel

    from mobilerl.models.codec import Codec

LORA_TARGETS = (
    r".*\.layers\.\d+\.\w+\.(q_proj|k_proj|v_proj|o_proj|gate_proj|up_proj|gate_up_proj|down_proj"
    r"|in_proj_qkv|in_proj_z|in_proj_b|in_proj_a|out_proj)"
)
"""All linear layers of the language model; the vision tower stays frozen."""


def save_model(model: PreTrainedModel, codec: Codec, path: Path, state: dict[str, Tensor] | None = None) -> None:
    """Writes a Hugging Face folder of weights or of an adapter. `state`: the gathered weights if they are sharded.

    Raises ValueError, before anything is written, if trained weights are NaN or infinite.
    """
    trained = state if state is not None else {n: p for n, p in model.named_parameters() if p.requires_grad}
    if broken := [n for n, w in trained.items() if w.is_floating_point() and not w.isfinite().all()]:
        raise ValueError(f"the weights are not finite ({list_names(broken)}), so they are not saved")
    model.save_pretrained(path, **({} if state is None else {"state_dict": state}))
    if hasattr(model, "peft_config"):  # PEFT does not write these for an adapter, but the codec reads both
        model.config.save_pretrained(path)
        model.generation_config.save_pretrained(path)
    codec.save(path)


def compute_dtype() -> torch.dtype:
    """Precision of matrix multiplications on this machine."""
    return torch.bfloat16 if torch.cuda.is_available() else torch.float32


def load_model(path: Path, learns: bool = False) -> PreTrainedModel:
    """Loads a checkpoint folder with full weights or a LoRA adapter (which names its base model).

    Trained weights are float32, since three digits of bfloat16 are too few for a step of 1e-6: an adapter always (with
    its base in `compute_dtype`), full weights with `learns`. Raises ValueError if tensors are missing, unknown or of
    another shape; transformers would initialize those of the model at random. Raises ConfigError for an adapter that
    has no base model here, or changes nothing.
    """
    if is_adapter(path):
        return add_adapter(_load_full(base_folder(path), compute_dtype()), path)
    return _load_full(path, torch.float32 if learns else compute_dtype())


def model_class(config: Any) -> Any:
    """The class of transformers that loads a model with this config."""
    return AutoModelForCausalLM if is_text_model(config) else AutoModelForImageTextToText


def _load_full(path: Path | str, dtype: torch.dtype, **options: Any) -> PreTrainedModel:
    """Loads full weights; `options` are passed to `from_pretrained`."""
    verbosity = logging.get_verbosity()
    logging.set_verbosity(logging.CRITICAL)  # its report of wrong tensors would precede our error
    try:
        model, info = model_class(AutoConfig.from_pretrained(path)).from_pretrained(
            path,
            dtype=dtype,
            attn_implementation="sdpa",
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # they are reported below
            **options,
        )
    finally:
        logging.set_verbosity(verbosity)
    mismatched = [entry[0] if isinstance(entry, tuple) else entry for entry in info["mismatched_keys"]]
    check_tensors(path, info["missing_keys"], info["unexpected_keys"], mismatched)
    prepare_model(model)
    return model


def prepare_model(model: torch.nn.Module) -> None:
    """Replaces the attention of a new model, which packed rows need, its output layer, and what is slow in its vision
    tower."""
    use_concatenated_attention(model)
    separate_rows(model)
    align_vision_mlps(model)
    multiply_patches(model)
    use_response_head(model)


def load_without_data(path: Path) -> PreTrainedModel:
    """The model of a checkpoint folder without the values of its full weights, which takes no memory for them.

    Raises the errors of `load_model`.
    """
    model = _load_full(base_folder(path) if is_adapter(path) else path, compute_dtype(), device_map="meta")
    if is_adapter(path):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns about copies into a model without data
            return add_adapter(model, path)
    return model


def add_lora(model: PreTrainedModel, rank: int) -> PeftModel:
    """Adds LoRA adapters to all linear layers of the language model; the vision tower stays frozen."""
    from peft import LoraConfig, get_peft_model

    adapted = get_peft_model(model, LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=LORA_TARGETS))
    leave_casts_to_autocast(adapted)
    return adapted


def freeze_vision(model: torch.nn.Module) -> None:
    """Excludes the vision tower, if any, with its projection into the language model, from training."""
    for name, weight in model.named_parameters():
        if name.startswith("model.visual."):
            weight.requires_grad_(False)


def enable_gradient_checkpointing(model: torch.nn.Module) -> None:
    """Recomputes each layer in the backward pass. Results are identical bit for bit.

    The switch of transformers depends on training mode, which is global to the model and would disable the cache of a
    generation in another thread. This one depends on whether gradients are recorded, which is set per thread.
    """
    for layer in model.modules():
        if isinstance(layer, GradientCheckpointingLayer):
            layer.forward = partial(_forward_checkpointed, layer.forward)


def _forward_checkpointed(forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    if not torch.is_grad_enabled():
        return forward(*args, **kwargs)
    if "past_key_values" in kwargs:  # the second pass would add to the cache again
        kwargs["past_key_values"] = None
    return checkpoint(forward, *args, use_reentrant=False, **kwargs)
