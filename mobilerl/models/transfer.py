"""Copies from main memory to a GPU that do not wait for it."""

from __future__ import annotations

import torch
from torch import Tensor


def to_device(tensor: Tensor, device: torch.device | str | int) -> Tensor:
    """Copies a tensor in main memory to `device`, in the order of that device's work.

    `tensor.to("cuda")` of ordinary memory waits until the GPU has done all that was asked of it before, so that a
    program that prepares and launches the next micro-batch would do so while the GPU has nothing to do.
    """
    if tensor.is_cuda or torch.device(device).type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)
