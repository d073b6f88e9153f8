"""The checks of `mobilerl doctor`, with stand-ins for what this machine lacks."""

from __future__ import annotations

import os
import socket
import threading
from contextlib import contextmanager, suppress

import pytest
from docker_stand_in import IMAGE, served

from mobilerl.cli import main
from mobilerl.config import FleetSection, load_recipe
from mobilerl.doctor import machine
from mobilerl.doctor.examine import examine


@contextmanager
def server(answer):
    """Passes each connection to `answer`, in a thread."""
    held = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                held.append(connection)
                with suppress(OSError):
                    answer(connection)

        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()
        listener.shutdown(socket.SHUT_RDWR)
    for connection in held:
        connection.close()


def test_what_the_recipe_needs_fails_and_each_failure_has_a_fix(tmp_path, monkeypatch, capsys):
    pytest.importorskip("docker.errors")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no.sock")
    assert main(["doctor", "--fleet.type", "docker"]) == 1
    output = capsys.readouterr().out
    line = next(line for line in output.splitlines() if "no Docker engine answers" in line)
    assert line.startswith("failed") and "fix: start it" in output and "cannot run here yet" in output
    assert main(["doctor"]) == 0  # only a warning for a recipe that does not use it
    recipe = load_recipe(None, ["--engine.type", "verl", "--fleet.type", "docker", "--fleet.kvm", "true"])
    assert all(check.state in ("ok", "not needed") or check.fix for check in examine(recipe))


LINE = "NVIDIA H100 80GB HBM3, 80994 MiB, 81559 MiB"


@pytest.mark.parametrize(
    ("script", "needed", "state", "text"),
    [
        (f"echo '{LINE}'; echo '{LINE}'", 2, "ok", "HBM3 (80994 MiB of 81559 MiB free), NVIDIA"),
        (f"echo '{LINE}'", 2, "failed", "the recipe uses 2"),
        ("exec sleep 60", 1, "failed", "timed out"),
    ],
)
def test_gpus(script, needed, state, text, tmp_path, monkeypatch):
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    check = machine.gpus(needed, timeout_s=0.5 if "sleep" in script else 60)
    assert check.state == state and text in check.detail and bool(check.fix) == (state != "ok")


def test_a_missing_model_and_a_missing_gpu_are_failures(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("mobilerl.doctor.packages.has", lambda distribution: False)
    for recipe, model, name in (("adagrpo", tmp_path / "nix", "model"), ("gpu/qwen2.5-vl-3b-lora", "Org/model", "GPU")):
        assert main(["doctor", "--config", recipe, "--model", str(model)]) == 1
        lines = capsys.readouterr().out.splitlines()
        assert {"model", "GPU"} & {line.split()[1] for line in lines if line.startswith("failed")} == {name}


# --- Docker and adb ----------------------------------------------------------------------------------------------


def test_docker_engine_with_and_without_the_image():
    pytest.importorskip("docker.errors")
    with served() as engine:
        for image, state in ((IMAGE, "ok"), ("mine", "failed")):
            fleet = FleetSection(type="docker", hosts=(engine.host,), image=image)
            assert [check.state for check in machine.docker(fleet)] == ["ok", state]


def adb_server(answers):
    def answer(connection):
        question = connection.recv(4 + int(connection.recv(4, socket.MSG_PEEK), 16))[4:].decode()
        data = answers[question].encode()
        connection.sendall(b"OKAY%04x%s" % (len(data), data))
        connection.close()

    return answer


def phones(*serials: str) -> FleetSection:
    return FleetSection(type="adb", serials=serials or ("emulator-5554",))


def test_phones_that_adb_does_not_reach_are_named(monkeypatch):
    pytest.importorskip("adbutils")
    listed = "emulator-5554\tdevice\nR58M\tunauthorized\n"
    with server(adb_server({"host:version": "0029", "host:devices": listed})) as (_, port):
        monkeypatch.setenv("ANDROID_ADB_SERVER_PORT", str(port))
        reached = machine.adb(phones("emulator-5554", "10.0.0.2:5555"))
        missing = machine.adb(phones("R58M", "gone"))
    assert reached.state == "ok" and "1.0.41" in reached.detail
    assert missing.state == "failed" and missing.detail == "R58M: unauthorized, gone: not attached"


@pytest.mark.parametrize(
    "answer", [lambda c: None, lambda c: (c.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n"), c.close())]
)
def test_a_server_that_hangs_or_speaks_another_protocol(answer, monkeypatch):
    pytest.importorskip("adbutils")
    pytest.importorskip("docker.errors")
    monkeypatch.setattr(machine, "TIMEOUT_S", 0.5)
    with server(answer) as (_, port):
        monkeypatch.setenv("ANDROID_ADB_SERVER_PORT", str(port))
        adb = machine.adb(phones())
        (docker,) = machine.docker(FleetSection(type="docker", hosts=(f"tcp://127.0.0.1:{port}",)))
    for check in (adb, docker):
        assert check.state == "failed" and check.fix
