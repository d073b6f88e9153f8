"""A Ray cluster of several nodes on this machine, for as long as standard input stays open.

    python -m mobilerl_verl_cpu.nodes NODES GPUS

with the variables of `launch.environment`. GPUS: of each node, in name only. Prints the cluster's address.
"""

from __future__ import annotations

import sys

from ray.cluster_utils import Cluster

MEMORY = 200 * 1024**2


def main(nodes: int, gpus: int) -> None:
    each = {"num_cpus": 2 * gpus + 1, "num_gpus": gpus, "object_store_memory": MEMORY}
    cluster = Cluster(initialize_head=True, head_node_args={**each, "include_dashboard": False})
    for _ in range(nodes - 1):
        cluster.add_node(**each)
    print(cluster.address, flush=True)
    try:
        sys.stdin.read()
    finally:
        cluster.shutdown()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
