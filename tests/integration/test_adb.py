"""The real adb program, the real adb server and adbutils against served phones."""

from __future__ import annotations

import asyncio
import io
import time

import pytest
from PIL import Image
from ports import free_port

from mobilerl.config import FleetSection
from mobilerl.doctor.machine import adb as doctor_adb
from mobilerl.envs.base import InfraError, Task
from mobilerl.envs.phone.adbd.auth import read_keys
from mobilerl.envs.phone.env import PhoneEnv
from mobilerl.envs.phone.phone import Phone
from mobilerl.envs.phone.tasks import suite
from mobilerl.envs.phone.tasks.expert import ExpertAgent

HOSTILE = "quotes ' \" ; $(reboot) `id` && false | x > /sdcard/y \\ \t 😀 שלום مرحبا *?[a] #!~"


@pytest.fixture
def serial(adb, phones):
    phone = phones()
    assert b"connected to" in adb.adb("connect", phone.serial).stdout
    yield phone.serial
    adb.adb("disconnect", phone.serial)


def test_the_adb_program_holds_a_session(adb, serial, tmp_path):
    on = ("-s", serial)
    listed = adb.adb("devices", "-l").stdout.decode()
    assert f"{serial} " in listed and "model:sdk_gphone64_x86_64" in listed
    assert adb.adb(*on, "get-state").stdout == b"device\n"
    assert adb.adb(*on, "wait-for-device", "shell", "getprop", "sys.boot_completed").stdout == b"1\n"

    # Exit codes and the two outputs arrive apart.
    wrong = adb.adb(*on, "shell", "nosuch --flag")
    assert wrong.returncode == 127 and wrong.stdout == b"" and b"nosuch: inaccessible" in wrong.stderr
    assert adb.adb(*on, "shell", "echo one; false").returncode == 1
    typed = adb.adb(*on, "shell", data=b"wm size\necho two\nexit\n")
    assert typed.stdout == b"Physical size: 360x720\ntwo\n"

    image = Image.open(io.BytesIO(adb.adb(*on, "exec-out", "screencap", "-p").stdout))
    assert image.size == (360, 720)

    data = bytes(range(256)) * 3000  # several chunks, every byte value
    (tmp_path / "a.bin").write_bytes(data)
    assert b"1 file pushed" in adb.adb(*on, "push", str(tmp_path / "a.bin"), "/sdcard/Download/").stderr
    assert adb.adb(*on, "shell", "ls /sdcard/Download").stdout == b"a.bin\n"
    assert adb.adb(*on, "pull", "/sdcard/Download", str(tmp_path / "back")).returncode == 0
    assert (tmp_path / "back" / "a.bin").read_bytes() == data
    assert adb.adb(*on, "pull", "/sdcard/none", str(tmp_path)).returncode == 1
    refused = adb.adb(*on, "push", str(tmp_path / "a.bin"), "/system/a.bin")
    assert refused.returncode == 1 and b"Read-only file system" in refused.stdout + refused.stderr


def test_doctor_connects_to_phones_and_names_those_that_do_not_answer(adb, phones, monkeypatch):
    monkeypatch.setenv("ANDROID_ADB_SERVER_PORT", str(adb.port))
    phone, nobody = phones(), f"127.0.0.1:{free_port()}"
    found = doctor_adb(FleetSection(type="adb", serials=(phone.serial,)))
    assert found.state == "ok" and "1 devices attached" not in doctor_adb(FleetSection()).detail
    bad = doctor_adb(FleetSection(type="adb", serials=(phone.serial, nobody)))
    assert bad.state == "failed" and bad.fix
    assert nobody in bad.detail and "refused" in bad.detail and phone.serial not in bad.detail
    adb.adb("disconnect", phone.serial)


def test_a_phone_that_reboots_comes_back(adb, phones):
    phone = phones()
    transport = adb.transport(phone.serial)
    transport.connect()
    transport.push(b"kept", "/sdcard/kept")
    transport.shell(("monkey", "-p", "com.android.settings", "-c", "android.intent.category.LAUNCHER", "1"))
    adb.adb("-s", phone.serial, "reboot")
    until = time.monotonic() + 120
    while phone.reboots == 0 or transport_is_down(transport):
        assert time.monotonic() < until
        time.sleep(0.1)
    assert transport.pull("/sdcard/kept") == b"kept"
    assert "com.android.launcher" in transport.shell(("dumpsys", "window")).stdout


def transport_is_down(transport) -> bool:
    try:
        transport.connect()
        return transport.shell(("echo", "up"), 5).exit_code != 0
    except InfraError:
        return True


def test_only_known_keys_connect(adb, phones, tmp_path):
    adb.adb("keygen", str(tmp_path / "other"))
    other = (tmp_path / "other.pub").read_text()
    closed = phones(keys=read_keys([other]))
    adb.adb("connect", closed.serial)
    assert adb.transport(closed.serial).state() == "unauthorized"
    with pytest.raises(InfraError, match="authenticate|authorize"):
        adb.transport(closed.serial).connect()
    own = phones(keys=read_keys([adb.key.with_suffix(".pub").read_text()]))
    adb.transport(own.serial).connect()
    assert adb.transport(own.serial).shell(("echo", "in")).stdout == "in\n"


def test_text_reaches_the_phone_as_it_is_and_runs_nothing(adb, serial):
    transport = adb.transport(serial)
    assert transport.shell(("echo", HOSTILE)).stdout == HOSTILE + "\n"
    assert transport.shell(("echo", "-n", "a\nb\r\n")).stdout == "a\nb\r\n"
    assert transport.shell(("ls", "/sdcard/y")).exit_code == 1
    with pytest.raises(ValueError, match="NUL"):
        transport.shell(("echo", "a\0b"))


def test_a_missing_device_is_an_error_of_one_line(adb):
    with pytest.raises(InfraError, match="not found"):
        adb.transport("emulator-9998").shell(("echo", "1"))
    with pytest.raises(InfraError, match="not attached"):
        adb.transport("emulator-9998").connect()
    with pytest.raises(InfraError, match="Connection refused") as error:
        adb.transport("127.0.0.1:1").connect()
    assert "\n" not in str(error.value)


async def play(env: PhoneEnv, task: Task) -> tuple[list[object], float]:
    """Everything the agent sees in the expert's episode, and the reward."""
    seen: list[object] = [await env.reset(task)]
    expert, done = ExpertAgent(env.template), False
    while not done:
        action = expert.act(seen[-1])
        result = await env.step(action)
        seen += [action, result.observation]
        done = result.done
    return seen, await env.score()


def state(phone: Phone) -> object:
    apps = {name: (app.db, app.prefs, app.stack) for name, app in phone.apps.items()}
    return apps, phone.files, phone.settings, phone.now


def test_over_adb_and_in_process_are_the_same(adb, phones):
    served = phones()
    transport = adb.transport(served.serial)
    transport.connect()
    remote = PhoneEnv("phone", popup_rate=0.5, transport=transport)
    local = PhoneEnv("phone", popup_rate=0.5)
    tasks = suite.train_tasks(1)[::8] + suite.held_out_tasks(1)[::12]
    assert len(tasks) >= 15
    for task in tasks:
        seen_remote, reward_remote = asyncio.run(play(remote, task))
        seen_local, reward_local = asyncio.run(play(local, task))
        assert seen_remote == seen_local, task.id
        assert reward_remote == reward_local == 1.0
        assert state(served.phone) == state(local._transport.phone), task.id
