"""verl's description of a device, for a CPU. Ray hands out "GPUs" that are only a number to count workers with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import psutil
import torch
from verl.plugin.platform.platform_base import PlatformBase


def _nothing(*_: Any, **__: Any) -> None:
    pass


def _zero(*_: Any, **__: Any) -> int:
    return 0


def _free_and_total(*_: Any) -> tuple[int, int]:
    memory = psutil.virtual_memory()
    return memory.available, memory.total


DEVICE = SimpleNamespace(
    is_available=lambda: True,
    current_device=lambda: "cpu",
    device_count=lambda: 1,
    set_device=_nothing,
    get_device_name=lambda *_: "cpu",
    synchronize=_nothing,
    empty_cache=_nothing,
    ipc_collect=_nothing,
    memory_allocated=_zero,
    memory_reserved=_zero,
    max_memory_allocated=_zero,
    max_memory_reserved=_zero,
    mem_get_info=_free_and_total,
    get_rng_state=torch.get_rng_state,
    set_rng_state=torch.set_rng_state,
    manual_seed=torch.manual_seed,
    manual_seed_all=torch.manual_seed,
    Stream=torch.cpu.Stream,
    current_stream=torch.cpu.current_stream,
    stream=torch.cpu.stream,
)
"""What verl calls of `torch.cuda`. Memory is counted as 0 bytes: nobody reads those metrics in a test."""


class CpuPlatform(PlatformBase):
    device_name = "cpu"
    vendor_name = "cpu"
    device_module = DEVICE

    def is_available(self) -> bool:
        return True

    def current_device(self) -> str:
        return "cpu"  # verl hands it to `Tensor.to`, where a number would mean a GPU

    def device_count(self) -> int:
        return 1

    def set_device(self, device_index: int) -> None:
        pass

    def synchronize(self, device_index: int | None = None) -> None:
        pass

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    def manual_seed_all(self, seed: int) -> None:
        torch.manual_seed(seed)

    def set_allocator_settings(self, settings: str) -> None:
        pass

    def empty_cache(self) -> None:
        pass

    def get_device_capability(self, device_index: int = 0) -> tuple[None, None]:
        return None, None

    def communication_backend_name(self) -> str:
        return "gloo"

    def visible_devices_envvar(self) -> str:
        return "CUDA_VISIBLE_DEVICES"  # what Ray sets for the resource named "GPU"

    @contextmanager
    def nvtx_range(self, msg: str) -> Iterator[None]:
        yield

    def profiler_start(self) -> None:
        pass

    def profiler_stop(self) -> None:
        pass

    def ray_resource_name(self) -> str:
        return "GPU"

    def ray_noset_envvars(self) -> list[str]:
        return ["RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES"]

    def is_ipc_supported(self) -> bool:
        return False  # weights then travel through shared memory

    def cudart(self) -> None:
        return None
