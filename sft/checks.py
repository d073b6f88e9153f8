"""Checks of the SFT settings against this machine before anything starts."""

from __future__ import annotations

import importlib.util
import json
import os
import shlex
from collections.abc import Collection
from pathlib import Path
from typing import Any

import torch

from mobilerl.config import ConfigError, Recipe, SftSection
from mobilerl.config.packaged import RECIPES
from mobilerl.models.checkpoint_folder import check_checkpoint
from mobilerl.models.text_models import check_screenshots
from mobilerl.policy.context import make_context
from mobilerl.policy.formats.choice import published_name, with_format
from mobilerl.sft.data import opened_sources, stage2_limit
from mobilerl.sft.pretraining import PRETRAINING_BATCH_SIZE
from mobilerl.suites.base import has_demonstrations, make_suite
from mobilerl.system.terminal import say
from mobilerl.training.checkpoint_files import check_files
from mobilerl.training.dry_run import check_writable, print_recipe

CONFIGS = RECIPES / "deepspeed"


def check_stages(recipe: Recipe, run_dir: Path, stages: Collection[int]) -> None:
    """Raises ConfigError for stage 2 without the checkpoint of stage 1 or another one."""
    if 1 not in stages and not (recipe.model or (run_dir / "stage1").is_dir()):
        raise ConfigError(f"stage 2 needs a stage 1 in {run_dir}: train it first (--stage 1), or give --model DIR")


def check_data(recipe: Recipe, stages: Collection[int]) -> None:
    """Raises ConfigError if one of the stages has nothing to learn from."""
    settings = recipe.sft
    if has_demonstrations(recipe):
        return
    none = "there are no experts' demonstrations (suite.type, sft.demos_per_template)"
    if not settings.sources:
        raise ConfigError(f"{none} to learn from: give sft.sources")
    if 2 in stages and not settings.proposer_url:
        raise ConfigError(
            f"{none}, so stage 2 needs sft.proposer_url, a model that proposes reasoning; or use --stage 1"
        )
    if 2 in stages and all(stage2_limit(source) == 0 for source in settings.sources):
        raise ConfigError(f"{none}, so stage 2 needs a source whose stage2_limit is above 0; or use --stage 1")


def fit_recipe(recipe: Recipe) -> Recipe:
    """The recipe with a published model's own format, and with at most as many processes as there are GPUs, if any.

    Recipes for CPUs ask for one process per core.
    """
    gpus, settings = torch.cuda.device_count(), recipe.sft
    changes: dict[str, Any] = {}
    if gpus and settings.nodes == 1 and settings.processes > gpus:
        changes["sft"] = settings.model_copy(update={"processes": gpus if gpus > 1 else 0})
    if recipe.model:
        changes["agent"] = with_format(recipe.agent, published_name(recipe.model))
    return recipe.model_copy(update=changes)


def check(recipe: Recipe) -> None:
    """Raises ConfigError for settings that this machine cannot run."""
    settings = recipe.sft
    if recipe.model:
        check_screenshots(recipe.model, recipe.agent)
    if settings.deepspeed:
        if not importlib.util.find_spec("deepspeed"):
            install = 'python -m pip install "mobilerl[deepspeed]"'
            raise ConfigError(f'sft.deepspeed needs DeepSpeed: {install}; or sft.deepspeed = "" for plain DDP')
        if os.environ.get("ACCELERATE_USE_CPU"):
            raise ConfigError("unset ACCELERATE_USE_CPU: with it accelerate ignores sft.deepspeed")
        deepspeed_file(settings.deepspeed)
    gpus = torch.cuda.device_count()
    if gpus and settings.processes > gpus:
        raise ConfigError(f"sft.processes = {settings.processes}, but this node has {gpus} GPUs: one for each")
    if settings.goal_samples and not hasattr(make_suite(recipe), "wordings"):
        raise ConfigError(f'suite.type = "{recipe.suite.type}" has no sft.goal_samples: set them to 0')
    _check_divisible(settings, "sft.batch_size", settings.batch_size)
    if settings.reading_samples and not recipe.model:
        _check_divisible(settings, "the batch size of reading pre-training", PRETRAINING_BATCH_SIZE)


def deepspeed_file(name: str) -> Path:
    """The file of a named configuration, or the given path. Raises ConfigError if it cannot be read."""
    path = Path(name) if name.endswith(".json") else CONFIGS / f"{name}.json"
    if not path.is_file() and not name.endswith(".json"):
        raise ConfigError(f"sft.deepspeed = {name!r}: choose zero2, zero3, zero2-offload, zero3-offload, or a .json")
    try:
        json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ConfigError(f"sft.deepspeed: {path} cannot be read as JSON ({error})") from None
    return path.resolve()


def _check_divisible(settings: SftSection, name: str, size: int) -> None:
    ranks = settings.nodes * (settings.processes or 1)
    if size % (ranks * (settings.micro_batch_size or 1)):
        micro = f" x sft.micro_batch_size ({settings.micro_batch_size})" if settings.micro_batch_size else ""
        raise ConfigError(f"{name} = {size} must be a multiple of {ranks} processes{micro}")


def dry_run_sft(recipe: Recipe, run_dir: Path, stages: Collection[int] = (1, 2)) -> int:
    """Implements `mobilerl sft --dry-run` for both stages or one of them."""
    check_writable(run_dir)
    if recipe.model:
        check_checkpoint(recipe.model)
        check_files(Path(recipe.model))
    recipe = fit_recipe(recipe)
    check(recipe)
    check_stages(recipe, run_dir, stages)
    check_data(recipe, stages)
    opened_sources(recipe, make_context(recipe.agent))
    only = "" if len(stages) > 1 else f" --stage {min(stages)}"
    print_recipe(recipe, f"mobilerl sft --run-dir {shlex.quote(str(run_dir))}{only}")
    say("no estimate of the time: the samples come first; then every training shows the time left", stderr=True)
    return 0
