"""Checks of what a fleet of containers needs: each failing line has its cause and a fix."""

from __future__ import annotations

import os
import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from docker_stand_in import IMAGE, served

from mobilerl.cli import main
from mobilerl.config import FleetSection
from mobilerl.doctor import engines, machine

VMX, NESTED, PLAIN = ("flags\t\t: fpu vmx avx2\n", "flags\t\t: fpu hypervisor\n", "flags\t\t: fpu\n")
pytest.importorskip("docker.errors")


def emulators(**settings) -> FleetSection:
    given = {"image": IMAGE, "kvm": True, "count": 2, "spares": 0, "memory_mb": 4096, "cpus": 2}
    return FleetSection(type="docker", **{**given, **settings})


@pytest.mark.parametrize(
    ("cpu", "fix"), [(VMX, "modprobe kvm_intel"), (NESTED, "nested virtualization"), (PLAIN, "in the firmware")]
)
def test_a_missing_kvm_has_the_fix_for_its_cause(cpu, fix, tmp_path):
    (tmp_path / "cpuinfo").write_text(cpu)
    check = machine.kvm(True, tmp_path / "kvm", tmp_path / "cpuinfo")
    assert check.state == "failed" and fix in check.fix and str(tmp_path / "kvm") in check.detail
    assert machine.kvm(False, tmp_path / "kvm", tmp_path / "cpuinfo").state == "not needed"


def test_a_device_that_makes_no_virtual_machine(tmp_path):
    (tmp_path / "kvm").touch()
    check = machine.kvm(True, tmp_path / "kvm")
    assert check.state == "failed" and "makes no virtual machine" in check.detail and check.fix


@pytest.mark.skipif(not os.access("/dev/kvm", os.R_OK | os.W_OK), reason="no /dev/kvm")
def test_kvm_of_this_machine():
    assert machine.kvm(True).state == "ok"


def lines(engine, **settings) -> dict[str, engines.Check]:
    found = engines.docker(emulators(hosts=(engine.host,), **settings))
    return {check.name.rpartition(", ")[2].partition(" at ")[0]: check for check in found}


def test_an_engine_on_this_machine(tmp_path):
    with served() as engine:
        engine.info = {"Name": socket.gethostname(), "MemTotal": 6 << 30, "NCPU": 1, "DockerRootDir": str(tmp_path)}
        found = lines(engine)
        assert found["Docker"].state == "ok" and "27.1.0" in found["Docker"].detail
        assert found["memory"].state == "failed" and "2 devices may use" in found["memory"].detail
        assert found["CPUs"].state == "warning" and "4 cores, there are 1" in found["CPUs"].detail
        assert found["disk"].state == "ok" and str(tmp_path) in found["disk"].detail
        assert found["ports"].state == "ok" and "clock" not in found
        elsewhere = lines(engine, publish="203.0.113.7")["ports"]
        assert elsewhere.state == "failed" and "no address of this machine" in elsewhere.detail
        engine.version = "19.03.1"
        assert lines(engine)["Docker"].state == "failed"


def test_a_full_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(engines, "EMULATOR_DISK", 1 << 60)
    check = engines.disk("Docker", emulators(), 2, tmp_path)
    assert check.state == "failed" and "docker system prune" in check.fix


def test_the_clock_of_another_host():
    with served() as engine:
        for minutes, state in ((0, "ok"), (2, "failed")):
            then = datetime.now(UTC) + timedelta(minutes=minutes)
            engine.info = {"Name": "elsewhere", "SystemTime": then.isoformat().replace("+00:00", "123Z")}
            check = lines(engine, kvm=False)["clock"]
            assert check.state == state and ("timedatectl" in check.fix) == (state == "failed")


@pytest.mark.parametrize(
    ("labels", "state", "said"),
    [
        ({}, "warning", "boot cold"),
        ({engines.SNAPSHOT: "default_boot"}, "warning", "does not say on which CPU"),
        ({engines.CPU_FLAGS: "fpu avx512f"}, "failed", "baked on X, and this host lacks avx512f: it may hang"),
        ({engines.CPU_FLAGS: "fpu"}, "warning", "this host has 1 CPU features more"),
        ({engines.CPU_FLAGS: "avx2 fpu"}, "ok", "default_boot, baked on X"),
    ],
)
def test_a_snapshot_of_another_cpu(labels, state, said):
    known = {engines.SNAPSHOT: "default_boot", engines.CPU_MODEL: "X"} if engines.CPU_FLAGS in labels else {}
    check = engines.snapshot("Docker", labels | known, "processor : 0\nflags : fpu avx2\n")
    assert check.state == state and said in check.detail
    assert bool(check.fix) == (state != "ok")


def test_the_labels_are_those_that_baking_writes():
    script = (Path(__file__).parents[2] / "docker/avd/bake.sh").read_text()
    assert all(f"LABEL {label}=" in script for label in (engines.SNAPSHOT, engines.CPU_MODEL, engines.CPU_FLAGS))


def test_a_missing_image_is_built_by_the_command_that_is_named(capsys, monkeypatch):
    monkeypatch.setattr(machine, "adb", lambda fleet: engines.Check("adb", "ok", ""))
    with served() as engine:
        flags = ["--fleet.hosts", f'["{engine.host}"]', "--fleet.image", "mobilerl-avd", "--fleet.kvm", "true"]
        assert main(["fleet", "check", *flags]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "no image mobilerl-avd" in said and "bash docker/avd/bake.sh mobilerl-avd-base mobilerl-avd" in said
    assert "not tried before the above is fixed" in said and "the fleet cannot run here yet" in said


def test_boot_is_only_checked_by_check(capsys):
    assert main(["fleet", "status", "--no-boot"]) == 2
    assert "--no-boot is for `mobilerl fleet check`" in capsys.readouterr().err
