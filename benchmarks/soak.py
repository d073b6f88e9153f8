"""A long run on many phones at once, with faults: what must come back is exactly what comes back without them.

    python -m benchmarks.soak --episodes 2000                                     phones in containers, no faults
    python -m benchmarks.soak --episodes 2000 --faults 0.1 --kill-every 10        the same with faults and kills
    python -m benchmarks.soak --devices served --count 256                        phones of `mobilerl phone serve`

The agent is the scripted expert in about two thirds of the episodes and gives up in the others; the episode's name
alone decides which. So every episode's reward is known beforehand, and one that a fault changed is found.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing

from envs.adb import AdbTransport
from envs.base import Finish, Observation, Task
from envs.docker_avd import LABEL, ContainerSettings, DockerProvider, Engine
from envs.phone.env import PhoneEnv
from envs.phone.tasks.suite import train_tasks
from envs.pool import DevicePool, PoolSettings, Provider
from envs.pool.adb import AdbProvider, AdbServer
from mobilerl.agent.actor import Decision, scripted
from mobilerl.agent.context import Turn
from mobilerl.agent.screen import Screen
from mobilerl.eval.agents import ExpertActor
from mobilerl.records import Group
from mobilerl.rollout.collector import Collector, CollectorSettings
from mobilerl.rollout.episode import EpisodeSettings

FLEET = "soak"
GROUP = 8
COMMAND_S = 3.0
"""Longest time of a command: what a hang costs."""
SCREEN = ("--width", "360", "--height", "720")


class TwoThirds(ExpertActor):
    """The expert, or somebody who gives up at once, by the episode's name."""

    async def decide(
        self, task: Task, turns: Sequence[Turn], observation: Observation, screen: Screen, key: str
    ) -> Decision:
        return await super().decide(task, turns, observation, screen, key) if solves(key) else scripted(Finish())


def solves(episode_id: str) -> bool:
    return hashlib.sha256(episode_id.encode()).digest()[0] < 170


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__.partition("\n")[0])
    parser.add_argument("--devices", choices=("docker", "served"), default="docker")
    parser.add_argument("--image", default="mobilerl-phone", help="for docker (default mobilerl-phone)")
    parser.add_argument("--count", type=int, default=16, help="phones at once (default 16)")
    parser.add_argument("--spares", type=int, default=4, help="for docker: phones beyond that (default 4)")
    parser.add_argument("--episodes", type=int, default=2000, help="rounded up to whole groups of 8 (default 2000)")
    parser.add_argument("--faults", type=float, default=0.0, help="share of the commands that fail (default 0)")
    parser.add_argument("--kill-every", type=float, default=0.0, metavar="S",
                        help="for docker: kill a container about every S seconds (default: never)")  # fmt: skip
    parser.add_argument("--port", type=int, default=15601, help="for served: the first phone's (default 15601)")
    args = parser.parse_args()
    print(json.dumps(asyncio.run(soak(args)), indent=2))
    return 0


async def soak(args: argparse.Namespace) -> dict[str, object]:
    envs: list[PhoneEnv] = []

    def make(device_id: str, transport: AdbTransport) -> PhoneEnv:
        envs.append(PhoneEnv(device_id, screenshots=False, transport=transport, timeout_s=COMMAND_S))
        return envs[-1]

    tasks = [t for t in train_tasks(-(-args.episodes // (GROUP * 70))) if t.feasible][: -(-args.episodes // GROUP)]
    async with _provider(args, make) as provider:
        threads, files = threading.active_count(), _open_files()
        spares = args.spares if args.devices == "docker" else 0
        options = PoolSettings(args.count, spares, boot_s=120.0, max_failures=50, quarantine_s=1.0, check_every_s=5.0)
        pool = DevicePool(provider, options)
        settings = CollectorSettings(GROUP, max_retries=1000, episode=EpisodeSettings(deadline_s=180.0))
        killed: list[str] = []
        async with Collector(pool, TwoThirds(envs), settings) as collector:
            killing = asyncio.create_task(_kill(args, killed))
            began = time.monotonic()
            groups = await collector.collect(tasks, "soak")
            seconds = time.monotonic() - began
            killing.cancel()
        await asyncio.get_running_loop().shutdown_default_executor()
        return {
            "devices": f"{args.count} {args.devices}", "fault_rate": args.faults, "containers_killed": len(killed),
            "seconds": round(seconds, 1), **_findings(groups), **collector.counts, **pool.counts,
            "containers_left": len(_containers()) if args.devices == "docker" else 0,
            "threads_left": threading.active_count() - threads, "files_left": _open_files() - files,
        }  # fmt: skip


def _findings(groups: Sequence[Group]) -> dict[str, object]:
    played = [t for g in groups for t in g.trajectories]
    wrong = [t.id for t in played if t.success != solves(t.id)]
    steps = sum(len(t.steps) for t in played)
    return {
        "groups": len(groups), "episodes": len(played), "steps": steps,
        "success_rate": sum(t.success for t in played) / len(played), "episodes_with_another_reward": len(wrong),
    }  # fmt: skip


# --- devices -------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def _provider(args: argparse.Namespace, make) -> AsyncIterator[Provider]:  # noqa: ANN001
    faults = ("--faults", str(args.faults)) if args.faults else ()
    if args.devices == "docker":
        settings = ContainerSettings(args.image, FLEET, memory_mb=256, command=(*SCREEN, *faults))
        yield DockerProvider(settings, make, AdbServer())
        return
    server = subprocess.Popen(
        [sys.executable, "-m", "envs.phone", "--count", str(args.count), "--port", str(args.port), *SCREEN, *faults],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert server.stdout is not None
        if not server.stdout.readline():
            raise SystemExit(f"the phones cannot be served from port {args.port}")
        serials = [f"127.0.0.1:{args.port + i}" for i in range(args.count)]
        yield AdbProvider(serials, make, AdbServer())
    finally:
        server.terminate()
        server.wait()


async def _kill(args: argparse.Namespace, killed: list[str]) -> None:
    rng = random.Random(0)
    while args.kill_every:
        await asyncio.sleep(rng.expovariate(1 / args.kill_every))
        running = [name for name, status in await asyncio.to_thread(_containers) if status == "running"]
        if running:
            killed.append(rng.choice(running))
            await asyncio.to_thread(_kill_one, killed[-1])


def _kill_one(name: str) -> None:
    subprocess.run(["docker", "kill", name], capture_output=True)


def _containers() -> list[tuple[str, str]]:
    """Name and state of the soak's containers."""
    engine = Engine("", ContainerSettings("", FLEET))
    engine.connect()
    with closing(engine):
        return [(container.name, container.status) for container in engine.containers({LABEL: FLEET})]


def _open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


if __name__ == "__main__":
    sys.exit(main())
