"""Fleets of phone containers on a real Docker Engine: killed, orphaned, missing, and never anybody else's."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time

import pytest
from docker_engine import IMAGE

from envs.base import InfraError
from envs.docker_avd import LABEL, ContainerSettings, DockerProvider, Engine
from envs.docker_avd.engine import PLACE
from envs.phone.env import PhoneEnv
from envs.phone.tasks.suite import train_tasks
from envs.pool import DevicePool, PoolSettings
from envs.pool.adb import AdbServer
from envs.pool.place import State
from mobilerl.cli import main
from mobilerl.eval.agents import ExpertActor
from mobilerl.rollout.collector import Collector, CollectorSettings

pytestmark = pytest.mark.slow
TASKS = [t for t in train_tasks(1)[::6] if t.feasible][:12]
SCREEN = ("--width", "360", "--height", "720")


def docker(*words: str) -> str:
    return subprocess.run(["docker", *words], capture_output=True, text=True, check=True, timeout=60).stdout.strip()


def containers(fleet: str = "", everything: bool = True, place: str = "") -> list[str]:
    labels = [f"{LABEL}={fleet}" if fleet else LABEL] + ([f"{PLACE}={place}"] if place else [])
    wanted = [word for label in labels for word in ("--filter", f"label={label}")]
    return docker("ps", *(["-a"] if everything else []), "-q", *wanted).split()


@pytest.fixture
def foreign(docker_engine):
    """A container that is not ours."""
    name = docker("run", "-d", IMAGE, *SCREEN)
    yield name
    docker("rm", "-f", name)


def settings(fleet: str, **wanted) -> ContainerSettings:
    return ContainerSettings(IMAGE, fleet, **({"memory_mb": 256, "command": SCREEN} | wanted))


def pool_of(adb, fleet: str, leases: int, spares: int = 0, **wanted) -> tuple[DevicePool, list[PhoneEnv]]:
    envs: list[PhoneEnv] = []

    def make(device_id, transport):
        envs.append(PhoneEnv(device_id, screenshots=False, transport=transport, timeout_s=5.0))
        return envs[-1]

    provider = DockerProvider(settings(fleet, **wanted), make, AdbServer("127.0.0.1", adb.port))
    options = PoolSettings(leases, spares, boot_s=120.0, quarantine_s=0.5, check_every_s=2.0)
    return DevicePool(provider, options), envs


def test_sixteen_phones_are_killed_at_random_and_no_group_is_lost(adb, foreign, tmp_path):
    pool, envs = pool_of(adb, "sixteen", 16, 2, log_dir=tmp_path / "devices")
    over = threading.Event()
    killed = []

    def in_use() -> dict[str, str]:
        """The devices that have booted, by place."""
        return {r.place: r.device_id for r in pool.report() if r.state in (State.READY, State.LEASED)}

    def kill() -> None:
        """Only what has booted: a container that is killed before is started again and counts as no device."""
        rng = random.Random(0)
        while not over.wait(1.0) and len(killed) < 6:
            up = in_use()
            place = rng.choice(list(up)) if len(up) > 8 else ""
            running = containers("sixteen", everything=False, place=place) if place else []
            if running and running[0] not in killed and in_use().get(place) == up[place]:
                if subprocess.run(["docker", "kill", running[0]], capture_output=True).returncode == 0:
                    killed.append(running[0])

    async def play():
        async with Collector(pool, ExpertActor(envs), CollectorSettings(4, max_retries=30)) as collector:
            async with asyncio.timeout(300):
                while sum(r.state in (State.READY, State.REFRESHING) for r in pool.report()) < 18:
                    await asyncio.sleep(0.2)
            assert len(containers("sixteen", everything=False)) == 18
            killing = threading.Thread(target=kill)
            killing.start()
            groups = []
            while len(killed) < 6:
                groups += await collector.collect(TASKS, f"i{len(groups)}")
            over.set()
            killing.join()
            async with asyncio.timeout(120):
                while pool.counts["replaced"] < 6:
                    await asyncio.sleep(0.2)
            return groups, collector.counts

    groups, counts = asyncio.run(play())
    played = [t for g in groups for t in g.trajectories]
    assert counts["lost_groups"] == counts["failed"] == 0 and len(played) == counts["dispatched"]
    assert all(t.reward == 1.0 for t in played)
    assert len(killed) == 6
    assert len({t.device_id for t in played}) >= 16
    assert not containers("sixteen"), "a container was left behind"
    assert foreign[:12] in docker("ps", "-q"), "a container that is not ours was touched"
    assert list((tmp_path / "devices").glob("sixteen-*.log")), "the last words of a container that died are kept"


OWNER = """
import asyncio, sys
from envs.docker_avd import ContainerSettings, DockerProvider
from envs.phone.env import PhoneEnv
from envs.pool.adb import AdbServer

