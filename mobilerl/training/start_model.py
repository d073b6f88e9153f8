"""The model that a run starts from, and what takes its place when the run is resumed and the model is gone."""

from __future__ import annotations

from pathlib import Path

from mobilerl.config import ConfigError, Recipe, read_saved
from mobilerl.config.reading import CONFIG_FILE
from mobilerl.models.adapter_folder import adapter_base, is_adapter
from mobilerl.models.checkpoint_folder import check_checkpoint, latest
from mobilerl.models.hub import with_local_model
from mobilerl.models.hub_names import hub_id_of
from mobilerl.policy.formats.choice import published_name, with_format


def with_start_model(recipe: Recipe, run_dir: Path, resume: bool) -> Recipe:
    """The recipe with its start model as a local folder; `model` may be empty when a run is resumed.

    A resumed run with a checkpoint of its own needs its start model only as a base model, as a reference, or for
    features. Otherwise the checkpoint is used if the start model has moved. Raises ConfigError for a wrong `model`.
    """
    if not (resume and (run_dir / CONFIG_FILE).is_file()):
        return with_local_model(recipe)
    saved = read_saved(run_dir / CONFIG_FILE).model
    given, own = recipe.model or saved, latest(run_dir)
    if given == hub_id_of(saved) and Path(saved).is_dir():  # the commit that the run started from
        given = saved
    recipe = with_local_model(recipe.model_copy(update={"model": given}))
    if Path(saved).is_dir() and Path(recipe.model).resolve() == Path(saved).resolve():
        return recipe.model_copy(update={"model": saved})
    if own is None:
        return recipe
    if recipe.model != saved:
        check_checkpoint(recipe.model)
    # A published model's format follows from its name, which may be another where it is now.
    recipe = recipe.model_copy(update={"agent": with_format(recipe.agent, published_name(saved))})
    if not (need := _need(recipe, own)):
        return recipe.model_copy(update={"model": str(own)})
    if recipe.model == saved:
        raise ConfigError(
            f"{saved}, the start model of {run_dir}, is gone, and {need}: give its new place with --model"
        )
    if Path(saved).is_dir():
        raise ConfigError(f"--model {recipe.model}: {run_dir} started from {saved}, and {need}; leave --model out")
    return recipe


def as_started(recipe: Recipe, run_dir: Path) -> Recipe:
    """The recipe for config.json, with the start model that is named there if the run's own checkpoint stands in."""
    own = latest(run_dir)
    if own is None or recipe.model != str(own):
        return recipe
    return recipe.model_copy(update={"model": read_saved(run_dir / CONFIG_FILE).model})


def _need(recipe: Recipe, own: Path) -> str:
    """Why a run with the checkpoint `own` still needs its start model; "" if it does not."""
    if recipe.algorithm.uses_start_model:
        return f'algorithm.type = "{recipe.algorithm.type}" goes on using its weights'
    if is_adapter(own):
        try:
            adapter_base(own)
        except ConfigError:
            return f"it is the base model of the adapter {own}"
    return ""
