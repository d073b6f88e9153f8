"""uiautomator2's public calls against a served phone, each with the effect it must have.

Its server is Java that the phone would have to run (`CLASSPATH=/data/local/tmp/u2.jar app_process ...`), so
`uiautomator2.connect` stops there. What needs adb alone is tried on a device object that starts no server.

Runs in an environment that has uiautomator2 and neither this package nor pytest; `test_adb_tools.py` starts it with
the phone's address in the environment variables. Prints the outcomes as JSON.
"""

from __future__ import annotations

import os
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import uiautomator2  # noqa: E402
from probing import Probes, dumped  # noqa: E402

probe = Probes(f"uiautomator2 {version('uiautomator2')}")
LOCAL = {
    "click_post_delay",
    "debug",
    "implicitly_wait",
    "pos_rel2abs",
    "settings",
    "sleep",
    "wait_timeout",
    "watch_context",
    "start_uiautomator",
    "stop_uiautomator",
    "reset_uiautomator",
    "show_float_window",
    "wait_fastinput_ime",
    "watcher",
    "image",
    "screenrecord",
}
"""Public names that ask nothing of a phone, belong to `connect` or `xpath`, are retired, or need opencv on the host."""
SETTINGS, NOTES, LAUNCHER = "com.android.settings", "com.android.notes", "com.android.launcher"


class Plain(uiautomator2.Device):
    """A device without the server on it."""

    def start_uiautomator(self) -> None:
        pass


def refused(call: Any) -> str:
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    raise AssertionError("was not refused")


@probe("connect", "connect_usb", reason="pushes its server, and stops at `app_process`: the phone runs no Java")
def _(d: Plain) -> None:
    for connect in (uiautomator2.connect, uiautomator2.connect_usb):
        said = refused(lambda connect=connect: connect(os.environ["ANDROID_SERIAL"]))
        assert "LaunchUiAutomationError" in said and "app_process: inaccessible or not found" in said


SERVER_CALLS = {
    "clear_text": lambda d: d.clear_text(),
    "clear_toast": lambda d: d.clear_toast(),
    "clear_traversed_text": lambda d: d.clear_traversed_text(),
    "click": lambda d: d.click(10, 10),
    "clipboard": lambda d: d.clipboard,
    "double_click": lambda d: d.double_click(10, 10),
    "drag": lambda d: d.drag(10, 10, 500, 500),
    "dump_hierarchy": lambda d: d.dump_hierarchy(),
    "exists": lambda d: bool(d.exists(text="Settings")),
    "freeze_rotation": lambda d: d.freeze_rotation(),
    "info": lambda d: d.info,
    "jsonrpc": lambda d: d.jsonrpc.deviceInfo(),
    "jsonrpc_call": lambda d: d.jsonrpc_call("deviceInfo"),
    "last_toast": lambda d: d.last_toast,
    "last_traversed_text": lambda d: d.last_traversed_text,
    "long_click": lambda d: d.long_click(10, 10),
    "make_toast": lambda d: d.make_toast("hi"),
    "open_notification": lambda d: d.open_notification(),
    "open_quick_settings": lambda d: d.open_quick_settings(),
    "orientation": lambda d: d.orientation,
    "press": lambda d: d.press("home"),
    "screen_off": lambda d: d.screen_off(),
    "screen_on": lambda d: d.screen_on(),
    "screenshot": lambda d: d.screenshot(),
    "set_clipboard": lambda d: d.set_clipboard("x"),
    "set_orientation": lambda d: d.set_orientation("l"),
    "swipe": lambda d: d.swipe(10, 10, 500, 500),
    "swipe_ext": lambda d: d.swipe_ext("up"),
    "swipe_points": lambda d: d.swipe_points([(10, 10), (500, 500)]),
    "toast": lambda d: d.toast.show("x"),
    "touch": lambda d: d.touch.down(10, 10),
    "unlock": lambda d: d.unlock(),
    "xpath": lambda d: d.xpath("//*").all(),
}


@probe(*SERVER_CALLS, reason="asks uiautomator2's server on port 9008 of the phone, which is not there")
def _(d: Plain) -> None:
    for name, call in SERVER_CALLS.items():
        try:
            call(d)
        except Exception as error:
            assert "Unable to connect to uiautomator2 server" in str(error), f"{name}: {error!r}"
        else:
            raise AssertionError(f"{name} was not refused")


@probe(
    "send_keys",
    "set_input_ime",
    "is_input_ime_installed",
    "set_fastinput_ime",
    "send_action",
    "hide_keyboard",
    reason="wants its own keyboard, an APK; ADBKeyboard's broadcasts and `adb shell input text` type",
)
def _(d: Plain) -> None:
    assert not d.is_input_ime_installed()
    assert "NO_MATCHING_ABIS" in refused(d.set_input_ime)


