"""Each check against the real machine where it has the thing, and against stand-ins where it has not."""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from mobilerl.cli import main
from mobilerl.config import FleetSection, load_recipe
from mobilerl.doctor import devices, machine, packages
from mobilerl.doctor.check import Check
from mobilerl.doctor.examine import examine


@contextmanager
def server(answer, family=socket.AF_INET, address=("127.0.0.1", 0)):
    """Accepts connections and gives each to `answer`, in a thread."""
    held = []
    with socket.socket(family) as listener:
        listener.bind(address)
        listener.listen()

        def serve():
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                held.append(connection)
                try:
                    answer(connection)
                except OSError:
                    pass

        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()
        listener.shutdown(socket.SHUT_RDWR)
    for connection in held:
        connection.close()


# --- the whole ---------------------------------------------------------------------------------------------------


@pytest.fixture
def alone(monkeypatch):
    """No Docker engine or Ray cluster of this machine plays a part."""
    for name in ("DOCKER_HOST", "DOCKER_TLS_VERIFY", "RAY_ADDRESS"):
        monkeypatch.delenv(name, raising=False)


def test_the_default_recipe_can_run_here(alone):
    found = {check.name: check for check in examine(load_recipe(None))}
    assert {"Python", "torch", "GPU", "disk", "KVM", "Docker", "adb"} <= found.keys()
    assert found["Python"] == Check("Python", "ok", ".".join(map(str, sys.version_info[:3])))
    assert not [check for check in found.values() if check.state == "failed"]
    assert main(["doctor"]) == 0


def test_what_the_recipe_needs_and_is_not_here_fails(alone, tmp_path, monkeypatch, capsys):
    pytest.importorskip("docker")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no.sock")
    assert main(["doctor", "--fleet.type", "docker"]) == 1
    said = capsys.readouterr().out
    line = next(line for line in said.splitlines() if "no Docker engine answers" in line)
    assert line.startswith("failed") and "fix: start it" in said and "cannot run here yet" in said
    # The same engine is only worth a warning to a recipe that does not use it.
    assert main(["doctor"]) == 0


def test_a_failed_check_says_how_to_fix_it(alone):
    recipe = load_recipe(None, ["--engine.type", "verl", "--fleet.type", "docker", "--fleet.kvm", "true"])
    for check in examine(recipe):
        assert check.state in ("ok", "not needed") or check.fix


# --- the machine -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("version", "state"), [((3, 10, 9), "failed"), ((3, 11, 0), "ok"), ((3, 13, 1), "failed")])
def test_python(version, state):
    assert machine.python(version).state == state


def test_disk_that_is_too_small_or_not_ours(tmp_path):
    assert machine.disk(tmp_path / "not" / "yet", 1.0).state == "ok"
    assert machine.disk(tmp_path, 1e12).state == "failed"


def test_kvm(tmp_path):
    assert machine.kvm(True, tmp_path / "none").state == "failed"
    assert machine.kvm(False, tmp_path / "none").state == "not needed"
    (tmp_path / "kvm").touch()
    assert machine.kvm(True, tmp_path / "kvm").state == "ok"


def fake_nvidia_smi(folder: Path, script: str, monkeypatch) -> None:
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_fake_gpus_are_named_with_their_memory_and_counted(tmp_path, monkeypatch):
    line = "NVIDIA H100 80GB HBM3, 80994 MiB, 81559 MiB"
    fake_nvidia_smi(tmp_path, f"cat <<'X'\n{line}\n{line}\nX", monkeypatch)
    found = machine.gpus(2, timeout_s=60)
    assert found.state == "ok" and found.detail.count("NVIDIA H100 80GB HBM3 (80994 MiB of 81559 MiB free)") == 2
    few = machine.gpus(8, timeout_s=60)
    assert few.state == "failed" and few.fix == "--cluster.gpus_per_node 2"


@pytest.mark.parametrize(
    ("script", "says"),
    [("exec sleep 60", "does not answer"), ("echo 'version mismatch'; exit 18", "mismatch"), ("echo odd", "odd")],
)
def test_fake_gpu_driver_that_hangs_or_fails(script, says, tmp_path, monkeypatch):
    fake_nvidia_smi(tmp_path, script, monkeypatch)
    found = machine.gpus(1, timeout_s=0.5 if "sleep" in script else 60)
    assert found.state == "failed" and says in found.detail
    assert machine.gpus(0, timeout_s=0.5 if "sleep" in script else 60).state == "warning"


