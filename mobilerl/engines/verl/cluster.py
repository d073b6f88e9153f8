"""The Ray cluster: joined or started here, checked before anything is loaded, left as it was found."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

import ray
from verl.trainer.constants_ppo import get_ppo_ray_runtime_env

from mobilerl.config import ClusterSection, ConfigError

FREE_S = 60.0
"""For what a killed run held to be given back."""


@dataclass(frozen=True, slots=True)
class Cluster:
    connected_here: bool

    @classmethod
    def join(cls, section: ClusterSection) -> Cluster:
        """Connects to the cluster of the settings or RAY_ADDRESS, or starts one on this machine. Raises ConfigError."""
        address = section.address or os.environ.get("RAY_ADDRESS", "")
        mine = not ray.is_initialized()
        if mine:
            try:
                ray.init(address or "local", runtime_env=get_ppo_ray_runtime_env(), log_to_driver=False,
                         logging_level="warning")  # fmt: skip
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
                raise ConfigError(f"{asked}, of the Ray cluster's {there} only {free} are free: end what holds them")
            time.sleep(1)

    def leave(self) -> None:
        """Ends this process's part; a cluster that was started here ends with it."""
        if self.connected_here:
            ray.shutdown()
