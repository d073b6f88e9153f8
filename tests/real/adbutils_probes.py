"""adbutils' public calls against a served phone, each with the effect it must have; `test_adb_tools.py` runs them."""

from __future__ import annotations

import io
import tempfile
import threading
import time
from pathlib import Path

import adbutils
from adbutils import AdbClient, AdbDevice, AdbError, BrightnessMode, Network
from adbutils.errors import AdbInstallError
from adbutils.sync import Sync
from phones import Served
from probing import Outcome, Probes

probe = Probes(f"adbutils {adbutils.__version__}")
SETTINGS, NOTES = "com.android.settings", "com.android.notes"
ELSEWHERE = {
    "AdbClient.server_kill": "about the adb server alone",
    "AdbDevice.download_apk": "fetches a URL, without a device",
    "AdbClient.host": "a constant",
    "AdbClient.port": "a constant",
    "AdbDevice.serial": "a constant",
}
"""Public names that ask nothing of a phone."""


def refused(call, *arguments, kind=AdbError) -> str:
    """The message of the error that a call must raise."""
    try:
        call(*arguments)
    except kind as error:
        return str(error)
    raise AssertionError("was not refused")


# --- the server and its devices ------------------------------------------------------------------------------------


@probe("AdbClient.server_version", "AdbClient.make_connection")
def _(c: AdbClient, d: AdbDevice, s: Served) -> None:
    assert c.server_version() > 39
    with c.make_connection() as connection:
        connection.send_command("host:version")
        connection.check_okay()


@probe("AdbClient.device", "AdbClient.device_list", "AdbClient.iter_device", "AdbClient.list", "AdbClient.wait_for")
def _(c: AdbClient, d: AdbDevice, s: Served) -> None:
    c.wait_for(s.serial, timeout=10)
    assert c.device(s.serial).serial == s.serial
    assert s.serial in [x.serial for x in c.device_list()] and s.serial in [x.serial for x in c.iter_device()]
    [listed] = [x for x in c.list(extended=True) if x.serial == s.serial]
    assert listed.state == "device" and listed.tags["model"] == "sdk_gphone64_x86_64"


@probe("AdbClient.track_devices")
def _(c: AdbClient, d: AdbDevice, s: Served) -> None:
    event = next(e for e in c.track_devices() if e.serial == s.serial)
    assert event.present and event.status == "device"


@probe("AdbClient.connect", "AdbClient.disconnect")
def _(c: AdbClient, d: AdbDevice, s: Served) -> None:
    address = f"127.0.0.1:{s.console + 1}"
    assert "connected to" in c.connect(address, timeout=10)
    c.wait_for(address, timeout=10)
    assert c.device(address).shell("echo hi") == "hi"
    assert "disconnected" in c.disconnect(address)


@probe("AdbClient.shell", "AdbClient.sync")
def _(c: AdbClient, d: AdbDevice, s: Served) -> None:
    assert c.shell(s.serial, "getprop ro.build.version.sdk") == "33"
    assert c.sync(s.serial).stat("/sdcard").mode


@probe(
    "AdbDevice.get_state", "AdbDevice.get_serialno", "AdbDevice.get_devpath", "AdbDevice.info", "AdbDevice.get_features"
)
def _(c: AdbClient, d: AdbDevice, s: Served) -> None:
    assert d.get_state() == "device" and d.get_serialno() == s.serial and d.get_devpath()
    assert d.info["state"] == "device" and "shell_v2" in d.get_features()


@probe("AdbDevice.adb_output")
def _(c: AdbClient, d: AdbDevice, s: Served) -> None:
    assert d.adb_output("shell", "echo", "one two").strip() == "one two"


# --- shell ---------------------------------------------------------------------------------------------------------


@probe("AdbDevice.shell")
def _(c: AdbClient, d: AdbDevice, s: Served) -> None:
    assert d.shell(["echo", "two words"]) == "two words"
    assert d.shell("echo raw", encoding=None) == b"raw\n"
    assert d.shell("echo a | cat; echo b && false || echo c") == "a\nb\nc"
    with d.shell("echo stream", stream=True) as connection:
        assert connection.read_until_close() == "stream\n"