def test_no_gpu_matters_only_to_a_recipe_that_uses_one(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert machine.gpus(0).state == "not needed" and machine.gpus(4).state == "failed"


# --- packages ----------------------------------------------------------------------------------------------------


def test_packages_are_compared_with_what_is_asked_for_and_with_the_pins():
    version = packages.metadata.version("pytest")
    assert packages.package("pytest", ">=1", version, "dev").state == "ok"
    assert packages.package("pytest", ">=1", "1.0", "dev") == Check(
        "pytest", "warning", f"{version}; tested with 1.0", "pip install pytest==1.0"
    )
    old = packages.package("pytest", ">=1000", None, "dev")
    assert old.state == "failed" and ">=1000 is needed" in old.detail and old.fix == "pip install 'pytest>=1000'"
    none = packages.package("no-such-package", ">=1", None, "local")
    assert none.state == "failed" and none.fix == "pip install 'mobilerl[local]'"


def test_extras_within_extras_are_followed():
    asked = {"": ["pytest"], "all": ["mobilerl[some]"], "some": ["rich>=1", "verl==0.9.1"]}
    names = [check.name for check in packages.installed(("all",), asked, {})]
    assert names == ["pytest", "rich"]  # verl is judged by its engine's rules


def test_requirements_of_an_installed_package_agree_with_the_sources(pytestconfig, tmp_path):
    from_sources, as_installed = packages.requirements(pytestconfig.rootpath), packages.requirements(tmp_path)
    assert any(line.startswith("torch>=") for line in from_sources["local"])
    assert as_installed["deepspeed"] and len(as_installed[""]) == len(from_sources[""])
    assert packages.pins(pytestconfig.rootpath)["transformers"] and packages.pins(tmp_path) == {}


# --- Docker and adb ----------------------------------------------------------------------------------------------


def engine(**bodies):
    """A Docker engine with fixed answers: part of the path -> (status, body)."""

    def answer(connection):
        path = connection.recv(4096).split()[1].decode()
        status, body = next((v for k, v in bodies.items() if k in path), (404, {"message": "no such image"}))
        data = json.dumps(body).encode()
        head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nConnection: close\r\n"
        connection.sendall(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
        connection.close()

    return answer


def test_docker_engine_with_and_without_the_image(tmp_path):
    pytest.importorskip("docker")
    path = str(tmp_path / "docker.sock")
    version = (200, {"Version": "28.2.2", "ApiVersion": "1.50"})
    fleet = FleetSection(type="docker", hosts=(f"unix://{path}",), image="mine")
    with server(engine(version=version, _ping=version), socket.AF_UNIX, path):
        found, image = devices.docker(fleet, needed=True)
    assert found.state == "ok" and "28.2.2" in found.detail
    assert image.state == "failed" and "docker pull mine" in image.fix
    os.unlink(path)
    with server(engine(version=version, _ping=version, mine=(200, {"Id": "sha256:1"})), socket.AF_UNIX, path):
        assert [check.state for check in devices.docker(fleet, needed=True)] == ["ok", "ok"]


@pytest.mark.parametrize("host", ["tcp://127.0.0.1:1", "ftp://x", "unix:///nix", "tcp://[::1", "ssh://me@127.0.0.1:1"])
def test_docker_engines_that_are_not_there(host):
    pytest.importorskip("docker")
    (check,) = devices.docker(FleetSection(type="docker", hosts=(host,)), needed=True)
    assert check.state == "failed" and "no Docker engine answers" in check.detail and check.fix


def test_a_docker_engine_that_hangs_is_reported_in_time(tmp_path, monkeypatch):
    pytest.importorskip("docker")
    monkeypatch.setattr(devices, "TIMEOUT_S", 0.5)
    path = str(tmp_path / "docker.sock")
    with server(lambda c: None, socket.AF_UNIX, path):
        began = time.monotonic()
        (check,) = devices.docker(FleetSection(type="docker", hosts=(f"unix://{path}",)), needed=True)
    assert check.state == "failed" and time.monotonic() - began < 30


def adb_server(answers):
    def answer(connection):
        question = connection.recv(4 + int(connection.recv(4, socket.MSG_PEEK), 16))[4:].decode()
        data = answers[question].encode()
        connection.sendall(b"OKAY%04x%s" % (len(data), data))
        connection.close()

    return answer


def phones(port: int, *serials: str) -> FleetSection:
    return FleetSection(type="adb", serials=serials or ("emulator-5554",), adb_server=f"127.0.0.1:{port}")


def test_phones_that_adb_does_not_reach_are_named():
    pytest.importorskip("adbutils")
    listed = "emulator-5554\tdevice\nR58M\tunauthorized\n"
    with server(adb_server({"host:version": "0029", "host:devices": listed})) as (_, port):
        reached = devices.adb(phones(port, "emulator-5554", "10.0.0.2:5555"), needed=True)
        missing = devices.adb(phones(port, "R58M", "gone"), needed=True)
    assert reached.state == "ok" and "1.0.41" in reached.detail  # HOST:PORT serials are connected when needed
    assert missing.state == "failed" and missing.detail == "R58M: unauthorized, gone: not attached"


@pytest.mark.parametrize(
    "answer",
    [
        lambda c: None,
        lambda c: (c.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n"), c.close()),
        lambda c: (c.recv(99), c.close()),
    ],
)
def test_a_hanging_adb_server_or_another_program_at_its_port_is_reported(answer, monkeypatch):
    pytest.importorskip("adbutils")
    monkeypatch.setattr(devices, "TIMEOUT_S", 0.5)
    with server(answer) as (_, port):
        check = devices.adb(phones(port), needed=True)
    assert check.state == "failed" and "no adb server answers" in check.detail and check.fix
