"""`mobilerl fleet up` beside runs on the same engine, and on engines that fail."""

from __future__ import annotations

import os
import socket

import pytest
from docker_stand_in import IMAGE, StandInEngine, served

from envs.docker_avd import DETACHED, LABEL
from envs.docker_avd.engine import OWNER, PLACE
from envs.docker_avd.owner import this_process
from envs.docker_avd.provider import ContainerDevice
from envs.pool.adb import AdbServer
from mobilerl.cli import main

pytest.importorskip("docker")
pytest.importorskip("adbutils")


@pytest.fixture(autouse=True)
def booting(monkeypatch):
    """Devices that have booted at the second look, with no adb."""
    looks: set[str] = set()

    def booted(device: ContainerDevice) -> bool:
        before = device.transport.serial in looks
        looks.add(device.transport.serial)
        return before

    monkeypatch.setattr(AdbServer, "start", lambda server: None)
    monkeypatch.setattr(ContainerDevice, "_has_booted", booted)
    monkeypatch.setenv("COLUMNS", "300")


def labels(of: str, place: int, fleet: str = "fleet") -> dict[str, str]:
    return {LABEL: fleet, OWNER: of, PLACE: str(place)}


def up(count: int, *engines: StandInEngine) -> int:
    hosts = ", ".join(f'"{engine.host}"' for engine in engines)
    for engine in engines:
        engine.may_start.set()
    return main(["fleet", "up", "--fleet.name", "fleet", "--fleet.image", IMAGE, "--fleet.hosts", f"[{hosts}]",
                 "--phone.count", str(count)])  # fmt: skip


def test_devices_that_were_left_running_are_used_again(capfd):
    """Those of a run with another fleet are no concern."""
    with served({"kept": labels(DETACHED, 0), "run": labels(this_process(), 1, "others")}) as engine:
        engine.first_port = 40000
        assert up(2, engine) == 0
        assert engine.containers["new2"] == labels(DETACHED, 1) and len(engine.containers) == 3
    said = capfd.readouterr().out
    assert "1 started; train on them with:" in said
    assert """--fleet.serials '["127.0.0.1:40000","127.0.0.1:40001"]' --phone.count 2""" in said


@pytest.mark.parametrize("count", [1, 3])
def test_the_devices_of_a_run_are_not_taken(count, capfd):
    """They end with the run. Nor is anything started beside them under the same name and numbers."""
    there = {"run": labels(this_process(), 0), "kept": labels(DETACHED, 1)}
    with served(there) as engine:
        engine.first_port = 40000
        assert up(count, engine) == 2
        assert engine.containers == there
    out, err = capfd.readouterr()
    assert not out and err.count("\n") == 1
    assert f"the fleet fleet has containers of a run ({socket.gethostname()}:{os.getpid()}): set another" in err


def test_a_device_that_cannot_be_removed_keeps_no_other_from_starting(capfd):
    with served() as failing, served() as well:
        well.first_port = 40000
        failing.stuck = {"new0"}
        assert up(2, failing, well) == 1
        assert list(failing.containers) == ["new0"] and list(well.containers.values()) == [labels(DETACHED, 1)]
    out, err = capfd.readouterr()
    assert "device 0: container new0 stopped as soon as it started" in out and "new0 is busy" in out
    assert """1 started; train on them with:\n  --fleet.type adb --fleet.serials '["127.0.0.1:40001"]' """ in out
    assert not err


def test_an_engine_that_goes_down_keeps_no_device_of_the_others_from_being_told(capfd, monkeypatch):
    with served() as failing, served() as well:
        well.first_port = 40000
        working = failing.answer

        def answer(method: str, path: str, body: bytes) -> tuple[int, object]:
            if path.endswith("/containers/create"):
                failing.asked.set()
            return (500, {"message": "out of order"}) if failing.asked.is_set() else working(method, path, body)

        monkeypatch.setattr(failing, "answer", answer)
        assert up(2, failing, well) == 1
    said = capfd.readouterr().out
    assert "device 0: " in said and "out of order; what is left of it stays: " in said
    assert f"no Docker engine answers at {failing.host}" in said
    assert """1 started; train on them with:\n  --fleet.type adb --fleet.serials '["127.0.0.1:40001"]' """ in said


def test_without_any_device_there_is_nothing_to_train_on(capfd):
    with served() as engine:
        assert up(1, engine) == 1
        assert not engine.containers
    said = capfd.readouterr().out
    assert "device 0: " in said and "0 started\n" in said and "serials" not in said
