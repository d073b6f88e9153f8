"""Weights from trainers to servers on other GPUs, by gloo in the place of NCCL: `checkpoint_engine.backend=gloo`.

A stand-in for verl's NCCL engine, which needs GPUs; everything around it is verl's.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import timedelta
from typing import Any

import ray
import torch
from torch.distributed import ProcessGroupGloo, TCPStore
from verl.checkpoint_engine.base import CheckpointEngine, CheckpointEngineRegistry
from verl.utils.net_utils import get_free_port

LIMIT = timedelta(minutes=10)
Weights = Iterator[tuple[str, torch.Tensor]]


@CheckpointEngineRegistry.register("gloo")
class GlooCheckpointEngine(CheckpointEngine):
    """The first trainer sends to all servers; the others only take part in gathering the weights."""

    def __init__(self, bucket_size: int, is_master: bool = False) -> None:
        self.is_master, self.rank = is_master, -1
        self.store: TCPStore | None = None
        self.group: ProcessGroupGloo | None = None

    def prepare(self) -> tuple[str, int] | None:
        address = ray.util.get_node_ip_address()
        return (address, get_free_port(address)[0]) if self.is_master else None

    @classmethod
    def build_topology(
        cls, actor_wg_world_size: int, rollout_world_size: int, metadata: Sequence[tuple[str, int] | None]
    ) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
        size, servers = 1 + rollout_world_size, list(range(1, 1 + rollout_world_size))
        trainers = [0] + [-1] * (actor_wg_world_size - 1)
        return tuple(
            {"rank": ranks, "size": [size] * len(ranks), "master": [metadata[0]] * len(ranks)}
            for ranks in (trainers, servers)
        )

    def init_process_group(self, rank: int, size: int, master: tuple[str, int]) -> None:
        self.rank = rank
        if rank >= 0:
            self.store = TCPStore(*master, size, is_master=rank == 0, timeout=LIMIT)
            self.group = ProcessGroupGloo(self.store, rank, size, LIMIT)

    def finalize(self) -> None:
        self.group = self.store = None

    async def send_weights(self, weights: Weights, global_steps: int | None = None) -> None:
        for number, (name, weight) in enumerate(weights):
            if self.rank == 0:
                kind = str(weight.dtype).removeprefix("torch.")
                self.store.set(f"{number}", json.dumps([name, list(weight.shape), kind]))
                self.group.broadcast([weight.detach().contiguous()]).wait()
        if self.rank == 0:
            self.store.set(f"{number + 1}", "null")
            self.group.barrier().wait()  # the store is this process's

    async def receive_weights(self, global_steps: int | None = None) -> AsyncIterator[tuple[str, torch.Tensor]]:
        number = 0
        while (told := json.loads(self.store.get(f"{number}"))) is not None:
            name, shape, kind = told
            weight = torch.empty(shape, dtype=getattr(torch, kind))
            self.group.broadcast([weight]).wait()
            yield name, weight
            number += 1
        self.group.barrier().wait()
