"""A trainer that is killed while Ray works for it. Prints the pids of Ray's processes.

    python -m mobilerl_verl_cpu.signals

with the variables of `launch.environment`.
"""

from __future__ import annotations

import json
import signal

import psutil
import ray

from mobilerl.config import ClusterSection
from mobilerl.engines.verl.cluster import Cluster


@ray.remote
class Worker:
    def answer(self) -> None:
        """Returns once the worker's process is there."""


def main() -> None:
    Cluster.join(ClusterSection(gpus_per_node=1))
    worker = Worker.remote()
    ray.get(worker.answer.remote())
    print(json.dumps([child.pid for child in psutil.Process().children(recursive=True)]), flush=True)
    signal.pause()


if __name__ == "__main__":
    main()
