"""Puts LoRA adapters on their base models, also those of other tools and of older versions of transformers."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors.torch import load_file
from torch import Tensor

from mobilerl.config import ConfigError
from mobilerl.models.adapter_folder import ADAPTER_WEIGHTS, adapter_base
from mobilerl.models.checkpoint_folder import STATE_FILE
from mobilerl.models.text_models import is_text_model

if TYPE_CHECKING:
    from peft import PeftConfig, PeftModel

PREFIX = "base_model.model."
"""PEFT's prefix of every tensor."""
NAMED = 3
"""Maximum number of tensors that a message names."""
TRAINER_FILES = (STATE_FILE, "trainer.pt")
"""Training state, beside which an adapter may be as new as the run."""
_RENAMED = (
    (re.compile(r"^visual\."), "model.visual."),
    (re.compile(r"^model\.(?!language_model\.|visual\.)"), "model.language_model."),
    (re.compile(r"(\.lora_\w+)\.default\."), r"\1."),
)
"""Names of Qwen2.5-VL before transformers 4.52, which are also those of a language model without a vision tower, and of
an adapter saved as part of its model. transformers translates the former in full checkpoints only."""


def add_adapter(model: torch.nn.Module, path: Path) -> PeftModel:
    """Adds the adapter in the folder `path` to its base model, trainable.

    Raises ValueError if its tensors do not fit the model, ConfigError if it does not change the model at all.
    """
    from peft import PeftConfig, PeftModel

    saved = load_file(path / ADAPTER_WEIGHTS)
    if _changes_nothing(saved) and not any((path / name).is_file() for name in TRAINER_FILES):
        raise ConfigError(
            f"{path / ADAPTER_WEIGHTS}: every lora_B is zero, so the adapter does not change its base model "
            f"{adapter_base(path)}: it is untrained, or its training saved no weights; use the base model, or another "
            "checkpoint of that training"
        )
    config = PeftConfig.from_pretrained(str(path))
    config.inference_mode = False
    config.base_model_name_or_path = adapter_base(path)  # checkpoints of its training are in other folders
    tensors = _rename_tensors(saved, model)
    if tensors.keys() != saved.keys():
        _aim_at(config, tensors)
    adapted = PeftModel(model, config)
    leave_casts_to_autocast(adapted)
    load_adapter(adapted, path, tensors)
    return adapted


def load_adapter(model: torch.nn.Module, path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Copies an adapter's tensors, from the folder `path`, into a model with such an adapter. Raises ValueError."""
    from peft import get_peft_model_state_dict, set_peft_model_state_dict

    wanted = get_peft_model_state_dict(model).keys()
    check_tensors(path, wanted - tensors.keys(), tensors.keys() - wanted)
    set_peft_model_state_dict(model, dict(tensors))


def read_adapter_tensors(path: Path, model: torch.nn.Module) -> dict[str, Tensor]:
    """The tensors of an adapter for `model` under their present names."""
    return _rename_tensors(load_file(path / ADAPTER_WEIGHTS), model)


def _rename_tensors(tensors: Mapping[str, Tensor], model: torch.nn.Module) -> dict[str, Tensor]:
    if is_text_model(model.config):  # the old names of a vision-language model's are today's
        return dict(tensors)
    return {PREFIX + _present_name(name.removeprefix(PREFIX)): tensor for name, tensor in tensors.items()}


def _present_name(name: str) -> str:
    for old, new in _RENAMED:
        name = old.sub(new, name)
    return name


def _aim_at(config: PeftConfig, tensors: Iterable[str]) -> None:
    """Makes an adapter's settings, which use the old names of modules, fit the present names of its tensors."""
    adapted = {name.removeprefix(PREFIX).partition(".lora_")[0] for name in tensors if ".lora_" in name}
    config.target_modules = adapted
    config.exclude_modules = config.layers_to_transform = config.layers_pattern = None
    for pattern in (config.rank_pattern, config.alpha_pattern):
        for name in list(pattern):
            pattern[_present_name(name)] = pattern.pop(name)


def _changes_nothing(tensors: Mapping[str, Tensor]) -> bool:
    """Whether an adapter, which may also hold whole tensors, consists of low-rank updates that are zero."""
    ups = [tensor for name, tensor in tensors.items() if re.search(r"\.lora_(embedding_)?B\b", name)]
    others = [name for name in tensors if not re.search(r"\.lora_(embedding_)?[AB]\b", name)]
    return bool(ups) and not others and not any(tensor.any() for tensor in ups)


def leave_casts_to_autocast(model: torch.nn.Module) -> None:
    """Stops peft from casting the input of every adapter to float32, which autocast would cast back to bfloat16."""
    for module in model.modules():
        if hasattr(module, "cast_input_dtype_enabled"):
            module.cast_input_dtype_enabled = False  # type: ignore[assignment]  # torch declares tensors and modules


def check_tensors(
    path: Path | str, missing: Collection[str], unknown: Collection[str], mismatched: Collection[str] = ()
) -> None:
    """Raises ValueError that names tensors of the checkpoint `path` which its model lacks, or the other way round."""
    parts = []
    for what, names in (("lacks", missing), ("has unknown", unknown), ("has other shapes of", mismatched)):
        if names:
            parts.append(f"{what} {list_names(names)}")
    if parts:
        raise ValueError(f"the weights in {path} are not those of its model: it {'; it '.join(parts)}")


def list_names(names: Collection[str]) -> str:
    """The first of the names of some tensors, and the number of others."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"{', '.join(sorted(names)[:NAMED])}{more}"