@probe(
    "app_install", "app_uninstall", "app_uninstall_all", reason="the phone runs no APKs, and its apps are part of it"
)
def _(d: Plain) -> None:
    with tempfile.NamedTemporaryFile(suffix=".apk") as file:
        file.write(b"PK\3\4" + bytes(1000))
        file.flush()
        assert "NO_MATCHING_ABIS" in refused(lambda: d.app_install(file.name))
    assert not d.app_uninstall(NOTES) and NOTES in d.app_uninstall_all() and NOTES in d.app_list()


@probe("open_url", reason="there is no browser: the intent cannot be resolved")
def _(d: Plain) -> None:
    d.open_url("https://example.com")
    assert d.app_current()["package"] == LAUNCHER


@probe("session", reason="goes through uiautomator2's server")
def _(d: Plain) -> None:
    assert "app_process: inaccessible" in refused(lambda: d.session(SETTINGS))


@probe("shell")
def _(d: Plain) -> None:
    done = d.shell("ls /nowhere")
    assert done.exit_code == 1 and "No such file" in done.output
    assert d.shell(["echo", "two words"]).output == "two words\n"


@probe("app_start", "app_current", "app_wait", "wait_activity", "app_stop")
def _(d: Plain) -> None:
    d.app_start(SETTINGS, ".Settings", wait=True)
    assert d.app_current()["package"] == SETTINGS and d.app_wait(SETTINGS, 5, front=True) > 0
    assert d.wait_activity(f"{SETTINGS}.Settings", 5)
    d.app_stop(SETTINGS)
    assert d.app_current()["package"] == LAUNCHER
    d.app_start(NOTES, stop=True)
    assert d.app_current()["package"] == NOTES


@probe("app_list", "app_list_running", "app_stop_all")
def _(d: Plain) -> None:
    d.app_start(NOTES)
    assert NOTES in d.app_list("-3") and SETTINGS not in d.app_list("-3")
    assert NOTES in d.app_list_running() and SETTINGS not in d.app_list_running()
    assert NOTES in d.app_stop_all() and NOTES not in d.app_list_running()


@probe("app_info", "app_clear", "app_auto_grant_permissions")
def _(d: Plain) -> None:
    assert d.app_info(SETTINGS) == {"versionName": "13", "versionCode": 33}
    d.app_auto_grant_permissions(NOTES)
    d.app_clear(NOTES)
    assert d.shell("content query --uri content://notes/notes").output == "No result found.\n"


@probe("device_info", "serial", "wlan_ip", "window_size", "adb_device")
def _(d: Plain) -> None:
    info = d.device_info
    assert info["sdk"] == 33 and info["version"] == 13 and info["arch"] == "x86_64" and info["serial"] and info["brand"]
    assert d.serial and d.wlan_ip.count(".") == 3 and d.window_size() == (1080, 2400)
    assert d.adb_device.serial == os.environ["ANDROID_SERIAL"]


@probe("screenshot(display_id=0)")
def _(d: Plain) -> None:
    assert d.screenshot(display_id=0).size == (1080, 2400)


@probe("push", "pull")
def _(d: Plain) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "a").write_bytes(b"pushed")
        d.push(f"{folder}/a", "/sdcard/Download/a")
        d.pull("/sdcard/Download/a", f"{folder}/b")
        assert (Path(folder) / "b").read_bytes() == b"pushed"


@probe("keyevent", "long_press")
def _(d: Plain) -> None:
    for key in (d.keyevent, d.long_press):
        d.app_start(SETTINGS, ".Settings")
        key("home")
        assert d.app_current()["package"] == LAUNCHER


@probe("current_ime")
def _(d: Plain) -> None:
    assert d.current_ime() == "com.android.adbkeyboard/.AdbIME"


@probe("show_touch_trace")
def _(d: Plain) -> None:
    d.show_touch_trace()
    assert d.shell("settings get system show_touches").output == "1\n"


def main() -> None:
    named = {call.partition("(")[0] for call in probe.calls}
    if missing := {n for n in dir(uiautomator2.Device) if not n.startswith("_")} - named - LOCAL:
        sys.exit(f"no probe for {sorted(missing)}")
    device = Plain(os.environ["ANDROID_SERIAL"])
    outcomes = probe.run(device, before=lambda: device.adb_device.shell("sim reset"))
    print(probe.program, dumped(outcomes), sep="\t", flush=True)
    os._exit(0)  # its exit handlers wait for a server


if __name__ == "__main__":
    main()