@probe("AdbDevice.open_shell")
def _(c: AdbClient, d: AdbDevice, s: Served) -> None:
    with d.open_shell("echo open") as connection:
        assert connection.read_until_close() == "open\n"


@probe("AdbDevice.shell2")
def _(c: AdbClient, d: AdbDevice, s: Served) -> None:
    done = d.shell2("ls /nowhere")
    assert done.returncode == 1 and "No such file" in done.output
    assert d.shell2("echo hi").output == "hi\n" and d.shell2("(exit 7)").returncode == 7


@probe("AdbDevice.shell2(v2=True)")
def _(c: AdbClient, d: AdbDevice, s: Served) -> None:
    done = d.shell2("echo out; ls /nowhere", v2=True)
    assert done.returncode == 1 and done.stdout == "out\n" and "No such file" in done.stderr


@probe("AdbDevice.getprop", "AdbDevice.prop")
def _(c: AdbClient, d: AdbDevice, s: Served) -> None:
    assert d.getprop("ro.product.cpu.abi") == "x86_64" and d.getprop("ro.serialno")
    assert d.prop.model == d.prop.name == "sdk_gphone64_x86_64" and d.prop.device == "emu64xa"
    assert d.prop.get("ro.build.fingerprint").count("/") == 5


@probe("AdbDevice.root")
def _(c: AdbClient, d: AdbDevice, s: Served) -> None:
    assert "already running as root" in d.root() and d.shell("whoami") == "root"


@probe("AdbDevice.tcpip", reason="the phone always listens on its own port, and says so")
def _(c: AdbClient, d: AdbDevice, s: Served) -> None:
    assert "its own TCP port" in d.tcpip(5555) and d.shell("echo still") == "still"


@probe("AdbDevice.logcat")
def _(c: AdbClient, d: AdbDevice, s: Served) -> None:
    with tempfile.TemporaryDirectory() as folder:
        event = d.logcat(Path(folder) / "log.txt", clear=True)
        time.sleep(0.5)
        event.stop()
        assert "beginning of main" in (Path(folder) / "log.txt").read_text()


# --- files ---------------------------------------------------------------------------------------------------------


@probe(
    "AdbDevice.sync", "Sync.push", "Sync.read_bytes", "Sync.read_text", "Sync.iter_content", "Sync.stat", "Sync.exists"
)
def _(c: AdbClient, d: AdbDevice, s: Served) -> None:
    data = bytes(range(256)) * 1000
    assert d.sync.push(io.BytesIO(data), "/sdcard/Download/a.bin", check=True) == len(data)
    assert (
        d.sync.read_bytes("/sdcard/Download/a.bin") == data == b"".join(d.sync.iter_content("/sdcard/Download/a.bin"))
    )
    d.sync.push("smörgås".encode(), "/sdcard/Download/b.txt")
    assert d.sync.read_text("/sdcard/Download/b.txt") == "smörgås"
    assert d.sync.stat("/sdcard/Download/a.bin").size == len(data)
    assert d.sync.exists("/sdcard/Download") and not d.sync.exists("/sdcard/none")


@probe("Sync.list", "Sync.iter_directory")
def _(c: AdbClient, d: AdbDevice, s: Served) -> None:
    d.sync.push(b"x", "/sdcard/Movies/x.mp4")
    assert [f.path for f in d.sync.list("/sdcard/Movies")] == ["x.mp4"]
    assert [f.size for f in d.sync.iter_directory("/sdcard/Movies") if f.path == "x.mp4"] == [1]


@probe("Sync.pull", "Sync.pull_file", "Sync.pull_dir")
def _(c: AdbClient, d: AdbDevice, s: Served) -> None:
    d.sync.push(b"inner", "/sdcard/Music/deep/in.txt")
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        assert (
            d.sync.pull("/sdcard/Music/deep/in.txt", out / "one")
            == 5
            == d.sync.pull_file("/sdcard/Music/deep/in.txt", out / "two")
        )
        d.sync.pull_dir("/sdcard/Music", out / "music")
        assert (out / "music/deep/in.txt").read_bytes() == b"inner"


