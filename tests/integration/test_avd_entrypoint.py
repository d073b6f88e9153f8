"""The emulator container's entry point, with programs that stand in for emulator, adb and socat."""

from __future__ import annotations

import importlib
import signal
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from avd_stand_ins import KEY, PACKAGE, Container
from docker_engine import ROOT
from ports import free_port

BAD_SETTINGS, BOOT_FAILED, CHILD_FAILED = 2, 3, 4
ODD = "a b; touch pwned $(touch pwned) '\" &"


@pytest.fixture
def container(tmp_path: Path) -> Iterator[Container]:
    made = Container(tmp_path / "container")
    yield made
    made.close()


def mode(file: Path) -> int:
    return stat.S_IMODE(file.stat().st_mode)


def test_it_boots_and_becomes_ready(container):
    with container.held_boot():
        container.start("-camera-back", "none", MEMORY_MB="3000", CORES="3")
        container.wait_until(lambda: sum(w[-1] == "init.svc.bootanim" for w in container.calls("adb")) > 1)
        assert not container.ready.exists() and container.module("avd.health").returncode == 1
    container.wait_ready()
    assert [" ".join(words) for words in container.calls("emulator")] == [
        "-avd Pixel_6_API_33 -snapshot default_boot -no-snapshot-save -no-window -no-audio -no-boot-anim -accel on "
        "-gpu swiftshader_indirect -memory 3000 -cores 3 -ports 5554,5555 -camera-back none"
    ]
    order = [(c["program"], c["words"]) for c in container.all_calls()]
    assert order[0] == ("adb", ["start-server"])
    put = [words[4:] for words in container.calls("adb") if words[2:5] == ["shell", "settings", "put"]]
    assert ["put", "system", "pointer_location", "0"] in put
    assert {w[2] for w in put if w[3] == "0"} >= {f"{a}_scale" for a in ("window_animation", "transition_animation")}
    animation = [i for i, (_, words) in enumerate(order) if words[-1] == "init.svc.bootanim"]
    first_put = next(i for i, (_, words) in enumerate(order) if "put" in words)
    assert animation[-1] < first_put, "it does not wait for the boot animation"
    assert container.listening(2) == [
        f"TCP-LISTEN:{p},bind=127.0.0.2,fork,reuseaddr,nodelay TCP:127.0.0.1:{p},nodelay" for p in (5554, 5555)
    ]
    assert container.module("avd.health").returncode == 0 and "ready after" in container.log()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"KVM_DEVICE": "/nowhere/kvm"}, "--device /dev/kvm"),
        ({"ADBKEY": "QAAAA public"}, "not the text of a private key"),
        ({"TOKEN": "two words"}, "TOKEN has blanks"),
        ({"AVD_NAME": "../etc"}, "AVD_NAME is '../etc'"),
        ({"FORWARD_ADDRESS": "127.0.0.1,fork"}, "FORWARD_ADDRESS is '127.0.0.1,fork'"),
        ({"TASK_SERVER": "/nowhere/server.py"}, "TASK_SERVER: there is no file"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_bad_settings_are_one_line(container, given, said):
    container.start(**given)
    assert container.ended() == BAD_SETTINGS
    assert said in container.log() and container.log().startswith("avd: ") and container.log().count("\n") == 1
    assert not container.calls("emulator") and not container.ready.exists()


@pytest.mark.parametrize("mounted", [False, True])
def test_key_and_token_stay_private(container, mounted):
    container.home.joinpath(".android").mkdir()
    loose = container.home / ".android/adbkey"
    loose.write_text("what the image had")
    loose.chmod(0o644)
    if mounted:
        (container.folder / "a key").write_text(KEY.replace("\n", "\r\n"))
    container.start(TOKEN="s3cret", **({"ADBKEY_FILE": "a key"} if mounted else {"ADBKEY": KEY}))
    container.wait_ready()
    token = container.home / ".emulator_console_auth_token"
    assert token.read_text() == "s3cret" and mode(token) == 0o600
    assert loose.read_text() == KEY and mode(loose) == 0o600
    assert (container.state / "pushed").read_text() == "QAAAAstandin someone@somewhere\n", "the phone does not know it"
    assert "s3cret" not in container.log() and "Zm9y" not in container.log()
    assert not any("s3cret" in word for call in container.all_calls() for word in call["words"])


def test_a_phone_that_does_not_boot_ends_the_container(container):
    container.plan(boots=0)
    began = time.monotonic()
    container.start(BOOT_TIMEOUT="1")
    assert container.ended() == BOOT_FAILED and time.monotonic() - began > 1
    assert "did not boot within 1 s (sys.boot_completed is ''" in container.log() and "BOOT_TIMEOUT" in container.log()
    assert not container.ready.exists() and not container.alive() and not container.calls("socat")


def test_a_signal_stops_the_emulator_cleanly(container):
    container.start(patient=True)
    container.wait_ready()
    assert container.stop() == 0 and "SIGTERM: stopping" in container.log()
    assert ["-s", "emulator-5554", "emu", "kill"] in container.calls("adb") and not container.alive()


@pytest.mark.parametrize(("dies_with", "code", "after"), [(7, 7, 0.1), (-signal.SIGKILL, 137, 1.5)])
def test_the_container_ends_with_its_emulator(container, dies_with, code, after):
    container.plan(boots=0.2 if after > 1 else 0, dies_after=after, dies_with=dies_with)
    container.start()
    assert container.ended() == code and f"the emulator has ended with exit code {code}" in container.log()
    assert not container.alive()


def test_odd_characters_are_data(tmp_path):
    container = Container(tmp_path / ODD)
    try:
        token = "$(touch${IFS}pwned);'\""
        container.start("-http-proxy", ODD, "-prop", "qemu.x=`touch pwned`", ADBKEY=KEY, TOKEN=token)
        container.wait_ready()
        assert container.calls("emulator")[0][-4:] == ["-http-proxy", ODD, "-prop", "qemu.x=`touch pwned`"]
        assert (container.home / ".emulator_console_auth_token").read_text() == token
        assert mode(container.home / ".android/adbkey") == 0o600
        assert container.stop() == 0
        assert not list(tmp_path.rglob("pwned")) and not Path("pwned").exists()
    finally:
        container.close()


def test_a_container_that_was_killed_starts_again(container):
    container.start()
    container.wait_ready()
    container.listening(2)
    container.kill()
    (container.avd / "hardware-qemu.ini.lock").write_text("1")
    (container.avd / "multiinstance.lock").mkdir()
    (container.state / "properties.json").unlink()
    with container.held_boot():
        container.start()
        container.wait_until(lambda: len(container.calls("emulator")) > 1)
        assert not container.ready.exists() and not list(container.avd.glob("*.lock"))
    container.wait_ready()


def test_the_real_task_server_accepts_its_arguments(monkeypatch):
    """docker/androidworld/server.py, as the image runs it; there is no AndroidWorld here, and it says so."""
    monkeypatch.syspath_prepend(str(PACKAGE))
    settings, tasks = importlib.import_module("avd.settings"), importlib.import_module("avd.tasks")
    wanted = settings.read({"TASK_SERVER": str(ROOT / "docker/androidworld/server.py"), "TASK_PORT": str(free_port())})
    done = subprocess.run(tasks.command(wanted), capture_output=True, text=True, timeout=300)
    assert "ModuleNotFoundError: No module named 'android_server'" in done.stderr
