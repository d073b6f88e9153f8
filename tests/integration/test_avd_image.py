"""What makes the emulator's image: the baking, the build's scripts, compose, bake.sh. No emulator runs here."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from avd_stand_ins import Container
from docker_engine import ROOT

AVD = ROOT / "docker/avd"
PUBLIC = "QAAAA" + "A" * 695 + " someone@somewhere\n"


@pytest.fixture
def booted(tmp_path: Path) -> Iterator[Container]:
    """Of an image that has never been baked, with a folder to bake from."""
    container = Container(tmp_path / "container", snapshot=False)
    for name in ("apks/b app's.apk", "apks/a.apk", "apks/notes.txt", "keys/0.pub"):
        file = container.folder / "bake" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(PUBLIC)
    container.start()
    container.wait_ready()
    yield container
    container.close()


def bake(container: Container) -> subprocess.CompletedProcess[str]:
    return container.module("avd.bake", str(container.folder / "bake"))


def test_baking_happens_in_this_order(booted):
    before = len(booted.calls("adb"))
    done = bake(booted)
    assert done.returncode == 0, done.stderr
    words = [" ".join(w[2:]) for w in booted.calls("adb")[before:]]
    apks = booted.folder / "bake/apks"
    order = [
        f"install -r -g {apks}/a.apk",
        f"install -r -g {apks}/b app's.apk",
        "root",
        "shell settings put system pointer_location 0",
        "emu avd snapshot save default_boot",
        "emu avd snapshot list",
    ]
    assert [w for w in words if w in order] == order and not any("notes.txt" in w for w in words)
    assert not (booted.folder / "bake").exists()


@pytest.mark.parametrize(
    ("snapshots", "said"), [("KO", "KO: disk full"), ("", "the emulator saved no snapshot default_boot")]
)
def test_a_failed_snapshot_fails_the_bake(booted, snapshots, said):
    booted.plan(snapshots=snapshots)
    done = bake(booted)
    assert done.returncode and said in done.stderr and "Traceback" not in done.stderr


def test_an_app_that_cannot_be_installed_fails_the_bake(booted):
    (booted.folder / "bake/apks/bad.apk").touch()
    done = bake(booted)
    assert done.returncode and "bad.apk was not installed" in done.stderr
    assert not any("snapshot" in words for words in booted.calls("adb"))


def test_the_dockerfile_pins_every_download_and_copies_what_is_there():
    text = (AVD / "Dockerfile").read_text()
    arguments = dict(re.findall(r"^ARG (\w+)=(.*)$", text, re.M))
    for name in ("CMDLINE_TOOLS", "PLATFORM_TOOLS", "EMULATOR", "SYSTEM_IMAGE"):
        assert re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", arguments[f"{name}_SUM"]) and arguments[name]
    copied = [w for line in re.findall(r"^COPY (?!--from)(.*)$", text, re.M) for w in line.split()[:-1]]
    assert copied and all((ROOT / path).exists() for path in copied)
    assert "--privileged" not in text and "ENTRYPOINT" in text and "HEALTHCHECK" in text


def test_compose_publishes_on_loopback_only_and_asks_for_no_privileges():
    file = ROOT / "docker/compose.yml"
    services = yaml.safe_load(file.read_text())["services"]
    assert services.keys() == {"phone", "avd"}
    for service in services.values():
        assert all(port.startswith("127.0.0.1::") for port in service["ports"])
        assert "privileged" not in service and "cap_add" not in service and "network_mode" not in service
        assert service["init"] and service["mem_limit"] and service["cpus"] and service["profiles"]
        assert not service["image"].endswith(":latest")
    assert services["avd"]["devices"] == ["/dev/kvm:/dev/kvm"] and "devices" not in services["phone"]
    built = services["phone"]["build"]
    assert (file.parent / built["context"] / built["dockerfile"]).is_file()
