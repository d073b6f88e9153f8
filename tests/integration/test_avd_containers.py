"""Containers of the emulator's image on a real engine, with an embedded phone in the emulator's place.

The entry point, adb, Docker's network, the health check and bake.sh are the real ones; socat's stand-in hands on.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator

import adbutils
import pytest
from avd_stand_ins import PACKAGE, PROGRAM
from docker_engine import IMAGE

from mobilerl.cli import main
from mobilerl.doctor.engines import CPU_FLAGS
from mobilerl.envs.docker_avd import ContainerSettings, DockerProvider
from mobilerl.envs.phone.env import PhoneEnv
from mobilerl.envs.pool.adb import AdbServer

pytestmark = pytest.mark.slow
PUBLIC = "QAAAA" + "A" * 695 + " someone@somewhere\n"

EMULATOR = """#!/usr/local/bin/python3
import os, socket, sys
if os.fork() == 0:  # as an emulator does, it makes itself known to adb's server once it listens
    import time
    while socket.socket().connect_ex(("127.0.0.1", 5555)):
        time.sleep(0.05)
    with socket.create_connection(("127.0.0.1", 5037)) as server:
        server.sendall(b"0012host:emulator:5555")
    os._exit(0)
os.execv("/usr/local/bin/python3", ["python3", "-m", "mobilerl.envs.phone", "--port", "5555", "--console-port", "5554",
         "--console-token", "s3cret", "--width", "360", "--height", "720"])
"""
BASE, BAKED = "mobilerl-avd-test-base", "mobilerl-avd-test"


def run(*words: object, **wanted: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(w) for w in words], text=True, capture_output=True, timeout=600, **wanted)


def engine(*words: object, check: bool = True) -> str:
    done = run("docker", *words)
    assert not check or done.returncode == 0, done.stderr
    return (done.stdout + done.stderr).strip()


@pytest.fixture(scope="module")
def base(docker_engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An image with the real entry point and real adb, and with an embedded phone in the emulator's place."""
    if not os.path.exists("/dev/kvm"):
        pytest.skip("no /dev/kvm here: Docker refuses to start the container")
    folder = tmp_path_factory.mktemp("image")
    programs = folder / "opt/bin"
    programs.mkdir(parents=True)
    (programs / "emulator").write_text(EMULATOR)
    (programs / "socat").write_text(f"#!/usr/local/bin/python3\n{PROGRAM}")
    shutil.copy(adbutils.adb_path(), programs / "adb")
    for program in programs.iterdir():
        program.chmod(0o755)
    for library in re.findall(r"=> (/\S+)", run("ldd", adbutils.adb_path()).stdout):
        target = folder / library.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, target)
    shutil.copytree(PACKAGE / "avd", folder / "opt/mobilerl/avd", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "opt/avd/Pixel_6_API_33.avd").mkdir(parents=True)
    (folder / "opt/state").mkdir()
    (folder / "opt/state/plan.json").write_text(json.dumps({"forwards": True}))
    (folder / "root").mkdir()
    container = engine("create", IMAGE)
    engine("cp", f"{folder}/.", f"{container}:/")
    changes = [
        "USER 0",
        "ENV PATH=/opt/bin:/usr/local/bin HOME=/root STAND_IN=/opt/state PYTHONPATH=/opt/mobilerl "
        "ANDROID_AVD_HOME=/opt/avd TOKEN=s3cret",
        'ENTRYPOINT ["python3", "-m", "avd"]',
        'HEALTHCHECK --interval=1s --timeout=10s CMD ["python3", "-m", "avd.health"]',
    ]
    engine("commit", *(word for change in changes for word in ("--change", change)), container, BASE)
    engine("rm", container)
    yield BASE
    engine("image", "rm", "-f", BASE, BAKED, check=False)


def test_bake_sh_and_its_containers(base, adb, tmp_path):
    (tmp_path / "adbkey.pub").write_text(PUBLIC)
    command = ["bash", PACKAGE / "bake.sh", "--adb-key", tmp_path / "adbkey.pub", base, BAKED]
    done = run(*command, env={**os.environ, "MEMORY_MB": "1024"})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "saving the snapshot default_boot" in done.stderr and f"baked {BAKED}" in done.stdout
    assert "MEMORY_MB=1024" in engine("inspect", "-f", "{{.Config.Env}}", BAKED)

    container = engine("run", "-d", "--init", "--device", "/dev/kvm", "-p", "127.0.0.1::5555", BAKED)
    try:
        until = time.monotonic() + 60
        while engine("inspect", "-f", "{{.State.Health.Status}}", container) != "healthy":
            assert time.monotonic() < until, engine("logs", container)
            time.sleep(0.3)
        assert engine("exec", container, "python3", "-c", "import os; print(os.path.exists('/tmp/bake'))") == "False"
        assert not json.loads(engine("inspect", container))[0]["HostConfig"]["Privileged"]
        serial = engine("port", container, "5555")
        assert b"connected to" in adb.adb("connect", serial).stdout
        assert adb.transport(serial).shell(("getprop", "sys.boot_completed")).stdout == "1\n"
        adb.adb("disconnect", serial)
        engine("stop", "-t", "20", container)
        assert engine("inspect", "-f", "{{.State.ExitCode}}", container) == "0", "it had to be killed"
    finally:
        engine("rm", "-f", "-v", container)


def test_a_baked_image_says_on_which_cpu(base, adb, tmp_path, monkeypatch, capsys):
    """And a host whose CPU lacks one of its features is named; this test's engine and baker are one machine."""
    monkeypatch.setenv("ANDROID_ADB_SERVER_PORT", str(adb.port))
    done = run("bash", PACKAGE / "bake.sh", "--adb-key", "", base, BAKED)
    assert done.returncode == 0, done.stdout + done.stderr
    flags = ["fleet", "check", "--no-boot", "--fleet.kvm", "true", "--fleet.count", "1", "--fleet.image", BAKED]
    assert main(flags) == 0
    assert "default_boot, baked on " in capsys.readouterr().out
    container = engine("create", BAKED)
    engine("commit", "--change", f'LABEL {CPU_FLAGS}="fpu amx9"', container, BAKED)
    engine("rm", container)
    assert main(flags) == 1
    assert "this host lacks amx9: it may hang or boot cold" in capsys.readouterr().out


def test_a_fleet_resets_by_snapshot(base, adb, tmp_path, monkeypatch):
    (tmp_path / "token").write_text("s3cret")
    monkeypatch.setattr("mobilerl.envs.console.TOKEN_FILE", tmp_path / "token")
    settings = ContainerSettings(base, "avd-test", console_port=5554, kvm=True, memory_mb=3500)

    def make(device_id, transport):
        return PhoneEnv(device_id, screenshots=False, transport=transport)

    async def play():
        provider = DockerProvider(settings, make, AdbServer("127.0.0.1", adb.port), "snapshot")
        await provider.open()
        try:
            async with asyncio.timeout(90):
                device = await provider.create(0, 0)
            device.transport.shell(("settings", "put", "system", "pointer_location", "1"))
            kept = await device.refresh()
            said = device.transport.shell(("settings", "get", "system", "pointer_location")).stdout
            return await device.check(), kept, said
        finally:
            await provider.close()

    health, kept, said = asyncio.run(play())
    assert health.ok, health.reason
    assert kept and said == "0\n", "the snapshot was not loaded"
    assert not engine("ps", "-aq", "--filter", "label=mobilerl.fleet=avd-test")
