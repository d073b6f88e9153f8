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

from envs.base import InfraError
from envs.docker_avd import DETACHED, LABEL, ContainerSettings, DockerProvider, Engine, owner
from envs.docker_avd.engine import OWNER, PLACE
from envs.pool import DevicePool, PoolSettings
from envs.pool.adb import AdbServer
from mobilerl.cli import main

pytest.importorskip("docker")
GONE = "unix:///nonexistent/docker.sock"
NOBODY_THERE = f"no Docker engine answers at {GONE} .*set fleet.hosts"


def provider_of(*hosts: str) -> DockerProvider:
    return DockerProvider(ContainerSettings(IMAGE, "fleet", hosts), lambda name, _: ScriptedEnv(name), AdbServer())


def labels(of: str, place: int = 0, fleet: str = "fleet") -> dict[str, str]:
    return {LABEL: fleet, OWNER: of, PLACE: str(place)}


def closed(engine: StandInEngine) -> bool:
    """Whether it was connected to, and nothing of it is left."""
    until = time.monotonic() + 5
    while engine.connected and time.monotonic() < until:
        time.sleep(0.01)
    return engine.served > 0 and not engine.connected


def ended() -> int:
    """The number of a process that was there."""
    process = subprocess.Popen([sys.executable, "-S", "-c", ""])
    process.wait()
    return process.pid


# --- an engine that is not there ---------------------------------------------------------------------------------


def test_a_later_engine_that_is_down_closes_those_before_it():
    with served({"other": labels("elsewhere:1:1")}) as engine:
        provider = provider_of(engine.host, GONE)
        with pytest.raises(InfraError, match=NOBODY_THERE):
            run(provider.open())
        assert closed(engine) and engine.containers
        run(provider.close())  # there is nothing to close


def test_a_pool_without_an_engine_says_so_and_can_be_closed():
    """The collector closes the pool again after a start that failed."""

    async def main():
        pool = DevicePool(provider_of(GONE), PoolSettings(2))
        with pytest.raises(InfraError, match=NOBODY_THERE):
            await pool.start()
        await pool.close()

    run(main())


def test_an_engine_without_the_image_is_closed_again():
    with served() as engine:
        with pytest.raises(InfraError, match="has no image 'other'"):
            Engine(engine.host, ContainerSettings("other")).open()
        assert closed(engine)


@pytest.mark.parametrize("what", ["up", "status", "down"])
def test_the_command_line_says_in_one_line_that_an_engine_is_down(what, capfd):
    with served() as engine:
        assert main(["fleet", what, "--fleet.image", IMAGE, "--fleet.hosts", f'["{engine.host}", "{GONE}"]']) == 2
        assert closed(engine)
    out, err = capfd.readouterr()
    assert not out and err.startswith(f"mobilerl: error: no Docker engine answers at {GONE}") and err.count("\n") == 1


# --- the end of a fleet ------------------------------------------------------------------------------------------


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
        await asyncio.to_thread(engine.asked.wait, 10)
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


def test_what_one_event_loop_started_another_one_ends():
    """AndroidWorld's first container is started before the loop in which the run plays."""
    with served() as engine:
        engine.may_start.set()
        provider = provider_of(engine.host)

        async def start():
            await provider.open()
            with pytest.raises(InfraError):  # the stand-in's containers have no ports
                await provider.create(0, 0)

        async def end():
            await provider.discard(0)
            await provider.create(1, 0)

        run(start())
        assert len(engine.containers) == 1
        with pytest.raises(InfraError):
            run(end())
        assert [of[PLACE] for of in engine.containers.values()] == ["1"]
        run(provider.close())
        assert not engine.containers and closed(engine)


# --- whose containers they are -----------------------------------------------------------------------------------


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


def test_a_process_that_proc_hides_is_alive(monkeypatch):
    """Mounted with hidepid, /proc shows no process of another user."""
    label, dead = owner.this_process(), ended()
    monkeypatch.setattr(owner, "_started", lambda pid: "")
    assert not owner.is_dead(label)
    assert owner.is_dead(label.replace(f":{os.getpid()}:", f":{dead}:"))


def test_without_a_proc_of_ones_own_nobody_is_dead(monkeypatch):
    label = owner.this_process().replace(f":{os.getpid()}:", f":{ended()}:")
    assert owner.is_dead(label)
    monkeypatch.setattr(os, "readlink", lambda path: "1")
    assert not owner.is_dead(label) and owner.this_process().endswith("::")


def test_orphans_of_others_stay_until_the_fleet_is_taken_down(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    host, (boot, namespace), dead = socket.gethostname(), owner._here(), ended()
    there = {
        "orphan": labels(f"{host}:{dead}:1:{boot}:{namespace}"),
        "mine": labels(owner.this_process()),
        "twin": labels(f"{host}:{dead}:1:{boot[::-1]}:{namespace}"),
        "inside": labels(f"{host}:{dead}:1:{boot}:1"),
        "former": labels(f"{host}:{dead}:1"),
        "kept": labels(DETACHED),
        "stranger": labels(f"{host}:{dead}:1:{boot}:1", fleet="others"),
        "foreign": {OWNER: f"{host}:{dead}:1:{boot}:{namespace}"},
    }
    with served(there) as engine:
        run(provider_of(engine.host).open())
        assert set(engine.containers) == set(there) - {"orphan"}
        flags = ["--fleet.name", "fleet", "--fleet.hosts", f'["{engine.host}"]']
        assert main(["fleet", "status", *flags]) == 0
        said = capsys.readouterr().out
        assert f"{host}:{os.getpid()}" in said and boot not in said
        assert main(["fleet", "down", *flags]) == 0
        assert "5 containers of the fleet fleet removed" in capsys.readouterr().out
        assert set(engine.containers) == {"stranger", "foreign"}
