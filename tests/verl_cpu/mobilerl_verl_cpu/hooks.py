"""Changes to verl, vLLM and torchvision, each made when its module is imported: nothing is imported early.

A change that no longer fits raises where the module is imported. verl would swallow an error in a plug-in.
"""

from __future__ import annotations

import functools
import os
import random
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

Change = Callable[[ModuleType], None]
ALIAS = Path(__file__).resolve().parents[1] / "alias"


# --- what is changed ---------------------------------------------------------------------------------------------


def _declare_operators(_: ModuleType) -> None:
    """The default torchvision wheel needs CUDA's libraries; without them it misses operators it refers to.

    Only their signatures are declared: image preparation does not call them.
    """
    import torch

    for name in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, name):
            torch.library.define(f"torchvision::{name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


def _set_platform(module: ModuleType) -> None:
    from mobilerl_verl_cpu.platform import CpuPlatform

    module.PlatformRegistry.register(platform="cpu")(CpuPlatform)
    module.set_platform(CpuPlatform())


def _one_backend(module: ModuleType) -> None:
    """verl asks for `cpu:gloo,<device>:<backend>`, which names the CPU twice."""
    original = module.initialize_global_process_group_ray

    @functools.wraps(original)
    def initialize(timeout_second: float | None = None, backend: str | None = None) -> None:
        original(timeout_second=timeout_second, backend=backend or "cpu:gloo")

    module.initialize_global_process_group_ray = initialize


def _without_trl(module: ModuleType) -> None:
    """verl patches a class of trl's if there is a trl; newer ones have no such class, and no test needs it."""
    module.is_trl_available = lambda: False


def _own_weights(module: ModuleType) -> None:
    """On a GPU a received weight is a copy; here it would be a view of memory that is about to be unmapped.

    The sockets are named after Ray's job id, which is the same in every new cluster: they move to the temporary
    directory, so that two test runs on one machine do not meet.
    """
    receiver, receive = module.BucketedWeightReceiver, module.BucketedWeightReceiver.receive_weights

    def receive_weights(self: Any, on_bucket_received: Callable[..., None]) -> None:
        receive(self, lambda weights, last: on_bucket_received([(n, w.clone()) for n, w in weights], last))

    receiver.receive_weights = receive_weights
    for kind in (receiver, module.BucketedWeightSender):
        kind.__init__ = _in_own_folder(kind.__init__)


def _in_own_folder(original: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(original)
    def init(self: Any, zmq_handle: str, *args: Any, **kwargs: Any) -> None:
        folder = f"ipc://{tempfile.gettempdir()}/"
        original(self, zmq_handle.replace("ipc:///tmp/", folder, 1), *args, **kwargs)

    return init


def _plain_weights(module: ModuleType) -> None:
    """oneDNN and AMX pack a layer's weight and drop the original, so that a later weight update fails or is lost."""
    import torch

    module._supports_onednn = False
    torch.cpu._is_amx_tile_supported = lambda: False


PORTS = (20_000, 32_000)
"""Ports are chosen minutes before they are taken, since imports are slow; nobody is given one of these meanwhile."""


def _port() -> int:
    return random.SystemRandom().randrange(*PORTS)


def _ports_of_workers(module: ModuleType) -> None:
    original = module.RayWorkerGroup.__init__

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **{"master_port_range": [_port(), PORTS[1] + 1000], **kwargs})

    module.RayWorkerGroup.__init__ = init


def _ports_of_servers(module: ModuleType) -> None:
    original = module._get_open_port

    def get(start_port: int | None = None, max_attempts: int | None = None) -> int:
        return original(_port() if start_port is None else start_port, max_attempts)

    module._get_open_port = get


def _gloo_transfer(_: ModuleType) -> None:
    import mobilerl_verl_cpu.transfer  # noqa: F401 - registers itself


def _forked_workers(module: ModuleType) -> None:
    """Ray's workers are forks of a process that has imported what they need (tests/prepared.py)."""
    context, original = module.RuntimeEnvContext, module.RuntimeEnvContext.exec_worker

    def exec_worker(self: Any, *args: Any) -> None:
        self.py_executable = os.environ.get("MOBILERL_VERL_CPU_PYTHON") or self.py_executable
        original(self, *args)

    context.exec_worker = exec_worker


REPAIR = {"torchvision._meta_registrations": _declare_operators}
"""Made before the module runs, and always: transformers cannot be imported beside a broken torchvision."""
CHANGES = {
    "ray._private.runtime_env.context": _forked_workers,
    "verl.checkpoint_engine": _gloo_transfer,
    "verl.plugin.platform.platform_manager": _set_platform,
    "verl.single_controller.ray.base": _ports_of_workers,
    "verl.utils.distributed": _one_backend,
    "verl.utils.import_utils": _without_trl,
    "verl.workers.rollout.vllm_rollout.bucketed_weight_transfer": _own_weights,
    "vllm._custom_ops": _plain_weights,
    "vllm.utils.network_utils": _ports_of_servers,
}


# --- how ---------------------------------------------------------------------------------------------------------


class _Finder:
    """Finds the modules named above the usual way, and wraps what executes them."""

    def __init__(self, changes: Mapping[str, Change]) -> None:
        self.changes = changes

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name not in REPAIR and name not in self.changes:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader.exec_module = functools.partial(self._execute, spec.loader.exec_module)
        return spec

    def _execute(self, original: Change, module: ModuleType) -> None:
        name = module.__name__
        if name in REPAIR:
            REPAIR[name](module)
        original(module)
        if name in self.changes:
            self.changes[name](module)


def install() -> None:
    """To be called before any of the modules is imported; a second call does nothing."""
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return
    asked = os.environ.get("MOBILERL_VERL_CPU") == "1"
    sys.meta_path.insert(0, _Finder(CHANGES if asked else {}))
    if asked:
        sys.path.append(str(ALIAS))
        # verl's FSDP engine is registered for "cuda" and "npu" alone.
        os.environ["VERL_ENGINE_DEVICE"] = "cuda"
