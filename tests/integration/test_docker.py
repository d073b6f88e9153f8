"""Fleets of phone containers on a real Docker Engine: killed, orphaned, missing, and never anybody else's."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest
import torch
from docker.models.containers import Container
from docker_engine import IMAGE

from mobilerl.cli import main
from mobilerl.envs.base import InfraError
from mobilerl.envs.docker_avd import LABEL, ContainerSettings, Engine
from mobilerl.envs.docker_avd.engine import PHONE_PIDS
from mobilerl.models import tiny

pytestmark = pytest.mark.slow
SCREEN = ("--width", "360", "--height", "720")


def docker(*words: str) -> str:
    return subprocess.run(["docker", *words], capture_output=True, text=True, check=True, timeout=300).stdout.strip()


def containers(fleet: str = "", everything: bool = True) -> list[str]:
    label = f"{LABEL}={fleet}" if fleet else LABEL
    return docker("ps", *(["-a"] if everything else []), "-q", "--filter", f"label={label}").split()


@pytest.fixture
def foreign(docker_engine):
    """A container that is not ours."""
    name = docker("run", "-d", IMAGE, *SCREEN)
    yield name
    docker("rm", "-f", name)


def settings(fleet: str, **wanted) -> ContainerSettings:
    return ContainerSettings(IMAGE, fleet, **({"memory_mb": 256, "command": SCREEN} | wanted))


OWNER = """
import asyncio, sys
from mobilerl.envs.docker_avd import ContainerSettings, DockerProvider
from mobilerl.envs.phone.env import PhoneEnv
from mobilerl.envs.pool.adb import AdbServer

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


def start_owner(adb, fleet: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", OWNER, IMAGE, fleet, str(adb.port)]
    owner = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert owner.stdout.readline() == "up\n"
    return owner


def test_only_orphaned_containers_are_removed(adb, foreign):
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
    assert not containers("orphaned") and not containers("alive")


CONNECT = """
import socket, sys, time
until = time.monotonic() + float(sys.argv[2])
while True:
    try:
        socket.create_connection((sys.argv[1], 5555), 1).close()
        break
    except OSError:
        if time.monotonic() > until:
            sys.exit("nothing answers")
        time.sleep(0.1)
"""


def reaches(container: Container, address: str, seconds: float) -> bool:
    """Whether the adb port at an address can be reached from inside a container."""
    return container.exec_run(["python3", "-c", CONNECT, address, str(seconds)]).exit_code == 0


def test_limits_and_isolation(foreign):
    engine = Engine("", settings("limits", cpus=0.5))
    engine.open()
    container, other = (engine.run("nobody:0:0", place) for place in (0, 1))
    try:
        container.reload()
        other.reload()
        host = container.attrs["HostConfig"]
        assert not host["Privileged"] and host["Memory"] == 256 << 20 and host["NanoCpus"] == 500_000_000
        assert not host["Devices"]
        assert host["CapDrop"] == ["ALL"] and host["SecurityOpt"] == ["no-new-privileges:true"]
        assert host["PidsLimit"] == PHONE_PIDS
        [address] = [n["IPAddress"] for n in other.attrs["NetworkSettings"]["Networks"].values()]
        assert reaches(container, "127.0.0.1", seconds=120) and not reaches(container, address, seconds=3)
        published = [p["HostIp"] for bound in host["PortBindings"].values() for p in bound]
        assert published == ["127.0.0.1"]
        with pytest.raises(ValueError, match="is not ours"):
            engine.end(engine.client.containers.get(foreign), "limits", failed=False)
    finally:
        engine.remove({})
    assert not containers("limits")


def test_a_missing_image_or_engine_is_named_at_the_start(docker_engine):
    with pytest.raises(InfraError, match="has no image 'nosuch'"):
        Engine("", ContainerSettings("nosuch")).open()
    with pytest.raises(InfraError, match=r"tcp://127.0.0.1:1 .*set fleet.hosts"):
        Engine("tcp://127.0.0.1:1", settings("x")).open()


def test_fleet_up_status_down(adb, docker_engine, capsys, monkeypatch):
    monkeypatch.setenv("ANDROID_ADB_SERVER_PORT", str(adb.port))
    flags = ["--fleet.image", IMAGE, "--fleet.name", "kept", "--fleet.count", "2"]
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


def test_fleet_check_boots_a_device_and_removes_it(adb, docker_engine, capsys, monkeypatch):
    monkeypatch.setenv("ANDROID_ADB_SERVER_PORT", str(adb.port))
    flags = ["--fleet.image", IMAGE, "--fleet.name", "checked"]
    assert main(["fleet", "check", *flags]) == 0
    said = capsys.readouterr().out
    assert re.search(r"ok +boot +\d+\.\d s, a screen of 360x720; removed again", said)
    assert not any("checked" in docker("inspect", "-f", "{{.Config.Labels}}", name) for name in containers())
    assert main(["fleet", "check", *flags, "--no-boot"]) == 0
    assert " boot " not in capsys.readouterr().out
    assert main(["fleet", "check", "--fleet.image", "no-such-image", "--no-boot"]) == 1
    assert "no-such-image" in capsys.readouterr().out


def test_training_survives_killed_containers_and_its_own_death(adb, foreign, tmp_path):
    """The command of recipes/adagrpo.sh at a small size, on containers; killed after an iteration, and resumed."""
    torch.manual_seed(0)
    tiny.create(tmp_path / "model", ["a word"], hidden=32, layers=2, heads=2, vision_hidden=16)
    flags = f"""--fleet.type docker --fleet.image {IMAGE} --fleet.name train --fleet.count 4 --rollout.workers 2
        --rollout.tasks_per_iteration 4 --algorithm.group_size 2
        --train.iterations 3 --train.checkpoint_every 1 --engine.threads 1 --eval.every 0"""
    command = f"train --config recipes/adagrpo.toml --run-dir {tmp_path}/run --model {tmp_path}/model {flags}".split()
    env = os.environ | {"ANDROID_ADB_SERVER_PORT": str(adb.port)}

    def start(*more: str) -> subprocess.Popen[bytes]:
        with open(tmp_path / "log", "wb") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "mobilerl", *command, *more], stdout=log, stderr=log, env=env
            )

    run = start()
    while not list((tmp_path / "run/checkpoints").glob("iter-*")):
        assert run.poll() is None, (tmp_path / "log").read_text()
        time.sleep(0.2)
    run.kill()
    run.wait()
    orphans = set(containers("train"))
    run, killed = start("--resume"), 0
    while run.poll() is None:
        running = containers("train", everything=False)
        if len(running) >= 6 and killed < 3:  # two workers, each with two phones and two spares
            subprocess.run(["docker", "kill", running[killed]], capture_output=True)
            killed += 1
        time.sleep(1.0)
    assert run.returncode == 0, (tmp_path / "log").read_text()
    rows = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    assert [row["iteration"] for row in rows] == [1, 2, 3] and killed >= 1 and orphans
    assert all(row["rollout/lost_groups"] == 0 for row in rows)
    assert rows[-1]["fleet/created"] >= 4 and rows[-1]["fleet/quarantined"] == 0
    assert not containers("train"), "a container was left behind"
    assert foreign[:12] in docker("ps", "-q"), "a container that is not ours was touched"
