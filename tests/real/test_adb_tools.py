"""adbutils on a served phone: its calls have the effect they must have, or are refused cleanly."""

from __future__ import annotations

import io
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial

import pytest
from adbutils import AdbClient, AdbDevice, AdbError, BrightnessMode, Network
from adbutils.errors import AdbInstallError
from phones import Served, served

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
BOUNDS = r'text="Settings"[^>]*bounds="\[(\d+),(\d+)\]\[(\d+),(\d+)\]"'
SETTINGS, NOTES = "com.android.settings", "com.android.notes"


@pytest.fixture(scope="module")
def s() -> Iterator[Served]:
    with served() as phone:
        yield phone


@pytest.fixture
def c(s: Served, monkeypatch: pytest.MonkeyPatch) -> AdbClient:
    for name, value in s.env.items():
        monkeypatch.setenv(name, value)
    return AdbClient("127.0.0.1", s.server)


@pytest.fixture
def d(c: AdbClient, s: Served) -> AdbDevice:
    device = c.device(s.serial)
    device.shell("sim reset")
    return device


def refused(call, *arguments, kind=AdbError) -> str:
    """The message of the error that a call must raise."""
    with pytest.raises(kind) as error:
        call(*arguments)
    return str(error.value)


def test_the_server_and_its_devices(c, d, s):
    assert c.server_version() > 39
    with c.make_connection() as connection:
        connection.send_command("host:version")
        connection.check_okay()
    c.wait_for(s.serial, timeout=10)
    assert c.device(s.serial).serial == s.serial
    assert s.serial in [x.serial for x in c.device_list()] and s.serial in [x.serial for x in c.iter_device()]
    [listed] = [x for x in c.list(extended=True) if x.serial == s.serial]
    assert listed.state == "device" and listed.tags["model"] == "sdk_gphone64_x86_64"
    event = next(e for e in c.track_devices() if e.serial == s.serial)
    assert event.present and event.status == "device"
    address = f"127.0.0.1:{s.console + 1}"
    assert "connected to" in c.connect(address, timeout=10)
    c.wait_for(address, timeout=10)
    assert c.device(address).shell("echo hi") == "hi"
    assert "disconnected" in c.disconnect(address)
    assert c.shell(s.serial, "getprop ro.build.version.sdk") == "33"
    assert c.sync(s.serial).stat("/sdcard").mode
    assert d.get_state() == "device" and d.get_serialno() == s.serial and d.get_devpath()
    assert d.info["state"] == "device" and "shell_v2" in d.get_features()
    assert d.adb_output("shell", "echo", "one two").strip() == "one two"


def test_the_shell(d, tmp_path):
    assert d.shell(["echo", "two words"]) == "two words"
    assert d.shell("echo raw", encoding=None) == b"raw\n"
    assert d.shell("echo a | cat; echo b && false || echo c") == "a\nb\nc"
    with d.shell("echo stream", stream=True) as connection:
        assert connection.read_until_close() == "stream\n"
    with d.open_shell("echo open") as connection:
        assert connection.read_until_close() == "open\n"
    assert d.shell2("echo hi").output == "hi\n" and d.shell2("(exit 7)").returncode == 7
    done = d.shell2("echo out; ls /nowhere", v2=True)
    assert done.returncode == 1 and done.stdout == "out\n" and "No such file" in done.stderr
    assert d.getprop("ro.product.cpu.abi") == "x86_64" and d.getprop("ro.serialno")
    assert d.prop.model == d.prop.name == "sdk_gphone64_x86_64" and d.prop.device == "emu64xa"
    assert d.prop.get("ro.build.fingerprint").count("/") == 5
    assert "already running as root" in d.root() and d.shell("whoami") == "root"
    assert "its own TCP port" in d.tcpip(5555) and d.shell("echo still") == "still"
    event = d.logcat(tmp_path / "log.txt", clear=True)
    time.sleep(0.5)
    event.stop()
    assert "beginning of main" in (tmp_path / "log.txt").read_text()


