"""A trainer that is asked to stop while Ray works for it. Prints the pids of Ray's processes, and after SIGTERM what
one of them answers; then it leaves the cluster.

    python -m mobilerl_verl_cpu.signals

with the variables of `launch.environment`.
"""

from __future__ import annotations

import json
import signal
import threading

import psutil
import ray

from mobilerl.config import ClusterSection
from mobilerl.engines.verl.cluster import Cluster


@ray.remote
class Worker:
    def answer(self) -> str:
        return "still there"


def main() -> None:
    cluster = Cluster.join(ClusterSection(gpus_per_node=1))
    worker = Worker.remote()
    ray.get(worker.answer.remote())
    asked = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: asked.set())
    print(json.dumps([child.pid for child in psutil.Process().children(recursive=True)]), flush=True)
    asked.wait()  # signal.pause would miss a signal that is here before it
    print(ray.get(worker.answer.remote(), timeout=60), flush=True)
    cluster.leave()


if __name__ == "__main__":
    main()
