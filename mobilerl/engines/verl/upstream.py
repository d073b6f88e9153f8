"""Cures for faults of verl 0.9 with transformers 5 or newer; verl loads them itself, through its entry points.

From transformers 5 on, a model's `visual(...)` returns an object that holds the features in `pooler_output`. verl 0.9.1
takes it for a tensor where it embeds what GLM-4.1V reads, and where Qwen2.5-VL reads no picture, which is so for the
rows verl pads a batch with. Both then end in an AttributeError.

verl imports the entry points of its group `verl.plugins` in every process, and calls nothing in them: so importing this
module is what installs the cures. It logs a failing entry point where nobody looks: so a process that depends on the
cures asks `installed()`. verl's model modules are not imported before somebody else wants them.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from functools import wraps
from importlib import metadata
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType, SimpleNamespace
from typing import Any

import torch

SERIES = "0.9"
"""The versions of verl this was written for: later ones may have other faults, or need other cures."""
MODULES = ("verl.models.transformers.glm4v", "verl.models.transformers.qwen2_vl")
FUNCTION = "_get_input_embeds"
logger = logging.getLogger(__name__)


def install() -> bool:
    """Cures the modules that are imported, and the others when they are; returns `installed()`."""
    version = _verl_version()
    if version is None or version.split(".")[:2] != SERIES.split("."):
        logger.warning("verl %s is not of the series %s: its functions are left as they are", version, SERIES)
    elif not installed():
        sys.meta_path.insert(0, _finder)
        for name in MODULES:
            if name in sys.modules:
                cure(sys.modules[name])
    return installed()


def installed() -> bool:
    """Whether this process has the cures, or gets them with the modules they are for."""
    return _finder in sys.meta_path


def remove() -> None:
    """Undoes `install`."""
    if installed():
        sys.meta_path.remove(_finder)
    for name in MODULES:
        function = getattr(sys.modules.get(name), FUNCTION, None)
        if isinstance(function, _Cured):
            setattr(sys.modules[name], FUNCTION, function.__wrapped__)


def cure(module: ModuleType) -> bool:
    """Cures the function of one module where it fails; returns whether that was needed and possible."""
    function = getattr(module, FUNCTION, None)
    if function is None:
        logger.warning("%s has no %s any more: nothing to cure", module.__name__, FUNCTION)
        return False
    if _fault(function) is None:
        return False
    cured = _Cured(function)
    if fault := _fault(cured):
        logger.warning("%s.%s fails, and its cure does not help: %r", module.__name__, FUNCTION, fault)
        return False
    setattr(module, FUNCTION, cured)
    return True


def _verl_version() -> str | None:
    """Of the verl that is being imported, or the installed one; None where there is none."""
    version = getattr(sys.modules.get("verl"), "__version__", None)
    try:
        return version or metadata.version("verl")
    except metadata.PackageNotFoundError:
        return None


class _Finder(MetaPathFinder):
    """Finds the modules where they are, and cures them as soon as they have run."""

    def find_spec(self, fullname: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path, target) if fullname in MODULES else None
        if spec is not None and spec.loader is not None:
            spec.loader.exec_module = _then_cure(spec.loader.exec_module)
        return spec


_finder = _Finder()


def _then_cure(exec_module: Callable[[ModuleType], None]) -> Callable[[ModuleType], None]:
    @wraps(exec_module)
    def run(module: ModuleType) -> None:
        exec_module(module)
        cure(module)

    return run


class _Cured:
    """The function, for a model whose `visual` returns the features themselves."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.__wrapped__ = function

    def __call__(self, model: Any, *args: Any, **kwargs: Any) -> Any:
        return self.__wrapped__(_PlainModel(model), *args, **kwargs)


class _PlainModel:
    """A stand-in: everything but `visual` is the model's own. Nothing is changed in the model, or in FSDP's wraps."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self.visual = _PlainVisual(model.visual)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)


class _PlainVisual:
    def __init__(self, visual: Any) -> None:
        self._visual = visual

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        output = self._visual(*args, **kwargs)
        return getattr(output, "pooler_output", output)  # transformers 4 returns a tensor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._visual, name)


def _fault(function: Callable[..., Any]) -> Exception | None:
    """What goes wrong when the function reads a picture, a video or neither for a model of width 1."""
    pixels, grid = torch.zeros(1, 1, device="cpu"), torch.ones(1, 3, dtype=torch.long, device="cpu")
    inputs = (
        (0, {"pixel_values": pixels, "image_grid_thw": grid}),
        (1, {"pixel_values_videos": pixels, "video_grid_thw": grid}),
        (2, {}),
    )
    with torch.no_grad():
        for token, pictures in inputs:
            try:
                function(_probe_model(), torch.full((1, 1), token, device="cpu"), **pictures)
            except Exception as fault:  # of foreign code: whatever it is, it is the answer
                return fault
    return None


def _probe_model() -> SimpleNamespace:
    """Answers as transformers 5 does. Token 0 stands for an image, 1 for a video."""
    features = SimpleNamespace(pooler_output=torch.zeros(1, 1, device="cpu"))

    class Visual(SimpleNamespace):
        def __call__(self, *_: Any, **__: Any) -> SimpleNamespace:
            return features

    shape = SimpleNamespace(in_channels=3, temporal_patch_size=2, patch_size=14)
    return SimpleNamespace(
        get_input_embeddings=lambda: lambda ids: torch.zeros(*ids.shape, 1, device="cpu"),
        visual=Visual(dtype=torch.float32),
        config=SimpleNamespace(image_token_id=0, video_token_id=1, vision_config=shape),
    )


install()
