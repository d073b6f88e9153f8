"""Docker engines that are down, that fail while a fleet ends, and that other machines use as well."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import time
import types
from pathlib import Path

import pytest
from docker_stand_in import IMAGE, StandInEngine, served
from scripted_env import ScriptedEnv, run

from envs.adb import AdbTransport
from envs.androidworld.containers import AndroidWorldContainers, make_env
from envs.androidworld.startup import StartupError, Suite
from envs.base import InfraError
from envs.docker_avd import DETACHED, LABEL, ContainerSettings, DockerProvider, Engine, owner
from envs.docker_avd.engine import OWNER, PLACE, connect
from envs.docker_avd.provider import ContainerDevice
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
    until = time.monotonic() + 60
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


# --- devices that do not start -----------------------------------------------------------------------------------

SAID = "emulator: panic \u2026\n"


@pytest.fixture
def booting(monkeypatch) -> types.SimpleNamespace:
    """Devices of `served` engines that boot when `boots` is set, without an adb server; which serials it forgot."""
    state = types.SimpleNamespace(boots=False, forgotten=[], envs=[])
    monkeypatch.setattr(AdbServer, "start", lambda server: None)
    monkeypatch.setattr(ContainerDevice, "_has_booted", lambda device: state.boots)
    monkeypatch.setattr(AdbTransport, "disconnect", lambda transport: state.forgotten.append(transport.serial))
    return state


def served_provider(engine: StandInEngine, log_dir: Path, state: types.SimpleNamespace,
                    world: bool = False) -> DockerProvider:  # fmt: skip
    """`world`: with AndroidWorld's server at the port, where nobody listens."""
    engine.may_start.set()
    engine.first_port, engine.said = 40000, SAID
    wanted = ContainerSettings(IMAGE, "fleet", (engine.host,), http_port=5555 if world else 0, log_dir=log_dir)

    def make(device_id, transport, **url):
        state.envs.append(make_env(device_id, transport, **url) if world else ScriptedEnv(device_id))
        return state.envs[-1]

    return DockerProvider(wanted, make, AdbServer())


def start_alone(provider, **wanted) -> None:
    """A pool of one place, which gives up after the first boot."""

    async def main():
        pool = DevicePool(provider, PoolSettings(1, **wanted))
        try:
            await pool.start()
        finally:
            await pool.close()

    run(main())


def test_a_device_that_does_not_boot_in_time_keeps_its_log_and_leaves_adb(booting, tmp_path):
    with served() as engine:
        with pytest.raises(InfraError, match=r"no device of 1 starts: the boot took more than 2 s"):
            start_alone(served_provider(engine, tmp_path / "devices", booting), boot_s=2.0)
        assert not engine.containers and closed(engine)
    assert (tmp_path / "devices/fleet-0.log").read_text(encoding="utf-8") == SAID
    assert booting.forgotten == ["127.0.0.1:40000"] and booting.envs[0].closed == 1


def test_a_container_that_ends_before_it_has_ports_keeps_its_log(booting, tmp_path):
    with served() as engine:
        provider = served_provider(engine, tmp_path, booting)
        engine.first_port = 0
        with pytest.raises(InfraError, match="stopped as soon as it started: emulator: panic"):
            start_alone(provider)
        assert not engine.containers
    assert (tmp_path / "fleet-0.log").read_text(encoding="utf-8") == SAID


def test_a_device_that_was_starting_when_the_run_ended_leaves_no_log(booting, tmp_path):
    async def main():
        provider = served_provider(engine, tmp_path, booting)
        await provider.open()
        starting = asyncio.create_task(provider.create(0, 0))
        while not booting.envs:
            await asyncio.sleep(0.01)
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        await provider.discard(0, failed=False)
        assert not engine.containers
        await provider.close()

    with served() as engine:
        run(main())
    assert booting.forgotten == ["127.0.0.1:40000"] and not list(tmp_path.iterdir())


def test_a_server_of_androidworld_that_does_not_come_up_in_time_leaves_nothing_but_its_log(booting, tmp_path):
    booting.boots = True
    with served() as engine:
        provider = served_provider(engine, tmp_path, booting, world=True)
        containers = AndroidWorldContainers(provider, Suite(0, 1, ()), boot_s=60.0)
        with pytest.raises(InfraError, match=r"the boot took more than 2 s"):
            start_alone(containers, boot_s=2.0)
        assert not engine.containers and closed(engine)
    assert (tmp_path / "fleet-0.log").exists() and booting.forgotten == ["127.0.0.1:40000"]
    assert all(env.client._http.is_closed for env in booting.envs)