@probe("AdbDevice.push", "AdbDevice.remove", "AdbDevice.rmtree")
def _(c: AdbClient, d: AdbDevice, s: Served) -> None:
    with tempfile.NamedTemporaryFile() as file:
        file.write(b"pushed")
        file.flush()
        d.push(file.name, "/sdcard/Box/in/pushed")
    d.remove("/sdcard/Box/in/pushed")
    assert not d.sync.exists("/sdcard/Box/in/pushed")
    d.shell("mkdir -p /sdcard/Box/in")
    d.rmtree("/sdcard/Box")
    assert not d.sync.exists("/sdcard/Box")


# --- forwards ------------------------------------------------------------------------------------------------------


@probe(
    "AdbDevice.forward",
    "AdbDevice.forward_list",
    "AdbDevice.forward_port",
    "AdbDevice.forward_remove",
    "AdbDevice.forward_remove_all",
    "AdbClient.forward",
    "AdbClient.forward_list",
)
def _(c: AdbClient, d: AdbDevice, s: Served) -> None:
    port = d.forward_port(7912)
    assert f"tcp:{port}" in [f.local for f in d.forward_list()] and c.forward_list(s.serial)
    d.forward_remove(f"tcp:{port}")
    c.forward(s.serial, f"tcp:{port}", "tcp:1")
    d.forward_remove_all()
    d.forward(f"tcp:{port}", "localabstract:x")
    d.forward_remove_all()
    assert not d.forward_list()


@probe(
    "AdbDevice.reverse",
    "AdbDevice.reverse_list",
    "AdbDevice.reverse_remove",
    "AdbDevice.reverse_remove_all",
    "AdbClient.reverse",
    "AdbClient.reverse_list",
)
def _(c: AdbClient, d: AdbDevice, s: Served) -> None:
    d.reverse("tcp:5001", "tcp:6001")
    c.reverse(s.serial, "tcp:5002", "tcp:6002")
    assert [(r.remote, r.local) for r in d.reverse_list()] == [("tcp:5001", "tcp:6001"), ("tcp:5002", "tcp:6002")]
    refused(d.reverse, "tcp:5001", "tcp:1", True)
    d.reverse_remove("tcp:5001")
    assert [r.remote for r in c.reverse_list(s.serial)] == ["tcp:5002"]
    d.reverse_remove_all()
    assert not d.reverse_list()


@probe("AdbDevice.create_connection", reason="no program on the phone listens: closed at once")
def _(c: AdbClient, d: AdbDevice, s: Served) -> None:
    assert "closed" in refused(d.create_connection, Network.TCP, 7912)
    assert "closed" in refused(d.create_connection, Network.LOCAL_ABSTRACT, "scrcpy")


@probe("AdbDevice.open_transport")
def _(c: AdbClient, d: AdbDevice, s: Served) -> None:
    with d.open_transport() as connection:
        connection.send_command("shell:echo hi")
        connection.check_okay()
        assert connection.read_until_close() == "hi\n"
    with d.open_transport() as connection:
        connection.send_command("track-jdwp")  # there is no Java to debug
        assert "closed" in refused(connection.check_okay)


# --- the screen ----------------------------------------------------------------------------------------------------


@probe("AdbDevice.screenshot", "AdbDevice.framebuffer")
def _(c: AdbClient, d: AdbDevice, s: Served) -> None:
    picture = d.screenshot(error_ok=False)
    assert picture.size == (1080, 2400) == d.screenshot(display_id=0, error_ok=False).size
    assert d.framebuffer().convert("RGB").tobytes() == picture.tobytes()


@probe("AdbDevice.window_size", "AdbDevice.rotation")
def _(c: AdbClient, d: AdbDevice, s: Served) -> None:
    assert d.window_size() == (1080, 2400) and d.rotation() == 0
    d.shell("settings put system user_rotation 1")
    assert d.rotation() == 1 and d.window_size() == (2400, 1080) == d.screenshot(error_ok=False).size
    d.shell("settings put system user_rotation 0")
    d.shell("wm size 720x1600")
    assert d.window_size() == (720, 1600) == d.screenshot(error_ok=False).size
    d.shell("wm size reset")


