"""The Ray cluster: joins or starts one, and checks it before anything is loaded."""

from __future__ import annotations

import importlib.util
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import ray
from ray._private import services
from verl.trainer.constants_ppo import get_ppo_ray_runtime_env

from mobilerl.config import ClusterSection, ConfigError

FREE_S = 60.0
"""Seconds that Ray has to release the GPUs of a killed run."""
CPUS_PER_GPU = 1
"""Logical CPUs that Ray needs for each training GPU."""
CPUS_PER_ROLLOUT_GPU = 2
"""Logical CPUs that Ray needs for each GPU that only samples, as set by verl."""
SERVER_CPUS = 1
"""Free CPUs that Ray needs to start a vLLM server on a node."""


@contextmanager
def in_own_groups() -> Iterator[None]:
    """Ray's processes that are started here get process groups of their own.

    A signal to the trainer's group, as `timeout`, a terminal and many supervisors send it, would end Ray and the vLLM
    servers at once, before the trainer has finished its update and saved. They still end with the trainer.
    """
    plain = services.ConsolePopen
    services.ConsolePopen = partial(plain, process_group=0)
    try:
        yield
    finally:
        services.ConsolePopen = plain


@dataclass(frozen=True, slots=True)
class Cluster:
    connected_here: bool

    @classmethod
    def join(cls, section: ClusterSection) -> Cluster:
        """Connects to the cluster at $RAY_ADDRESS or starts one here. Raises ConfigError if it does not suffice."""
        address = os.environ.get("RAY_ADDRESS", "")
        mine = not ray.is_initialized()
        if mine:
            try:
                with in_own_groups():
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
        self._check_nodes(section)
        own_transfer = any(".checkpoint_engine.backend=" in text for text in section.overrides)
        if section.rollout_nodes and not own_transfer and importlib.util.find_spec("cupy") is None:
            raise ConfigError(
                f"cluster.rollout_nodes = {section.rollout_nodes} needs cupy, with which verl sends weights to other "
                "nodes: pip install -c recipes/cluster/constraints.txt 'mobilerl[verl]'"
            )
        until = time.monotonic() + FREE_S
        while (free := int(ray.available_resources().get("GPU", 0))) < wanted:
            if time.monotonic() > until:
                raise ConfigError(f"{asked}, but only {free} of its {there} are free: end the other programs")
            time.sleep(1)

    def _check_nodes(self, section: ClusterSection) -> None:
        """Raises ConfigError unless nodes have enough CPUs for their GPUs; Ray would silently wait for them."""
        kinds = [("nodes", section.nodes, CPUS_PER_GPU), ("rollout_nodes", section.rollout_nodes, CPUS_PER_ROLLOUT_GPU)]
        nodes = [(n["NodeManagerAddress"], n["Resources"]) for n in ray.nodes() if n["Alive"]]
        for name, count, each in kinds:
            cpus = section.gpus_per_node * each + SERVER_CPUS
            fit = [r for _, r in nodes if r.get("GPU", 0) >= section.gpus_per_node and r.get("CPU", 0) >= cpus]
            if len(fit) < count:
                have = ", ".join(f"{a}: {r.get('GPU', 0):g} GPUs, {r.get('CPU', 0):g} CPUs" for a, r in nodes)
                raise ConfigError(
                    f"cluster.{name} = {count} needs as many nodes with {section.gpus_per_node} GPUs and {cpus} CPUs "
                    f"each; Ray has {have}: start it with more (`ray start --num-cpus`), or lower cluster.gpus_per_node"
                )

    def leave(self) -> None:
        """Disconnects, which ends a cluster that was started here."""
        if self.connected_here:
            ray.shutdown()