def test_files(d, tmp_path):
    data = bytes(range(256)) * 1000
    assert (
        d.sync.push(io.BytesIO(data), "/sdcard/Box/a.bin", check=True)
        == len(data)
        == d.sync.stat("/sdcard/Box/a.bin").size
    )
    assert d.sync.read_bytes("/sdcard/Box/a.bin") == data == b"".join(d.sync.iter_content("/sdcard/Box/a.bin"))
    (tmp_path / "b").write_text("smörgås")
    d.push(str(tmp_path / "b"), "/sdcard/Box/in/b.txt")
    assert d.sync.read_text("/sdcard/Box/in/b.txt") == "smörgås"
    assert [f.path for f in d.sync.list("/sdcard/Box/in")] == ["b.txt"]
    assert [f.size for f in d.sync.iter_directory("/sdcard/Box/in") if f.path == "b.txt"] == [9]
    for pull in (d.sync.pull, d.sync.pull_file):
        assert pull("/sdcard/Box/in/b.txt", tmp_path / "b") == 9
    d.sync.pull_dir("/sdcard/Box", tmp_path / "box")
    assert (tmp_path / "box/in/b.txt").read_text() == "smörgås"
    d.remove("/sdcard/Box/in/b.txt")
    assert d.sync.exists("/sdcard/Box/in") and not d.sync.exists("/sdcard/Box/in/b.txt")
    d.rmtree("/sdcard/Box")
    assert not d.sync.exists("/sdcard/Box")


def test_forwards_and_reverses(c, d, s):
    port = d.forward_port(7912)
    assert f"tcp:{port}" in [f.local for f in d.forward_list()] and c.forward_list(s.serial)
    d.forward_remove(f"tcp:{port}")
    c.forward(s.serial, f"tcp:{port}", "tcp:1")
    d.forward_remove_all()
    d.forward(f"tcp:{port}", "localabstract:x")
    d.forward_remove_all()
    assert not d.forward_list()
    d.reverse("tcp:5001", "tcp:6001")
    c.reverse(s.serial, "tcp:5002", "tcp:6002")
    assert [(r.remote, r.local) for r in d.reverse_list()] == [("tcp:5001", "tcp:6001"), ("tcp:5002", "tcp:6002")]
    refused(d.reverse, "tcp:5001", "tcp:1", True)
    d.reverse_remove("tcp:5001")
    assert [r.remote for r in c.reverse_list(s.serial)] == ["tcp:5002"]
    d.reverse_remove_all()
    assert not d.reverse_list()
    assert "closed" in refused(d.create_connection, Network.TCP, 7912)
    assert "closed" in refused(d.create_connection, Network.LOCAL_ABSTRACT, "scrcpy")
    with d.open_transport() as connection:
        connection.send_command("shell:echo hi")
        connection.check_okay()
        assert connection.read_until_close() == "hi\n"
    with d.open_transport() as connection:
        connection.send_command("track-jdwp")  # there is no Java to debug
        assert "closed" in refused(connection.check_okay)


def test_images_of_the_screen(d):
    image = d.screenshot(error_ok=False)
    assert image.size == (1080, 2400) == d.screenshot(display_id=0, error_ok=False).size
    assert d.framebuffer().convert("RGB").tobytes() == image.tobytes()
    assert d.window_size() == (1080, 2400) and d.rotation() == 0
    d.shell("settings put system user_rotation 1")
    assert d.rotation() == 1 and d.window_size() == (2400, 1080) == d.screenshot(error_ok=False).size
    d.shell("settings put system user_rotation 0")
    d.shell("wm size 720x1600")
    assert d.window_size() == (720, 1600) == d.screenshot(error_ok=False).size
    d.shell("wm size reset")
    xml = d.dump_hierarchy()
    assert xml.startswith("<?xml") and 'text="Settings"' in xml and xml.endswith("</hierarchy>")


def test_the_display(d):
    d.switch_screen(False)
    assert not d.is_screen_on()
    d.switch_screen(True)
    assert d.is_screen_on()
    d.brightness_value = 200
    d.brightness_mode = BrightnessMode.AUTO
    assert d.brightness_value == 200 and d.brightness_mode == BrightnessMode.AUTO
    assert "not found" in d.shell("screenrecord /sdcard/a.mp4")