@probe("AdbDevice.dump_hierarchy")
def _(c: AdbClient, d: AdbDevice, s: Served) -> None:
    xml = d.dump_hierarchy()
    assert xml.startswith("<?xml") and 'text="Settings"' in xml and xml.endswith("</hierarchy>")


@probe("AdbDevice.is_screen_on", "AdbDevice.switch_screen")
def _(c: AdbClient, d: AdbDevice, s: Served) -> None:
    assert d.is_screen_on()
    d.switch_screen(False)
    assert not d.is_screen_on()
    d.switch_screen(True)
    assert d.is_screen_on()


@probe("AdbDevice.brightness_value", "AdbDevice.brightness_mode")
def _(c: AdbClient, d: AdbDevice, s: Served) -> None:
    d.brightness_value = 200
    d.brightness_mode = BrightnessMode.AUTO
    assert d.brightness_value == 200 and d.brightness_mode == BrightnessMode.AUTO


@probe(
    "AdbDevice.start_recording",
    "AdbDevice.stop_recording",
    "AdbDevice.is_recording",
    reason="needs `screenrecord` or scrcpy: there is no video encoder",
)
def _(c: AdbClient, d: AdbDevice, s: Served) -> None:
    assert "not found" in d.shell("screenrecord /sdcard/a.mp4")


# --- input ---------------------------------------------------------------------------------------------------------


def _bounds(xml: str, text: str) -> tuple[int, int]:
    at = xml.index(f'text="{text}"')
    numbers = xml[xml.index('bounds="[', at) + 9 :].split('"')[0].rstrip("]").replace("][", ",").split(",")
    left, top, right, bottom = map(int, numbers)
    return (left + right) // 2, (top + bottom) // 2


@probe("AdbDevice.click", "AdbDevice.keyevent")
def _(c: AdbClient, d: AdbDevice, s: Served) -> None:
    d.click(*_bounds(d.dump_hierarchy(), "Settings"))
    assert d.app_current().package == SETTINGS
    d.keyevent("KEYCODE_HOME")
    assert d.app_current().package == "com.android.launcher"
    d.click(0.5, 0.01)


@probe("AdbDevice.swipe", "AdbDevice.drag")
def _(c: AdbClient, d: AdbDevice, s: Served) -> None:
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


@probe("AdbDevice.send_keys")
def _(c: AdbClient, d: AdbDevice, s: Served) -> None:
    d.shell("am start -a android.intent.action.INSERT -t vnd.android.cursor.dir/contact")
    d.send_keys("two words")
    assert 'text="two words"' in d.dump_hierarchy()


@probe("AdbDevice.volume_up", "AdbDevice.volume_down", "AdbDevice.volume_mute")
def _(c: AdbClient, d: AdbDevice, s: Served) -> None:
    def level() -> int:
        return int(d.shell("settings get system volume_music"))

    before = level()
    d.volume_up(2)
    assert level() == before + 2
    d.volume_down()
    assert level() == before + 1
    d.volume_mute()
    assert level() == 0


# --- apps ----------------------------------------------------------------------------------------------------------


@probe("AdbDevice.app_start", "AdbDevice.app_current", "AdbDevice.app_stop")
def _(c: AdbClient, d: AdbDevice, s: Served) -> None:
    d.app_start(SETTINGS)
    current = d.app_current()
    assert (current.package, current.activity) == (SETTINGS, f"{SETTINGS}.Settings")
    d.app_start(NOTES, ".MainActivity")
    assert d.app_current().package == NOTES
    d.app_stop(NOTES)
    assert d.app_current().package == "com.android.launcher"
    d.shell("cmd statusbar expand-notifications")
    assert d.app_current().package == "com.android.launcher"  # the shade is no activity


@probe("AdbDevice.app_clear")
def _(c: AdbClient, d: AdbDevice, s: Served) -> None:
    d.app_clear(NOTES)
    assert d.shell("content query --uri content://notes/notes") == "No result found."


