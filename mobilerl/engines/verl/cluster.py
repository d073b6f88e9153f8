"""The Ray cluster: joined or started here, and checked before anything is loaded."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

import ray
from verl.trainer.constants_ppo import get_ppo_ray_runtime_env

from mobilerl.config import ClusterSection, ConfigError

FREE_S = 60.0
"""Time for Ray to release the GPUs of a killed run."""


@dataclass(frozen=True, slots=True)
class Cluster:
    connected_here: bool

    @classmethod
    def join(cls, section: ClusterSection) -> Cluster:
        """Connects to the cluster of RAY_ADDRESS, or starts one here. Raises ConfigError."""
        address = os.environ.get("RAY_ADDRESS", "")
        mine = not ray.is_initialized()
        if mine:
            try:
                ray.init(
                    address or "local",
                    runtime_env=get_ppo_ray_runtime_env(),
                    log_to_driver=False,
                    logging_level="warning",
                )
            except (ConnectionError, ValueError, RuntimeError) as error:
                where = address or "this machine"
                raise ConfigError(f"no Ray cluster at {where} ({error}): start it with `ray start`") from error
        cluster = cls(mine)
        try:
            cluster._check(section)
        except ConfigError:
            cluster.leave()
            raise
        return cluster

    def _check(self, section: ClusterSection) -> None:
        wanted = section.gpus_per_node * (section.nodes + section.rollout_nodes)
        asked = f"cluster.nodes, cluster.rollout_nodes and cluster.gpus_per_node ask for {wanted} GPUs"
        there = int(ray.cluster_resources().get("GPU", 0))
        if there < wanted:
            raise ConfigError(f"{asked}, the Ray cluster has {there}: lower them, or add nodes with `ray start`")
        until = time.monotonic() + FREE_S
        while (free := int(ray.available_resources().get("GPU", 0))) < wanted:
            if time.monotonic() > until:
                raise ConfigError(f"{asked}, but only {free} of its {there} are free: end the other programs")
            time.sleep(1)

    def leave(self) -> None:
        """Disconnects; a cluster that was started here ends."""
        if self.connected_here:
            ray.shutdown()