def test_touches_and_keys(d):
    left, top, right, bottom = map(int, re.search(BOUNDS, d.dump_hierarchy()).groups())
    d.click((left + right) // 2, (top + bottom) // 2)
    assert d.app_current().package == SETTINGS
    d.keyevent("KEYCODE_HOME")
    assert d.app_current().package == "com.android.launcher"
    d.shell("am start -a android.intent.action.INSERT -t vnd.android.cursor.dir/contact")
    d.send_keys("two words")
    assert 'text="two words"' in d.dump_hierarchy()
    before = int(d.shell("settings get system volume_music"))
    d.volume_up(2)
    d.volume_down()
    assert int(d.shell("settings get system volume_music")) == before + 1
    d.volume_mute()
    assert d.shell("settings get system volume_music") == "0"


def test_swipes(d):
    people = "content insert --uri content://contacts/people --bind first:s:Person"
    d.shell("; ".join(f"{people}{i}" for i in range(30)))
    d.app_start("com.android.contacts")
    before = d.dump_hierarchy()
    d.swipe(540, 1800, 540, 900, 0.3)
    scrolled = d.dump_hierarchy()
    assert scrolled != before
    d.swipe(0.5, 0.3, 0.5, 0.9, 0.3)
    assert d.dump_hierarchy() == before
    d.drag(540, 1800, 540, 900, 0.5)
    assert d.dump_hierarchy() == scrolled


def test_apps(d):
    d.app_start(SETTINGS)
    current = d.app_current()
    assert (current.package, current.activity) == (SETTINGS, f"{SETTINGS}.Settings")
    d.app_start(NOTES, ".MainActivity")
    assert d.app_current().package == NOTES
    d.app_stop(NOTES)
    d.shell("cmd statusbar expand-notifications")
    assert d.app_current().package == "com.android.launcher"  # the shade is no activity
    d.app_clear(NOTES)
    assert d.shell("content query --uri content://notes/notes") == "No result found."
    info = d.app_info(SETTINGS)
    assert (info.version_name, info.version_code, info.first_install_time.year) == ("13", 33, 2023)
    assert info.path.endswith(".apk") and "SYSTEM" in info.flags and info.signature
    assert d.package_info(NOTES)["package_name"] == NOTES and d.app_info("no.such.app") is None
    third = d.list_packages(["-3"])
    assert NOTES in third and sorted(third + d.list_packages(["-s", "-e"])) == d.list_packages()


def test_what_is_no_part_of_the_phone_is_refused(d, tmp_path):
    (tmp_path / "a.apk").write_bytes(b"PK\3\4" + bytes(300_000))
    install = partial(d.install, str(tmp_path / "a.apk"), silent=True)
    assert "NO_MATCHING_ABIS" in refused(install, kind=AdbInstallError)
    assert "NO_MATCHING_ABIS" in refused(d.install_remote, "/data/local/tmp/unknown.apk", kind=AdbInstallError)
    assert "Failure [" in d.uninstall(NOTES) and NOTES in d.list_packages()
    d.open_browser("example.com")
    assert d.app_current().package == "com.android.launcher"


def test_system_settings(d):
    assert d.wlan_ip().count(".") == 3
    battery = d.battery()
    assert battery.level == 85 and battery.usb_powered and battery.temperature == 25.0 and battery.voltage == 4200
    d.switch_airplane(True)
    d.switch_wifi(False)
    said = d.shell("settings get global airplane_mode_on; settings get global wifi_on")
    assert said.split() == ["1", "0"]


def test_a_reboot(d):
    def boot_id() -> str:
        try:
            return d.shell("cat /proc/sys/kernel/random/boot_id")
        except (AdbError, OSError):
            return ""

    before = boot_id()
    with suppress(AdbError, OSError):
        d.reboot()
    until = time.monotonic() + 60
    while boot_id() in ("", before):
        assert time.monotonic() < until, "does not come back"
        time.sleep(0.5)