@probe("AdbDevice.app_info", "AdbDevice.package_info")
def _(c: AdbClient, d: AdbDevice, s: Served) -> None:
    info = d.app_info(SETTINGS)
    assert (
        info.version_name == "13" and info.version_code == 33 and info.path.endswith(".apk") and "SYSTEM" in info.flags
    )
    assert info.first_install_time.year == 2023 and info.signature and d.app_info("no.such.app") is None
    assert d.package_info(NOTES)["package_name"] == NOTES


@probe("AdbDevice.list_packages")
def _(c: AdbClient, d: AdbDevice, s: Served) -> None:
    everything, third = d.list_packages(), d.list_packages(["-3"])
    assert SETTINGS in everything and NOTES in third and SETTINGS not in third
    assert sorted(third + d.list_packages(["-s", "-e"])) == everything


@probe(
    "AdbDevice.install", "AdbDevice.install_remote", reason="the phone runs no APKs: `INSTALL_FAILED_NO_MATCHING_ABIS`"
)
def _(c: AdbClient, d: AdbDevice, s: Served) -> None:
    with tempfile.NamedTemporaryFile(suffix=".apk") as file:
        file.write(b"PK\3\4" + bytes(300_000))
        file.flush()
        assert "NO_MATCHING_ABIS" in refused(lambda: d.install(file.name, silent=True), kind=AdbInstallError)
    assert "NO_MATCHING_ABIS" in refused(d.install_remote, "/data/local/tmp/unknown.apk", kind=AdbInstallError)


@probe("AdbDevice.uninstall", reason="the apps are part of the phone")
def _(c: AdbClient, d: AdbDevice, s: Served) -> None:
    assert "Failure [" in d.uninstall(NOTES) and NOTES in d.list_packages()


@probe("AdbDevice.open_browser", reason="there is no browser: the intent cannot be resolved")
def _(c: AdbClient, d: AdbDevice, s: Served) -> None:
    d.open_browser("example.com")
    assert d.app_current().package == "com.android.launcher"


# --- system --------------------------------------------------------------------------------------------------------


@probe("AdbDevice.switch_airplane", "AdbDevice.switch_wifi")
def _(c: AdbClient, d: AdbDevice, s: Served) -> None:
    d.switch_airplane(True)
    d.switch_wifi(False)
    said = d.shell("settings get global airplane_mode_on; settings get global wifi_on")
    assert said.split() == ["1", "0"]


@probe("AdbDevice.wlan_ip")
def _(c: AdbClient, d: AdbDevice, s: Served) -> None:
    assert d.wlan_ip().count(".") == 3


@probe("AdbDevice.battery")
def _(c: AdbClient, d: AdbDevice, s: Served) -> None:
    battery = d.battery()
    assert battery.level == 85 and battery.usb_powered and battery.temperature == 25.0 and battery.voltage == 4200


@probe("AdbDevice.reboot")
def _(c: AdbClient, d: AdbDevice, s: Served) -> None:
    before = d.shell("cat /proc/sys/kernel/random/boot_id")
    done = threading.Thread(target=_quietly, args=(d.reboot,), daemon=True)
    done.start()
    until = time.monotonic() + 60
    while _quietly(lambda: d.shell("cat /proc/sys/kernel/random/boot_id")) in (None, "", before):
        assert time.monotonic() < until, "does not come back"
        time.sleep(0.5)


def _quietly(call):
    try:
        return call()
    except (AdbError, OSError):
        return None


def public_calls() -> set[str]:
    """Every public name of the classes that a user of adbutils has in hand."""
    classes = {"AdbClient": AdbClient, "AdbDevice": AdbDevice, "Sync": Sync}
    return {f"{name}.{n}" for name, kind in classes.items() for n in dir(kind) if not n.startswith("_")} - set(
        ELSEWHERE
    )


def run(phone: Served) -> list[Outcome]:
    client = AdbClient("127.0.0.1", phone.server)
    device = client.device(phone.serial)
    return probe.run(client, device, phone, before=lambda: device.shell("sim reset"))
