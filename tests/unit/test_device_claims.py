"""One run at a time: serials, servers and names of fleets that another process of this machine uses."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from docker_stand_in import IMAGE, served

from mobilerl.cli import main
from mobilerl.config import ConfigError, Recipe
from mobilerl.envs.claims import Claim
from mobilerl.suites.fleet import Part, check_devices, claimed_devices, make_devices
from mobilerl.training.workers import RolloutWorkers

MDNS = "adb-13e75597-Upleco (2)._adb-tls-connect._tcp"
SERIALS = ["emulator-5554", "127.0.0.1:5601", MDNS, "ZUG 5S"]
HOLD = """
import sys, time
from mobilerl.envs.claims import Claim

claim = Claim("run /tmp/theirs")
claim.take(sys.argv[1], "")
print(flush=True)
time.sleep(600)
"""


@pytest.fixture
def adb_port(monkeypatch):
    """An adb server of the test's own, with devices by their serials; nothing else of adb is there."""
    server = socket.create_server(("127.0.0.1", 0))
    listed = "".join(f"{serial}\tdevice\n" for serial in SERIALS).encode()

    def answer() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            with connection:
                asked = connection.recv(int(connection.recv(4), 16))
                said = b"0029" if asked == b"host:version" else listed
                connection.sendall(b"OKAY%04x" % len(said) + said)

    threading.Thread(target=answer, daemon=True).start()
    port = server.getsockname()[1]
    monkeypatch.setenv("ANDROID_ADB_SERVER_PORT", str(port))
    yield port
    server.close()


def recipe_of(*serials: str) -> Recipe:
    fleet = {"type": "adb", "serials": serials, "spares": 0}
    return Recipe(rollout={"workers": 1}, fleet={**fleet, "count": len(serials)})


def held(serial: str, port: int) -> str:
    return f"the device {serial} of the adb server 127.0.0.1:{port}"


def test_a_serial_of_another_run_is_refused_until_that_run_is_killed(adb_port, tmp_path):
    command = [sys.executable, "-c", HOLD, held("ZUG 5S", adb_port)]
    other = subprocess.Popen(command, stdout=subprocess.PIPE)
    other.stdout.readline()
    holder = rf"process {other.pid} on {socket.gethostname()} \(run /tmp/theirs\)"
    says = rf"ZUG 5S of the adb server 127.0.0.1:{adb_port} is in use by {holder}: wait until it ends"
    with pytest.raises(ConfigError, match=says):
        claimed_devices(recipe_of(MDNS, "ZUG 5S"), tmp_path)
    claimed_devices(recipe_of(MDNS), tmp_path).release()  # it was given back
    other.kill()
    other.wait()
    claimed_devices(recipe_of("ZUG 5S"), tmp_path).release()


def test_the_workers_of_a_run_share_its_claim_and_another_run_gets_none(adb_port, tmp_path):
    recipe = recipe_of(*SERIALS)

    async def opened(pool) -> None:
        await pool.provider.open()
        await pool.provider.close()

    with claimed_devices(recipe, tmp_path / "run"):
        for index in range(2):
            asyncio.run(opened(make_devices(recipe, tmp_path / "run", Part(index, 2))))
        for serial in ("localhost:5555", "emulator-5554"):  # one device
            with pytest.raises(ConfigError, match=rf"127.0.0.1:5555 .*process {os.getpid()} .*run {tmp_path}/run"):
                asyncio.run(make_devices(recipe_of(serial), tmp_path / "other").start())
    asyncio.run(opened(make_devices(recipe_of("emulator-5554"), tmp_path / "other")))


def test_the_same_serial_of_another_adb_server_is_another_device(adb_port, monkeypatch, tmp_path):
    with claimed_devices(recipe_of("emulator-5554"), tmp_path):
        monkeypatch.setenv("ANDROID_ADB_SERVER_PORT", "1")
        claimed_devices(recipe_of("emulator-5554"), tmp_path).release()


def test_rollout_workers_hold_the_claim_of_their_run(adb_port, tmp_path):
    async def play(run: str) -> None:
        async with RolloutWorkers(recipe_of("ZUG 5S"), None, tmp_path / run):
            with pytest.raises(ConfigError, match=f"{tmp_path}/{run}"):
                await asyncio.to_thread(claimed_devices, recipe_of("ZUG 5S"), tmp_path)

    asyncio.run(play("first"))
    asyncio.run(play("second"))


@pytest.mark.parametrize("serial", SERIALS)
def test_serials_as_adb_prints_them(adb_port, serial):
    from mobilerl.envs.adb import AdbTransport

    check_devices(recipe_of(serial))
    assert AdbTransport(serial).state() == "device"


@pytest.mark.parametrize("serial", ["", " a", "a  b", "a\tb", "a\nb", "a,b", '["a"]', "h:x", "h:5555:1", "http://h:1"])
def test_what_no_serial_is(serial):
    with pytest.raises(ConfigError, match="is no serial"):
        check_devices(recipe_of(serial))


def test_a_fleet_of_another_run_is_neither_used_nor_taken_down(capfd):
    pytest.importorskip("docker.errors")
    with served() as engine:
        flags = ["--fleet.name=shared", f"--fleet.image={IMAGE}", f'--fleet.hosts=["{engine.host}"]']
        recipe = Recipe(fleet={"type": "docker", "name": "shared", "image": IMAGE, "hosts": [engine.host]})
        with claimed_devices(recipe, Path("/tmp/first")):
            with pytest.raises(
                ConfigError, match=r"the fleet shared of .* is in use by .*\(run /tmp/first\): .*fleet.name"
            ):
                asyncio.run(make_devices(recipe, Path("/tmp/second")).start())
            for command in ("up", "down"):
                assert main(["fleet", command, *flags]) == 2
                out, err = capfd.readouterr()
                assert not out and err.count("\n") == 1 and "(run /tmp/first)" in err
        assert main(["fleet", "down", *flags]) == 0


def test_a_claim_is_released_with_its_last_use_and_names_of_any_length_are_apart():
    one, two = Claim("a"), Claim("b", ConfigError)
    one.take("x" * 300 + "1", "")
    one.take("x" * 300 + "1", "")  # its own
    two.take("x" * 300 + "2", "")
    with pytest.raises(ConfigError, match="in use by process"):
        two.take("x" * 300 + "1", "")
    one.release()
    two.take("x" * 300 + "1", "")
    two.release()
    Claim().take("x", "")