@pytest.mark.parametrize("boots", [False, True])
def test_the_first_container_of_androidworld_leaves_nothing_but_its_log(boots, booting, tmp_path):
    """Before there is a pool: it does not boot in time, or its server does not answer by then."""
    booting.boots = boots
    with served() as engine:
        provider = served_provider(engine, tmp_path, booting, world=True)
        containers = AndroidWorldContainers(provider, Suite(0, 1, ()), boot_s=2.0)
        with pytest.raises(StartupError, match="the first container"):
            run(containers.start_first(lambda said: None))
        assert not engine.containers and closed(engine)
    assert (tmp_path / "fleet-0.log").exists() and booting.forgotten == ["127.0.0.1:40000"]
    assert all(env.client._http.is_closed for env in booting.envs)


def test_the_first_container_of_androidworld_that_no_pool_took_is_given_back(booting, tmp_path, monkeypatch):
    booting.boots = True

    async def main():
        await containers.start_first()
        await containers.close()

    async def check(*_: object, **__: object) -> None:
        containers._first = object()

    with served() as engine:
        containers = AndroidWorldContainers(served_provider(engine, tmp_path, booting, True), Suite(0, 1, ()), 60.0)
        monkeypatch.setattr(containers, "_check", check)
        run(main())
        assert not engine.containers and closed(engine)
    assert booting.forgotten == ["127.0.0.1:40000"] and not list(tmp_path.iterdir())
    assert all(env.client._http.is_closed for env in booting.envs)


def test_a_log_that_cannot_be_written_ends_nothing(booting, tmp_path, caplog):
    (tmp_path / "full").write_text("")
    with served() as engine:
        provider = served_provider(engine, tmp_path / "full/devices", booting)
        with pytest.raises(InfraError, match=r"the boot took more than 2 s"):
            start_alone(provider, boot_s=2.0)
        assert not engine.containers and closed(engine)
    assert "the last lines of a container that failed are lost" in caplog.text


KEEP = r"""
import sys
from pathlib import Path
from types import SimpleNamespace
from envs.docker_avd import LABEL, ContainerSettings, Engine
said = "emulator: panic \u2026\n".encode()
container = SimpleNamespace(name="c", labels={LABEL: "fleet"}, status="exited", reload=lambda: None,
                            logs=lambda tail: said, remove=lambda force, v: None)
Engine("", ContainerSettings("phone", log_dir=Path(sys.argv[1]))).end(container, "fleet-0", True)
"""


def test_a_log_is_written_as_utf_8_whatever_the_locale(tmp_path):
    plain = os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run([sys.executable, "-c", KEEP, str(tmp_path)], env=plain, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "fleet-0.log").read_text(encoding="utf-8") == SAID


# --- engines over ssh --------------------------------------------------------------------------------------------


class SSHException(Exception):
    """As paramiko's: of no other family."""


@pytest.fixture
def paramiko(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "paramiko", types.SimpleNamespace(SSHException=SSHException))


def raising(error: Exception):
    def ask(*_: object, **__: object) -> None:
        raise error

    return ask


SSH_FAULTS = [(SSHException("SSH session not active"), "SSH session not active"), (EOFError(), "EOFError")]


@pytest.mark.parametrize("error, said", SSH_FAULTS)
def test_an_ssh_connection_that_drops_is_a_fault_of_the_engine(error, said, paramiko):
    engine = Engine("ssh://me@far", ContainerSettings(IMAGE))
    lists = types.SimpleNamespace(list=raising(error), run=raising(error))
    engine.client = types.SimpleNamespace(containers=lists, images=lists)
    for ask in (lambda: engine.remove({}), lambda: engine.run("this:1:1", 0), engine.listed):
        with pytest.raises(InfraError, match=f"ssh://me@far: {said}"):
            ask()


@pytest.mark.parametrize("error, said", SSH_FAULTS)
def test_an_engine_that_ssh_does_not_reach_is_said_in_one_line(error, said, paramiko, monkeypatch):
    monkeypatch.setattr("docker.DockerClient", raising(error))
    with pytest.raises(InfraError, match=rf"no Docker engine answers at ssh://me@far \({said}\); start it"):
        connect("ssh://me@far")


def test_without_paramiko_the_cure_is_to_install_it(monkeypatch):
    from docker.errors import DockerException

    monkeypatch.setitem(sys.modules, "paramiko", None)
    monkeypatch.setattr("docker.DockerClient", raising(DockerException("Install paramiko package")))
    with pytest.raises(InfraError, match=r"pip install 'docker\[ssh\]'") as told:
        connect("ssh://me@far")
    assert "systemctl" not in str(told.value)


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
