"""LoRA adapters as vLLM applies them, beside base weights that stay as they are.

Merged into bfloat16 weights, most of a small update would be rounded away, and all weights would have to be sent.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from mobilerl.models.adapter_folder import ADAPTER_FILE, ADAPTER_WEIGHTS
from mobilerl.models.adapters import PREFIX, list_names

if TYPE_CHECKING:
    from peft import PeftModel
    from peft.tuners.lora import Linear

RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""Values that vLLM 0.24 to 0.27 permit as `max_lora_rank`."""
ADAPTER_NAME, ADAPTER_ID = "mobilerl", 1
"""vLLM's name and number of the adapter, the same for all its versions."""
PART = ".layers."
"""Part of the names of the modules whose adapters vLLM applies, those of the language model; for the vision tower it is
an experiment."""


def adapter_refusal(model: PeftModel) -> str:
    """Why vLLM cannot apply the adapter of a PEFT model exactly; empty if it can, as far as is known without vLLM."""
    pairs = dict(_find_adapted(model))
    trained = {name for name, p in model.get_base_model().named_parameters() if p.requires_grad}
    carried = {
        f"{path}.lora_{side}.{module.active_adapters[0]}.weight" for path, module in pairs.items() for side in "AB"
    }
    if others := trained - carried:
        return f"it trains {list_names(others)}"
    if others := {path for path, module in pairs.items() if len(module.active_adapters) > 1 or module.lora_variant}:
        return f"{list_names(others)} have other adapters than plain LoRA"
    if others := {path for path in pairs if PART not in path}:
        return f"it adapts {list_names(others)}, outside the language model"
    if not pairs or adapter_rank(model) > RANKS[-1]:
        return f"its rank is not between 1 and {RANKS[-1]}"
    return ""


def adapter_rank(model: PeftModel) -> int:
    """The highest rank in an adapter, 0 without one."""
    return max((module.r[module.active_adapters[0]] for _, module in _find_adapted(model)), default=0)


def adapted_names(model: PeftModel) -> list[str]:
    """Last parts of the names of the adapted modules, such as `q_proj`."""
    return sorted({path.rpartition(".")[2] for path, _ in _find_adapted(model)})


@torch.no_grad()
def adapter_tensors(model: PeftModel, dtype: torch.dtype) -> dict[str, Tensor]:
    """PEFT's names and copies in `dtype` of an adapter's tensors, A [rank, in] and B [out, rank], B with the scale.

    The scale is applied before rounding, and so may differ between modules, which vLLM does not support.
    """
    tensors = {}
    for path, module in _find_adapted(model):
        adapter = module.active_adapters[0]
        tensors[f"{PREFIX}{path}.lora_A.weight"] = module.lora_A[adapter].weight.to(dtype)
        scaled = module.lora_B[adapter].weight * module.scaling[adapter]
        tensors[f"{PREFIX}{path}.lora_B.weight"] = scaled.to(dtype)
    return tensors


def write_adapter(tensors: Mapping[str, Tensor], folder: Path) -> None:
    """Writes `adapter_tensors` in the format of PEFT, with a scale of 1."""
    folder.mkdir()
    save_file({name: tensor.cpu().contiguous() for name, tensor in tensors.items()}, folder / ADAPTER_WEIGHTS)
    rank = max(tensor.shape[0] for name, tensor in tensors.items() if ".lora_A." in name)
    modules = sorted({name.removeprefix(PREFIX).partition(".lora_")[0] for name in tensors})
    settings: dict[str, Any] = {"peft_type": "LORA", "r": rank, "lora_alpha": rank, "target_modules": modules}
    (folder / ADAPTER_FILE).write_text(json.dumps(settings))


def _find_adapted(model: PeftModel) -> Iterator[tuple[str, Linear]]:
    """Names in the base model and modules of the adapted linear layers of a PEFT model."""
    from peft.tuners.lora import Linear

    for name, module in model.get_base_model().named_modules():
        if isinstance(module, Linear):
            yield name, module
