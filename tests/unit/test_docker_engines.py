"""Docker engines that are down, that fail while a fleet ends, and that other machines use as well."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import time

import pytest
from docker_stand_in import IMAGE, StandInEngine, served
from scripted_env import ScriptedEnv, run

from mobilerl.cli import main
from mobilerl.envs.adb import AdbTransport
from mobilerl.envs.base import InfraError
from mobilerl.envs.docker_avd import DETACHED, LABEL, ContainerSettings, DockerProvider, owner
from mobilerl.envs.docker_avd.engine import OWNER, PLACE
from mobilerl.envs.docker_avd.provider import ContainerDevice
from mobilerl.envs.pool import DevicePool, PoolSettings
from mobilerl.envs.pool.adb import AdbServer

pytest.importorskip("docker.errors")
GONE = "unix:///nonexistent/docker.sock"


def provider_of(*hosts: str) -> DockerProvider:
    return DockerProvider(ContainerSettings(IMAGE, "fleet", hosts), lambda name, _: ScriptedEnv(name), AdbServer())


def labels(of: str, place: int = 0, fleet: str = "fleet") -> dict[str, str]:
    return {LABEL: fleet, OWNER: of, PLACE: str(place)}


def closed(engine: StandInEngine) -> bool:
    """Whether it was connected to, and nothing of it is left."""
    until = time.monotonic() + 60
    while engine.connected and time.monotonic() < until:
        time.sleep(0.01)
    return engine.served > 0 and not engine.connected


def ended() -> int:
    """The number of a process that was there."""
    process = subprocess.Popen([sys.executable, "-S", "-c", ""])
    process.wait()
    return process.pid


@pytest.mark.parametrize("command", ["up", "down"])
def test_the_command_line_says_in_one_line_that_an_engine_is_down(command, capfd):
    with served() as engine:
        assert main(["fleet", command, "--fleet.image", IMAGE, "--fleet.hosts", f'["{engine.host}", "{GONE}"]']) == 2
        assert closed(engine)
    out, err = capfd.readouterr()
    assert not out and "no Docker engine answers" in err and err.count("\n") == 1


def test_closing_goes_on_to_every_container_of_every_engine_and_says_the_first_failure():
    mine = "this:1:1"
    with served({"a": labels(mine), "b": labels(mine, 2)}) as first, served({"c": labels(mine, 1)}) as second:
        provider = provider_of(first.host, second.host)
        provider.owner = mine
        first.stuck = {"a"}

        async def main():
            await provider.open()
            with pytest.raises(InfraError, match="cannot remove container a: .*a is busy"):
                await provider.close()

        run(main())
        assert list(first.containers) == ["a"] and not second.containers
        assert closed(first) and closed(second)


@pytest.mark.parametrize("ending", ["discard", "close"])
def test_a_container_whose_start_was_abandoned_is_removed(ending):
    """The call to the engine goes on in its thread, and makes the container when nobody waits for it any more."""

    async def main():
        provider = provider_of(engine.host)
        await provider.open()
        starting = asyncio.create_task(provider.create(0, 0))
        await asyncio.to_thread(engine.asked.wait, 60)
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        removing = asyncio.create_task(provider.discard(0) if ending == "discard" else provider.close())
        await asyncio.sleep(0.1)
        assert not removing.done(), "it has to wait for what it is to remove"
        engine.may_start.set()
        await removing
        assert not engine.containers
        await provider.close()

    with served() as engine:
        run(main())
        assert engine.asked.is_set() and not engine.containers


def test_a_device_that_does_not_boot_in_time_keeps_its_log_and_leaves_adb(monkeypatch, tmp_path):
    forgotten, env, said = [], ScriptedEnv("fleet-0"), "emulator: panic \u2026\n"
    monkeypatch.setattr(AdbServer, "start", lambda server: None)
    monkeypatch.setattr(ContainerDevice, "_has_booted", lambda device: False)
    monkeypatch.setattr(AdbTransport, "disconnect", lambda transport: forgotten.append(transport.serial))

    async def start(provider):
        pool = DevicePool(provider, PoolSettings(1, boot_s=2.0))
        try:
            await pool.start()
        finally:
            await pool.close()

    with served() as engine:
        engine.may_start.set()
        engine.first_port, engine.said = 40000, said
        settings = ContainerSettings(IMAGE, "fleet", (engine.host,), log_dir=tmp_path / "devices")
        with pytest.raises(InfraError, match=r"no device of 1 starts: the boot took more than 2 s"):
            run(start(DockerProvider(settings, lambda name, _: env, AdbServer())))
        assert not engine.containers and closed(engine)
    assert (tmp_path / "devices/fleet-0.log").read_text(encoding="utf-8") == said
    assert forgotten == ["127.0.0.1:40000"] and env.closed == 1


def test_only_what_ran_here_and_ended_is_dead():
    host, here, dead = socket.gethostname(), owner._here(), ended()
    assert not owner.is_dead(owner.this_process())
    assert owner.is_dead(":".join((host, str(dead), "1", *here)))
    assert owner.is_dead(":".join((host, str(os.getpid()), "1", *here))), "the number was given out again"
    boot, namespace = here
    for elsewhere in (["another", namespace], [boot, "1"], [boot], ["", ""]):
        assert not owner.is_dead(":".join((host, str(dead), "1", *elsewhere)))
    for label in (f"{host}:{dead}:1", f"other:{dead}:1:{boot}:{namespace}", DETACHED, "", "nobody:0:0"):
        assert not owner.is_dead(label)


def test_orphans_of_others_stay_until_the_fleet_is_taken_down(capsys):
    host, (boot, namespace), dead = socket.gethostname(), owner._here(), ended()
    there = {
        "orphan": labels(f"{host}:{dead}:1:{boot}:{namespace}"),
        "mine": labels(owner.this_process()),
        "inside": labels(f"{host}:{dead}:1:{boot}:1"),
        "kept": labels(DETACHED),
        "stranger": labels(f"{host}:{dead}:1:{boot}:1", fleet="others"),
        "foreign": {OWNER: f"{host}:{dead}:1:{boot}:{namespace}"},
    }
    with served(there) as engine:
        run(provider_of(engine.host).open())
        assert set(engine.containers) == set(there) - {"orphan"}
        assert main(["fleet", "down", "--fleet.name", "fleet", "--fleet.hosts", f'["{engine.host}"]']) == 0
        assert "3 containers of the fleet fleet removed" in capsys.readouterr().out
        assert set(engine.containers) == {"stranger", "foreign"}


@pytest.mark.parametrize("name", ["", "-", "a b", "x=y", "a\n"])
def test_a_fleet_without_a_proper_name_removes_nothing(name, capsys):
    with served({"a": labels(DETACHED), "b": labels("this:1:1", fleet="other")}) as engine:
        assert main(["fleet", "down", f"--fleet.name={name}", "--fleet.hosts", f'["{engine.host}"]']) == 2
        assert "fleet.name" in capsys.readouterr().err and len(engine.containers) == 2


def test_a_container_with_a_broken_label_is_named(capsys):
    with served({"a": labels(DETACHED), "b": {**labels(DETACHED), PLACE: "x"}}) as engine:
        assert main(["fleet", "status", "--fleet.hosts", f'["{engine.host}"]']) == 0
    assert "broken label mobilerl.place='x'" in " ".join(capsys.readouterr().out.split())
