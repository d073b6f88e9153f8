"""Weights from trainers to servers through a file: what NCCL does between GPUs, for a machine that has none."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from verl.checkpoint_engine.base import CheckpointEngine, CheckpointEngineRegistry


@CheckpointEngineRegistry.register("file")
class FileCheckpointEngine(CheckpointEngine):
    def __init__(self, bucket_size: int, is_master: bool = False) -> None:
        self.is_master = is_master

    def prepare(self) -> dict[str, Any]:
        return {}

    @classmethod
    def build_topology(cls, senders: int, receivers: int, metadata: list[dict]) -> tuple[dict, dict]:
        return {"rank": list(range(senders))}, {"rank": list(range(receivers))}

    def init_process_group(self, rank: int) -> None:
        pass

    def finalize(self) -> None:
        pass

    async def send_weights(
        self, weights: Generator[tuple[str, torch.Tensor], None, None], global_steps: int | None = None
    ) -> None:
        """All trainers take part in gathering; the first writes."""
        gathered = {name: weight.detach().clone() for name, weight in weights}
        if self.is_master:
            path = _path(global_steps)
            save_file(gathered, f"{path}.part")
            os.replace(f"{path}.part", path)

    async def receive_weights(self, global_steps: int | None = None) -> AsyncGenerator[tuple[str, torch.Tensor], None]:
        while not _path(global_steps).exists():
            await asyncio.sleep(0.05)
        for item in load_file(_path(global_steps)).items():
            yield item


def _path(global_steps: int | None) -> Path:
    return Path(tempfile.gettempdir()) / f"weights-{global_steps}.safetensors"