async def main():
    image, fleet, port = sys.argv[1:]
    settings = ContainerSettings(image, fleet, command=("--width", "360", "--height", "720"))
    adb = AdbServer("127.0.0.1", int(port))
    provider = DockerProvider(settings, lambda name, t: PhoneEnv(name, transport=t), adb)
    await provider.open()
    await provider.create(0, 0)
    print("up", flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


def start_owner(adb, fleet: str, *under: str) -> subprocess.Popen[str]:
    owner = subprocess.Popen([*under, sys.executable, "-c", OWNER, IMAGE, fleet, str(adb.port)],
                             stdout=subprocess.PIPE, text=True)  # fmt: skip
    assert owner.stdout.readline() == "up\n"
    return owner


def test_what_a_killed_owner_left_is_removed_and_what_a_living_one_has_is_not(adb, foreign):
    dead, alive = start_owner(adb, "orphaned"), start_owner(adb, "alive")
    try:
        dead.send_signal(signal.SIGKILL)
        dead.wait()
        assert len(containers("orphaned")) == len(containers("alive")) == 1
        Engine("", settings("other")).open()
        assert not containers("orphaned")
        assert len(containers("alive")) == 1 and foreign[:12] in docker("ps", "-q")
    finally:
        alive.kill()
        alive.wait()
        Engine("", settings("other")).open()
    assert not containers()


def test_what_another_pid_namespace_left_is_for_fleet_down_alone(adb, docker_engine):
    """As from a trainer that is a container itself: its process numbers mean nothing here."""
    owner = start_owner(adb, "inside", "unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
    try:
        assert len(containers("inside")) == 1
        Engine("", settings("other")).open()
        assert len(containers("inside")) == 1, "its owner is alive"
    finally:
        owner.kill()
        owner.wait()
    Engine("", settings("other")).open()
    assert len(containers("inside")) == 1, "nobody can know here that its owner is dead"
    assert main(["fleet", "down", "--fleet.name", "inside"]) == 0
    assert not containers("inside")


def test_limits_and_isolation(foreign):
    engine = Engine("", settings("limits", cpus=0.5))
    engine.open()
    container = engine.run("nobody:0:0", 0)
    try:
        container.reload()
        host = container.attrs["HostConfig"]
        assert not host["Privileged"] and host["Memory"] == 256 << 20 and host["NanoCpus"] == 500_000_000
        assert not host["Devices"]
        published = [p["HostIp"] for bound in host["PortBindings"].values() for p in bound]
        assert published == ["127.0.0.1"]
        with pytest.raises(ValueError, match="is not ours"):
            engine.end(engine.client.containers.get(foreign), "limits", failed=False)
    finally:
        engine.remove({})
    assert not containers("limits")


def test_what_is_missing_is_said_at_start(docker_engine, monkeypatch):
    with pytest.raises(InfraError, match="has no image 'nosuch'; docker/README.md says how to build it"):
        Engine("", ContainerSettings("nosuch")).open()
    with pytest.raises(InfraError, match=r"no Docker engine answers at tcp://127.0.0.1:1 .*set fleet.hosts"):
        Engine("tcp://127.0.0.1:1", settings("x")).open()
    monkeypatch.setitem(sys.modules, "docker", None)
    with pytest.raises(InfraError, match=r"pip install 'mobilerl\[docker\]'"):
        Engine("", settings("x")).open()


def test_fleet_up_status_down(adb, docker_engine, capsys):
    flags = ["--fleet.image", IMAGE, "--fleet.name", "kept", "--fleet.adb_server", f"127.0.0.1:{adb.port}",
             "--phone.count", "2"]  # fmt: skip
    assert main(["fleet", "up", *flags]) == 0
    said = capsys.readouterr().out
    assert "2 started" in said and len(containers("kept", everything=False)) == 2
    serials = json.loads(re.search(r"--fleet.serials '(\[.*\])'", said)[1])
    assert adb.transport(serials[0]).shell(("getprop", "sys.boot_completed")).stdout == "1\n"

    docker("kill", containers("kept")[0])
    assert main(["fleet", "status", *flags]) == 0
    assert "exited" in capsys.readouterr().out
    assert main(["fleet", "up", *flags]) == 0  # mends what has stopped
    assert "1 started" in capsys.readouterr().out and len(containers("kept", everything=False)) == 2
    assert main(["fleet", "down", *flags]) == 0
    assert "2 containers of the fleet kept removed" in capsys.readouterr().out and not containers("kept")


def test_two_pools_on_one_host_do_not_collide(adb, docker_engine):
    async def both():
        pools = [pool_of(adb, name, 2)[0] for name in ("left", "right")]
        await asyncio.gather(*(pool.start() for pool in pools))
        async with asyncio.timeout(60):
            while any(pool.status()["ready"] < 2 for pool in pools):
                await asyncio.sleep(0.1)
        serials = {p.device.transport.serial for pool in pools for p in pool._places}
        await pools[0].close()
        assert not containers("left") and len(containers("right")) == 2
        await pools[1].close()
        return serials

    assert len(asyncio.run(both())) == 4
    assert not containers() and os.getpid()


def test_training_without_an_engine_ends_with_one_line(tmp_path):
    """The fleet belongs to a worker's process: its error has to come through, and closing must add none."""
    import torch

    from mobilerl import tiny

    torch.manual_seed(0)
    tiny.create(tmp_path / "model", ["a word"], hidden=32, layers=2, heads=2, vision_hidden=16)
    run = subprocess.run(
        [sys.executable, "-m", "mobilerl", "train", "--config", "recipes/adagrpo.toml", "--run-dir",
         str(tmp_path / "run"), "--model", str(tmp_path / "model"), "--fleet.type", "docker", "--fleet.hosts",
         '["unix:///nonexistent/docker.sock"]', "--collect.workers", "2", "--phone.count", "2", "--engine.threads",
         "1"], text=True, capture_output=True, timeout=300,
    )  # fmt: skip
    assert run.returncode == 2
    said = r"mobilerl: error: .*no Docker engine answers at unix:///nonexistent/docker.sock .*set fleet.hosts\n"
    assert re.fullmatch(said, run.stderr) and "Traceback" not in run.stdout


def test_training_goes_on_while_containers_are_killed(adb, docker_engine, tmp_path):
    """The command of recipes/adagrpo.sh at a small size, with the one flag that puts it on containers."""
    import torch

    from mobilerl import tiny

    torch.manual_seed(0)
    tiny.create(tmp_path / "model", ["a word"], hidden=32, layers=2, heads=2, vision_hidden=16)
    flags = {
        "fleet.type": "docker", "fleet.image": IMAGE, "fleet.name": "train", "phone.count": 4, "collect.workers": 2,
        "fleet.adb_server": f"127.0.0.1:{adb.port}", "collect.tasks_per_iteration": 4, "collect.group_size": 2,
        "collect.max_retries": 20, "train.iterations": 3, "fleet.check_every_s": 1, "engine.threads": 1,
    }  # fmt: skip
    words = [word for name, value in flags.items() for word in (f"--{name}", str(value))]
    run = subprocess.Popen(
        [sys.executable, "-m", "mobilerl", "train", "--config", "recipes/adagrpo.toml", "--run-dir",
         str(tmp_path / "run"), "--model", str(tmp_path / "model"), *words], text=True, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )  # fmt: skip
    killed = 0
    while run.poll() is None:
        running = containers("train", everything=False)
        if len(running) >= 6 and killed < 3:  # two workers, each with two phones and two spares
            subprocess.run(["docker", "kill", running[killed]], capture_output=True)
            killed += 1
        time.sleep(1.0)
    assert run.returncode == 0, run.stdout.read()
    rows = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    assert len(rows) == 3 and killed >= 1
    assert all(row["rollout/lost_groups"] == 0 for row in rows)
    assert rows[-1]["fleet/created"] >= 4 and rows[-1]["fleet/quarantined"] == 0
    assert not containers("train")
