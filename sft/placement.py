"""What this machine and these numbers can do, found out before anything starts; and which DeepSpeed file is meant."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
from collections.abc import Collection
from pathlib import Path

import torch

from mobilerl.config import ConfigError, Recipe, SftSection
from sft.packing import check_family

CONFIGS = Path(__file__).parents[1] / "recipes" / "deepspeed"
DEEPSPEED = "0.19"


def check_stages(recipe: Recipe, run_dir: Path, stages: Collection[int]) -> None:
    """Raises ConfigError for a stage 2 that nothing comes before."""
    if 1 not in stages and not (recipe.model or (run_dir / "stage1").is_dir()):
        raise ConfigError(f"there is no stage 1 in {run_dir} for stage 2 to begin with: train it first (--stage 1), or "
                          "name a checkpoint by --model DIR")  # fmt: skip


def check(recipe: Recipe, section: str = "sft") -> None:
    """Raises ConfigError for what this machine, or these numbers, cannot do. `section`: where the batch size is set."""
    settings = recipe.sft
    if settings.attention != "sdpa" and (not torch.cuda.is_available() or not importlib.util.find_spec("flash_attn")):
        raise ConfigError('sft.attention = "flash_attention_2" needs a GPU and `pip install flash-attn`; use "sdpa"')
    config = Path(recipe.model or ".") / "config.json"
    if settings.packing and recipe.model and config.is_file():
        check_family(json.loads(config.read_text()).get("model_type"))
    if settings.deepspeed:
        _check_deepspeed()
        if os.environ.get("ACCELERATE_USE_CPU"):
            raise ConfigError("unset ACCELERATE_USE_CPU: with it accelerate would leave sft.deepspeed out")
        _check_compiled(deepspeed_file(settings.deepspeed))
    gpus = torch.cuda.device_count()
    if gpus and settings.processes > gpus:
        raise ConfigError(f"sft.processes = {settings.processes}, but this machine has {gpus} GPUs: one for each")
    lessons = settings.lessons and not recipe.model
    for name in ("batch_size", "lesson_batch")[: 2 if lessons else 1]:
        _check_divisible(settings, section, name)


def _check_deepspeed() -> None:
    try:
        have = importlib.metadata.version("deepspeed")
    except importlib.metadata.PackageNotFoundError:
        have = ""
    if not have.startswith(f"{DEEPSPEED}."):
        what = f"DeepSpeed {have} is installed" if have else "DeepSpeed is not installed"
        cure = 'python -m pip install "mobilerl[deepspeed]"'
        raise ConfigError(f'{what}, sft.deepspeed needs {DEEPSPEED}: {cure}; or sft.deepspeed = "" for plain DDP')


def deepspeed_file(name: str) -> Path:
    """The file of a name, or the path itself. Raises ConfigError when it cannot be read."""
    path = Path(name) if name.endswith(".json") else CONFIGS / f"{name}.json"
    if not path.is_file() and not name.endswith(".json"):
        raise ConfigError(f"sft.deepspeed = {name!r}: choose zero2, zero3, zero2-offload, zero3-offload, or a .json")
    try:
        json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ConfigError(f"sft.deepspeed: {path} cannot be read as JSON ({error})") from None
    return path.resolve()


def _check_compiled(config: Path) -> None:
    """DeepSpeed compiles its CPU optimiser once, and would wait for ever for a compilation that was interrupted."""
    from torch.utils.cpp_extension import get_default_build_root

    optimizer = json.loads(config.read_text()).get("zero_optimization", {}).get("offload_optimizer", {})
    root = Path(os.environ.get("TORCH_EXTENSIONS_DIR") or get_default_build_root())
    for lock in root.glob("**/cpu_adam/lock") if optimizer.get("device") == "cpu" else ():
        raise ConfigError(f"{lock}: DeepSpeed compiles its optimiser, or was stopped while it did: wait, or delete it")


def _check_divisible(settings: SftSection, section: str, name: str) -> None:
    size, ranks = getattr(settings, name), settings.nodes * (settings.processes or 1)
    if size % (ranks * (settings.micro_batch or 1)):
        micro = f" x sft.micro_batch ({settings.micro_batch})" if settings.micro_batch else ""
        raise ConfigError(f"{section}.{name} = {size} cannot be shared by {ranks} processes{micro}: make it a multiple")
