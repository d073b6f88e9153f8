"""AndroidEnv's and AndroidWorld's own controllers against a served phone, each call with the effect it must have.

Runs in AndroidWorld's environment, which has neither this package nor pytest; `test_androidworld_controllers.py`
starts it with the phone's address in the environment variables. Prints the outcomes as JSON.
"""

from __future__ import annotations

import datetime
import os
import sqlite3
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path += sys.argv[1:]  # the checkout, unless AndroidWorld is installed

from android_env.components import adb_call_parser, adb_controller, config_classes, errors  # noqa: E402
from android_env.proto import adb_pb2  # noqa: E402
from android_world.env import (  # noqa: E402
    actuation,
    adb_utils,
    android_world_controller,
    json_action,
    representation_utils,
    tools,
)
from android_world.task_evals.utils import sqlite_utils, user_data_generation  # noqa: E402
from android_world.utils import app_snapshot, contacts_utils, datetime_utils, file_utils  # noqa: E402
from probing import Probes, dumped  # noqa: E402

ENV = Probes("AndroidEnv's AdbCallParser")
WORLD = Probes("AndroidWorld's controllers")
OK = adb_pb2.AdbResponse.Status.OK
SETTINGS, NOTES, LAUNCHER = "com.android.settings", "com.android.notes", "com.android.launcher"
Request = adb_pb2.AdbRequest
NAMESPACE = Request.SettingsRequest.Namespace


class Device:
    """What AndroidWorld calls an environment, as far as adb goes: AndroidEnv's parser on AndroidEnv's controller.

    AndroidEnv restarts the adb server after every command that fails. The phone was made known to the server by hand,
    so that is left out; a server that scans finds the phone again.
    """

    def __init__(self) -> None:
        config = config_classes.AdbControllerConfig(
            adb_path=os.environ["ADBUTILS_ADB_PATH"],
            adb_server_port=int(os.environ["ANDROID_ADB_SERVER_PORT"]),
            device_name=os.environ["ANDROID_SERIAL"],
            default_timeout=30.0,
        )
        controller = adb_controller.AdbController(config)
        controller._restart_server = lambda timeout=None: None
        self.parser = adb_call_parser.AdbCallParser(controller)

    def execute_adb_call(self, request: Any) -> Any:
        return self.parser.parse(request)

    def shell(self, line: str) -> str:
        return adb_utils.issue_generic_request(["shell", line], self).generic.output.decode()


def parse(d: Device, **command: Any) -> Any:
    """The response to a request, which must be OK."""
    response = d.parser.parse(Request(**command))
    assert response.status == OK, response
    return response


def activity(d: Device) -> str:
    return parse(d, get_current_activity=Request.GetCurrentActivity()).get_current_activity.full_activity


def fails(call: Any, *arguments: Any) -> str:
    try:
        call(*arguments)
    except errors.AdbControllerError as error:
        return str(error)
    raise AssertionError("did not fail")


# --- AndroidEnv ----------------------------------------------------------------------------------------------------


@ENV("start_activity", "get_current_activity")
def _(d: Device, c: Any) -> None:
    parse(d, start_activity=Request.StartActivity(full_activity=f"{SETTINGS}/.Settings"))
    assert activity(d) == f"{SETTINGS}/{SETTINGS}.Settings"
    wrong = d.parser.parse(Request(start_activity=Request.StartActivity(full_activity="a.b/.C")))
    assert wrong.status == adb_pb2.AdbResponse.Status.INTERNAL_ERROR


@ENV("force_stop")
def _(d: Device, c: Any) -> None:
    parse(d, start_activity=Request.StartActivity(full_activity=f"{NOTES}/.MainActivity"))
    parse(d, force_stop=Request.ForceStop(package_name=NOTES))
    assert activity(d).startswith(LAUNCHER)


@ENV("tap")
def _(d: Device, c: Any) -> None:
    x, y = place(c, "Settings")
    parse(d, tap=Request.Tap(x=x, y=y))
    assert activity(d).startswith(SETTINGS)


@ENV("press_button")
def _(d: Device, c: Any) -> None:
    adb_utils.start_activity(f"{SETTINGS}/.Settings", [], d)
    parse(d, press_button=Request.PressButton(button=Request.PressButton.BACK))
    assert activity(d).startswith(LAUNCHER)


@ENV("input_text")
def _(d: Device, c: Any) -> None:
    new_contact(d)
    parse(d, input_text=Request.InputText(text="hello"))
    assert "hello" in texts(c)


@ENV("send_broadcast")
def _(d: Device, c: Any) -> None:
    parse(d, send_broadcast=Request.SendBroadcast(action="com.example.NOTHING"))


@ENV("get_orientation")
def _(d: Device, c: Any) -> None:
    assert parse(d, get_orientation=Request.GetOrientationRequest()).get_orientation.orientation == 0
    d.shell("settings put system user_rotation 1")
    assert parse(d, get_orientation=Request.GetOrientationRequest()).get_orientation.orientation == 1


@ENV("push", "pull")
def _(d: Device, c: Any) -> None:
    data = bytes(range(256)) * 500
    parse(d, push=Request.Push(content=data, path="/sdcard/Download/a b.bin"))
    assert parse(d, pull=Request.Pull(path="/sdcard/Download/a b.bin")).pull.content == data


@ENV("settings get", "settings put", "settings delete", "settings list", "settings reset")
def _(d: Device, c: Any) -> None:
    def ask(**verb: Any) -> str:
        return parse(d, settings=Request.SettingsRequest(name_space=NAMESPACE.SYSTEM, **verb)).settings.output.decode()

    ask(put=Request.SettingsRequest.Put(key="probe", value="1"))
    assert ask(get=Request.SettingsRequest.Get(key="probe")) == "1\n"
    assert "probe=1\n" in ask(list=Request.SettingsRequest.List())
    assert "Deleted 1 rows" in ask(delete_key=Request.SettingsRequest.Delete(key="probe"))
    ask(put=Request.SettingsRequest.Put(key="probe", value="1"))
    ask(reset=Request.SettingsRequest.Reset(mode=Request.SettingsRequest.Reset.Mode.TRUSTED_DEFAULTS))
    assert ask(get=Request.SettingsRequest.Get(key="probe")) == "null\n"


@ENV("package_manager list", "package_manager clear", "package_manager grant")
def _(d: Device, c: Any) -> None:
    manager = Request.PackageManagerRequest
    listed = parse(d, package_manager=manager(list=manager.List(packages=manager.List.Packages())))
    assert SETTINGS in listed.package_manager.list.items
    features = parse(d, package_manager=manager(list=manager.List(features=manager.List.Features())))
    assert "android.hardware.touchscreen" in features.package_manager.list.items
    parse(d, package_manager=manager(clear=manager.Clear(package_name=NOTES)))
    assert d.shell("content query --uri content://notes/notes") == "No result found.\n"
    parse(
        d, package_manager=manager(grant=manager.Grant(package_name=NOTES, permissions=["android.permission.CAMERA"]))
    )


@ENV("dumpsys")
def _(d: Device, c: Any) -> None:
    assert b"mWakefulness=Awake" in parse(d, dumpsys=Request.DumpsysRequest(service="power")).dumpsys.output
    assert b"window" in parse(d, dumpsys=Request.DumpsysRequest(list_only=True)).dumpsys.output


@ENV("start_screen_pinning")
def _(d: Device, c: Any) -> None:
    adb_utils.start_activity(f"{SETTINGS}/.Settings", [], d)
    parse(d, start_screen_pinning=Request.StartScreenPinning(full_activity=f"{SETTINGS}/{SETTINGS}.Settings"))


@ENV("generic")
def _(d: Device, c: Any) -> None:
    assert parse(d, generic=Request.GenericRequest(args=["shell", "echo", "hi"])).generic.output == b"hi\n"


@ENV("install_apk", "uninstall_package", reason="the phone runs no APKs, and its apps are part of it")
def _(d: Device, c: Any) -> None:
    blob = Request.InstallApk.Blob(contents=b"PK\3\4" + bytes(100_000))
    assert "NO_MATCHING_ABIS" in fails(d.parser.parse, Request(install_apk=Request.InstallApk(blob=blob)))
    assert "DELETE_FAILED" in fails(
        d.parser.parse, Request(uninstall_package=Request.UninstallPackage(package_name=NOTES))
    )


# --- helpers of what follows ---------------------------------------------------------------------------------------


def texts(c: Any) -> list[str]:
    return [t for e in c.get_ui_elements() for t in (e.text, e.content_description) if t]


def place(c: Any, text: str) -> tuple[int, int]:
    element = next(e for e in c.get_ui_elements() if text in (e.text, e.content_description))
    x, y = element.bbox_pixels.center
    return int(x), int(y)


def long_list(d: Device) -> None:
    """Contacts, with more people than the screen shows."""
    people = "content insert --uri content://contacts/people --bind first:s:Person"
    d.shell("; ".join(f"{people}{i}" for i in range(30)))
    adb_utils.start_activity("com.android.contacts/.activities.PeopleActivity", [], d)


def held(d: Device, c: Any) -> tuple[int, int]:
    """Where a folder is shown that a long press opens a menu for."""
    d.shell("mkdir -p /sdcard/Held; echo x > /sdcard/Held/a.txt")
    adb_utils.start_activity("com.android.documentsui/.files.FilesActivity", [], d)
    return place(c, "Held")


def new_contact(d: Device) -> None:
    d.shell("am start -a android.intent.action.INSERT -t vnd.android.cursor.dir/contact")


def act(d: Device, c: Any, **fields: Any) -> None:
    actuation.execute_adb_action(json_action.JSONAction(**fields), c.get_ui_elements(), c.device_screen_size, d)


# --- adb_utils -----------------------------------------------------------------------------------------------------


@WORLD("start_activity", "get_current_activity")
def _(d: Device, c: Any) -> None:
    adb_utils.start_activity(adb_utils.get_adb_activity("settings"), None, d)
    assert adb_utils.get_current_activity(d)[0] == f"{SETTINGS}/{SETTINGS}.Settings"


@WORLD("tap_screen", "double_tap")
def _(d: Device, c: Any) -> None:
    adb_utils.tap_screen(*place(c, "Settings"), d)
    assert activity(d).startswith(SETTINGS)
    adb_utils.press_home_button(d)
    adb_utils.double_tap(*place(c, "Notes"), d)
    assert activity(d).startswith(NOTES)


@WORLD("long_press")
def _(d: Device, c: Any) -> None:
    adb_utils.long_press(*held(d, c), d)
    assert "Rename" in texts(c)


@WORLD("press_home_button", "press_back_button", "press_enter_button", "press_keyboard_generic")
def _(d: Device, c: Any) -> None:
    adb_utils.start_activity(f"{SETTINGS}/.Settings", [], d)
    adb_utils.press_back_button(d)
    assert activity(d).startswith(LAUNCHER)
    new_contact(d)
    adb_utils.press_keyboard_generic("KEYCODE_A", d)
    assert "a" in texts(c)
    assert adb_utils.press_enter_button(d).status == OK
    adb_utils.press_home_button(d)
    assert activity(d).startswith(LAUNCHER)


@WORLD("type_text")
def _(d: Device, c: Any) -> None:
    new_contact(d)
    adb_utils.type_text('it\'s $5; (a|b) & "c" #1', d, timeout_sec=10)
    assert 'it\'s $5; (a|b) & "c" #1' in texts(c)


@WORLD("issue_generic_request", "check_ok")
def _(d: Device, c: Any) -> None:
    response = adb_utils.issue_generic_request("shell getprop ro.build.version.sdk", d)
    adb_utils.check_ok(response)
    assert response.generic.output == b"33\n"


@WORLD("get_all_package_names")
def _(d: Device, c: Any) -> None:
    assert {SETTINGS, NOTES, "ca.zgrs.clipper"} <= set(adb_utils.get_all_package_names(d))


@WORLD("get_all_apps")
def _(d: Device, c: Any) -> None:
    assert {"settings", "clipper"} <= set(adb_utils.get_all_apps(d))


@WORLD("launch_app", "close_app")
def _(d: Device, c: Any) -> None:
    adb_utils.launch_app("settings", d)
    assert activity(d).startswith(SETTINGS)
    adb_utils.close_app("settings", d)
    assert activity(d).startswith(LAUNCHER)
    adb_utils.launch_app(NOTES, d)
    assert activity(d).startswith(NOTES)
    adb_utils.launch_app("contacts", d)
    assert activity(d).startswith("com.android.contacts")


@WORLD("close_recents")
def _(d: Device, c: Any) -> None:
    adb_utils.launch_app("settings", d)
    adb_utils.launch_app(NOTES, d)
    adb_utils.close_recents(d)
    assert activity(d).startswith(LAUNCHER) and SETTINGS not in d.shell("am stack list")


@WORLD("generate_swipe_command")
def _(d: Device, c: Any) -> None:
    long_list(d)
    before = texts(c)
    adb_utils.issue_generic_request(adb_utils.generate_swipe_command(540, 1800, 540, 900, 300), d)
    after = texts(c)
    adb_utils.issue_generic_request(adb_utils.generate_swipe_command(540, 900, 540, 1800), d)
    assert after != before == texts(c)


@WORLD("generate_drag_and_drop_command")
def _(d: Device, c: Any) -> None:
    long_list(d)
    before = texts(c)
    adb_utils.issue_generic_request(adb_utils.generate_drag_and_drop_command(540, 1800, 540, 900, 4000), d)
    assert texts(c) != before


@WORLD("send_android_intent")
def _(d: Device, c: Any) -> None:
    adb_utils.send_android_intent(
        "start",
        "android.intent.action.INSERT",
        d,
        mime_type="vnd.android.cursor.dir/contact",
        extras={"name": "Ada Lovelace", "phone": "12345"},
    )
    assert {"Ada", "Lovelace", "12345"} <= set(texts(c))


@WORLD("get_api_level")
def _(d: Device, c: Any) -> None:
    assert adb_utils.get_api_level(d) == 33


@WORLD("toggle_wifi", "toggle_bluetooth")
def _(d: Device, c: Any) -> None:
    adb_utils.toggle_wifi(d, "off")
    adb_utils.toggle_bluetooth(d, "on")
    assert d.shell("settings get global wifi_on").strip() == "0"
    assert d.shell("settings get global bluetooth_on").strip() == "1"


@WORLD("set_brightness")
def _(d: Device, c: Any) -> None:
    adb_utils.set_brightness("max", d)
    assert d.shell("settings get system screen_brightness").strip() == "255"


@WORLD("clear_app_data")
def _(d: Device, c: Any) -> None:
    adb_utils.clear_app_data(NOTES, d)
    assert d.shell("content query --uri content://notes/notes") == "No result found.\n"


@WORLD("toggle_airplane_mode", "check_airplane_mode")
def _(d: Device, c: Any) -> None:
    adb_utils.toggle_airplane_mode("on", d)
    assert adb_utils.check_airplane_mode(d)
    adb_utils.toggle_airplane_mode("off", d)
    assert not adb_utils.check_airplane_mode(d)


@WORLD("set_clipboard_contents", "get_clipboard_contents")
def _(d: Device, c: Any) -> None:
    adb_utils.launch_app("settings", d)
    adb_utils.set_clipboard_contents("two words", d)
    assert adb_utils.get_clipboard_contents(d) == "two words"
    assert activity(d).startswith(SETTINGS)


@WORLD("change_orientation", "get_orientation")
def _(d: Device, c: Any) -> None:
    assert adb_utils.get_orientation(d) == 0
    adb_utils.change_orientation("landscape", d)
    assert adb_utils.get_orientation(d) == 1


@WORLD("grant_permissions")
def _(d: Device, c: Any) -> None:
    adb_utils.grant_permissions(NOTES, "android.permission.READ_CONTACTS", d)


@WORLD("execute_sql_command")
def _(d: Device, c: Any) -> None:
    path = "/data/data/com.example/databases/probe.db"
    d.shell(f"mkdir -p {os.path.dirname(path)}")
    adb_utils.execute_sql_command(path, "CREATE TABLE t (a); INSERT INTO t VALUES ('x');", d)
    assert adb_utils.execute_sql_command(path, "SELECT a FROM t;", d).generic.output == b"x\n"


@WORLD("get_call_state", "call_emulator", "end_call_if_active")
def _(d: Device, c: Any) -> None:
    assert adb_utils.get_call_state(d) == "IDLE"
    adb_utils.call_emulator(d, "+1 555-0101")
    assert adb_utils.get_call_state(d) == "RINGING" and "+15550101" in texts(c)
    adb_utils.end_call_if_active(d)
    assert adb_utils.get_call_state(d) == "IDLE" and "+15550101" not in texts(c)


@WORLD("call_phone_number", "clear_android_emulator_call_log")
def _(d: Device, c: Any) -> None:
    adb_utils.call_phone_number(d, "5550102")
    assert adb_utils.get_call_state(d) == "OFFHOOK"
    adb_utils.end_call_if_active(d)
    assert "number=5550102" in d.shell("content query --uri content://call_log/calls")
    adb_utils.clear_android_emulator_call_log(d)
    assert d.shell("content query --uri content://call_log/calls") == "No result found.\n"


@WORLD("text_emulator")
def _(d: Device, c: Any) -> None:
    adb_utils.text_emulator(d, "+15550103", "Hello, you")
    row = d.shell("content query --uri content://sms/inbox").splitlines()[0]
    assert "address=+15550103, " in row and "body=Hello, you, " in row
    assert abs(int(row.split(" date=")[1].split(",")[0]) / 1000 - int(d.shell("date +%s"))) < 300


@WORLD("set_default_app")
def _(d: Device, c: Any) -> None:
    adb_utils.set_default_app("sms_default_application", "com.android.messaging", d)
    assert d.shell("settings get secure sms_default_application").strip() == "com.android.messaging"


@WORLD("disable_headsup_notifications", "enable_headsup_notifications")
def _(d: Device, c: Any) -> None:
    for switch, value in (
        (adb_utils.disable_headsup_notifications, "0"),
        (adb_utils.enable_headsup_notifications, "1"),
    ):
        switch(d)
        assert d.shell("settings get global heads_up_notifications_enabled").strip() == value


@WORLD("put_settings", "get_all_settings")
def _(d: Device, c: Any) -> None:
    adb_utils.put_settings(NAMESPACE.SYSTEM, "font_scale", "1.3", d)
    found = adb_utils.get_all_settings(d)
    assert found["font_scale"] == "1.3" and "wifi_on" in found and "zen_duration" not in found


@WORLD("delete_contacts")
def _(d: Device, c: Any) -> None:
    adb_utils.delete_contacts(d)
    assert not contacts_utils.list_contacts(d)


@WORLD("get_screen_size", "set_screen_size", "get_logical_screen_size", "get_physical_frame_boundary")
def _(d: Device, c: Any) -> None:
    assert adb_utils.get_screen_size(d) == (1080, 2400) == adb_utils.get_logical_screen_size(d)
    assert adb_utils.get_physical_frame_boundary(d) == (0, 0, 1080, 2400)
    adb_utils.set_screen_size(720, 1600, d)
    assert adb_utils.get_logical_screen_size(d) == (720, 1600)
    d.shell("wm size reset")
    adb_utils.change_orientation("landscape", d)
    assert adb_utils.get_logical_screen_size(d) == (2400, 1080)
    assert adb_utils.get_physical_frame_boundary(d) == (0, 0, 1080, 2400)


@WORLD("set_root_if_needed")
def _(d: Device, c: Any) -> None:
    assert adb_utils.set_root_if_needed(d).generic.output == b"root\n"


@WORLD("uiautomator_dump")
def _(d: Device, c: Any) -> None:
    elements = representation_utils.xml_dump_to_ui_elements(adb_utils.uiautomator_dump(d))
    assert any(e.text == "Settings" and e.is_clickable for e in elements)


@WORLD("install_apk", reason="the phone runs no APKs")
def _(d: Device, c: Any) -> None:
    with tempfile.NamedTemporaryFile(suffix=".apk") as file:
        file.write(b"PK\3\4" + bytes(1000))
        file.flush()
        assert "NO_MATCHING_ABIS" in fails(adb_utils.install_apk, file.name, d)


# --- actuation and the controller ----------------------------------------------------------------------------------


@WORLD(
    "AndroidWorldController.get_ui_elements",
    "AndroidWorldController.device_screen_size",
    "AndroidWorldController.logical_screen_size",
)
def _(d: Device, c: Any) -> None:
    assert "Settings" in texts(c) and c.device_screen_size == (1080, 2400) == c.logical_screen_size


@WORLD("AndroidWorldController.get_a11y_forest", reason="needs AndroidEnv's accessibility forwarder, which is an APK")
def _(d: Device, c: Any) -> None:
    assert "com.google.androidenv.accessibilityforwarder" not in adb_utils.get_all_package_names(d)


@WORLD("AndroidWorldController.pull_file", "AndroidWorldController.push_file")
def _(d: Device, c: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "x.db").write_bytes(b"new")
        d.shell("mkdir -p /data/data/com.example/databases; echo old > /data/data/com.example/databases/x.db-wal")
        c.push_file(f"{folder}/x.db", "/data/data/com.example/databases/x.db")
    with c.pull_file("/data/data/com.example/databases/x.db") as pulled:
        assert os.listdir(pulled) == ["x.db"] and (Path(pulled) / "x.db").read_bytes() == b"new"


@WORLD("actuation click", "actuation navigate_home", "actuation navigate_back", "actuation open_app")
def _(d: Device, c: Any) -> None:
    index = next(i for i, e in enumerate(c.get_ui_elements()) if e.text == "Settings")
    act(d, c, action_type="click", index=index)
    assert activity(d).startswith(SETTINGS)
    act(d, c, action_type="navigate_back")
    assert activity(d).startswith(LAUNCHER)
    act(d, c, action_type="open_app", app_name="settings")
    assert activity(d).startswith(SETTINGS)
    act(d, c, action_type="navigate_home")
    assert activity(d).startswith(LAUNCHER)


@WORLD("actuation input_text", "actuation keyboard_enter")
def _(d: Device, c: Any) -> None:
    new_contact(d)
    for text in ("first", "second"):
        index = next(i for i, e in enumerate(c.get_ui_elements()) if e.class_name == "android.widget.EditText")
        act(d, c, action_type="input_text", text=text, index=index, clear_text=True)
    assert "second" in texts(c) and "firstsecond" not in texts(c)
    act(d, c, action_type="keyboard_enter")


@WORLD("actuation scroll", "actuation swipe")
def _(d: Device, c: Any) -> None:
    long_list(d)
    before = texts(c)
    act(d, c, action_type="scroll", direction="down")
    assert texts(c) != before
    act(d, c, action_type="scroll", direction="up")
    assert texts(c) == before
    act(d, c, action_type="swipe", direction="up")
    assert activity(d).startswith(LAUNCHER)  # from the bottom edge: home
    act(d, c, action_type="swipe", direction="down")
    assert "Bluetooth" in texts(c)  # from the top edge: the shade


@WORLD("actuation long_press", "actuation double_tap", "actuation wait")
def _(d: Device, c: Any) -> None:
    x, y = held(d, c)
    act(d, c, action_type="long_press", x=x, y=y)
    assert "Rename" in texts(c)
    adb_utils.press_home_button(d)
    x, y = place(c, "Notes")
    act(d, c, action_type="double_tap", x=x, y=y)
    assert activity(d).startswith(NOTES)
    act(d, c, action_type="wait")


@WORLD(
    "actuation change_orientation",
    "actuation launch_adb_activity",
    "actuation drag_and_drop",
    "actuation press_keyboard",
    reason="AndroidWorld's `JSONAction` takes no such action at this commit",
)
def _(d: Device, c: Any) -> None:
    for kind in ("change_orientation", "launch_adb_activity", "drag_and_drop", "press_keyboard"):
        try:
            json_action.JSONAction(action_type=kind)
        except ValueError:
            continue
        raise AssertionError(f"{kind} is an action")


@WORLD("actuation.find_and_click_element")
def _(d: Device, c: Any) -> None:
    actuation.find_and_click_element("Settings", c)
    assert activity(d).startswith(SETTINGS)


@WORLD("AndroidToolController.click_element")
def _(d: Device, c: Any) -> None:
    tools.AndroidToolController(c).click_element("Settings")
    assert activity(d).startswith(SETTINGS)


@WORLD("AndroidToolController.open_web_page", reason="there is no browser: the intent cannot be resolved")
def _(d: Device, c: Any) -> None:
    tools.AndroidToolController(c).open_web_page("example.com")
    assert activity(d).startswith(LAUNCHER)


@WORLD("AndroidToolController.send_sms", reason="knows the buttons of two other messaging apps only")
def _(d: Device, c: Any) -> None:
    try:
        tools.AndroidToolController(c).send_sms("5550105", "Hello there")
    except ValueError as error:
        assert "Messaging app not supported: com.android.messaging" in str(error)
    assert "Hello there" in texts(c)


# --- contacts, date and time ---------------------------------------------------------------------------------------


@WORLD("contacts_utils.add_contact", "contacts_utils.list_contacts", "contacts_utils.clear_contacts")
def _(d: Device, c: Any) -> None:
    contacts_utils.clear_contacts(c)
    assert contacts_utils.list_contacts(c) == []
    contacts_utils.add_contact("Ada Lovelace", "+1-555-0104", c, ui_delay_sec=0.1)
    assert contacts_utils.list_contacts(c) == [contacts_utils.Contact("Ada Lovelace", "15550104")]


@WORLD("datetime_utils.setup_datetime", "datetime_utils.toggle_auto_settings")
def _(d: Device, c: Any) -> None:
    datetime_utils.setup_datetime(d)
    assert d.shell("settings get global auto_time").strip() == "0"
    assert d.shell("settings get system time_12_24").strip() == "24"


@WORLD("datetime_utils.set_datetime", "datetime_utils.advance_system_time")
def _(d: Device, c: Any) -> None:
    datetime_utils.set_datetime(d, datetime.datetime(2023, 10, 20, 8, 30))
    assert d.shell("date '+%Y-%m-%d %H:%M'").strip() == "2023-10-20 08:30"
    datetime_utils.advance_system_time(datetime.timedelta(days=2, hours=1), d)
    assert d.shell("date '+%Y-%m-%d %H:%M'").strip() == "2023-10-22 09:30"


# --- files ---------------------------------------------------------------------------------------------------------


@WORLD("file_utils.create_file", "file_utils.check_file_content", "file_utils.remove_single_file")
def _(d: Device, c: Any) -> None:
    content = 'It\'s "quoted" $HOME; line'
    file_utils.create_file("note.md", "/sdcard/Documents/Box", d, content)
    assert file_utils.check_file_content("/sdcard/Documents/Box/note.md", content + "\n", d, exact_match=True)
    file_utils.remove_single_file("note.md", "/sdcard/Documents/Box", d)
    assert not file_utils.check_file_exists("/sdcard/Documents/Box/note.md", d)


@WORLD(
    "file_utils.mkdir",
    "file_utils.check_file_exists",
    "file_utils.check_directory_exists",
    "file_utils.check_file_or_folder_exists",
)
def _(d: Device, c: Any) -> None:
    file_utils.mkdir("/sdcard/Probe/inner", d)
    d.shell("echo x > /sdcard/Probe/inner/a.txt")
    assert file_utils.check_file_exists("/sdcard/Probe/inner/a.txt", d)
    assert not file_utils.check_file_exists("/sdcard/Probe/inner", d)
    assert file_utils.check_directory_exists("/sdcard/Probe/inner", d)
    assert file_utils.check_file_or_folder_exists("inner", "/sdcard/Probe", d)
    assert not file_utils.check_file_or_folder_exists("outer", "/sdcard/Probe", d)


@WORLD("file_utils.clear_directory")
def _(d: Device, c: Any) -> None:
    d.shell("mkdir -p /sdcard/Probe/inner; echo x > /sdcard/Probe/a.txt; echo y > /sdcard/Probe/inner/b.txt")
    file_utils.clear_directory("/sdcard/Probe", d)
    assert d.shell("ls /sdcard/Probe") == ""


@WORLD("file_utils.copy_dir")
def _(d: Device, c: Any) -> None:
    d.shell("mkdir -p /sdcard/Probe/inner; echo x > /sdcard/Probe/a.txt; echo y > /sdcard/Probe/inner/b.txt")
    file_utils.copy_dir("/sdcard/Probe", "/sdcard/Copy", d)
    assert d.shell("cat /sdcard/Copy/a.txt /sdcard/Copy/inner/b.txt") == "x\ny\n"


@WORLD("file_utils.tmp_directory_from_device", "file_utils.tmp_file_from_device")
def _(d: Device, c: Any) -> None:
    d.shell("mkdir -p /sdcard/Probe; echo x > '/sdcard/Probe/a b.txt'")
    with file_utils.tmp_directory_from_device("/sdcard/Probe", d) as folder:
        assert (Path(folder) / "a b.txt").read_text() == "x\n"
    d.shell("echo z > /sdcard/Probe/c.txt")
    with file_utils.tmp_file_from_device("/sdcard/Probe/c.txt", d) as file:
        assert Path(file).read_text() == "z\n"


@WORLD("file_utils.copy_file_to_device", "file_utils.copy_data_to_device")
def _(d: Device, c: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "it's a.txt").write_text("one")
        assert file_utils.copy_data_to_device(f"{folder}/it's a.txt", "/sdcard/Download", d).status == OK
        (Path(folder) / "b.txt").write_text("two")
        file_utils.copy_data_to_device(folder, "/sdcard/Pictures", d)
    assert d.shell('cat "/sdcard/Download/it\'s a.txt" /sdcard/Pictures/b.txt') == "onetwo"


@WORLD("file_utils.get_file_list_with_metadata")
def _(d: Device, c: Any) -> None:
    d.shell("mkdir -p /sdcard/Probe/inner; echo four > '/sdcard/Probe/a b.txt'")
    [found] = file_utils.get_file_list_with_metadata("/sdcard/Probe", d)
    assert (found.file_name, found.full_path, found.file_size) == ("a b.txt", "/sdcard/Probe/a b.txt", 5)
    assert found.change_time.year == 2023


@WORLD("app_snapshot.save_snapshot", "app_snapshot.restore_snapshot", "app_snapshot.clear_snapshot")
def _(d: Device, c: Any) -> None:
    d.shell(f"mkdir -p /data/data/{SETTINGS}/databases; echo kept > /data/data/{SETTINGS}/databases/a.db")
    app_snapshot.save_snapshot("settings", d)
    d.shell(f"echo changed > /data/data/{SETTINGS}/databases/a.db")
    app_snapshot.restore_snapshot("settings", d)
    assert d.shell(f"cat /data/data/{SETTINGS}/databases/a.db") == "kept\n"
    app_snapshot.clear_snapshot("settings", d)
    assert d.shell(f"ls /data/data/android_world/snapshots/{SETTINGS}") == ""


@WORLD("user_data_generation.generate_noise_files", "user_data_generation.clear_device_storage")
def _(d: Device, c: Any) -> None:
    user_data_generation.generate_noise_files("note.txt", "/storage/emulated/0/Documents", d, ["noise.txt"], n=3)
    assert ".txt" in d.shell("ls /sdcard/Documents")
    d.shell("echo x > /sdcard/Download/a.pdf")
    user_data_generation.clear_device_storage(SimpleNamespace(controller=c))
    assert d.shell("find /sdcard/ -type f") == ""


@WORLD("user_data_generation.write_to_gallery", "user_data_generation.write_to_markor")
def _(d: Device, c: Any) -> None:
    env = SimpleNamespace(controller=c)
    user_data_generation.write_to_gallery("text", "picture.jpg", env)
    user_data_generation.write_to_markor("text", "note.md", env)
    assert "picture.jpg" in d.shell("ls /sdcard/DCIM")
    assert d.shell("cat /storage/emulated/0/Documents/Markor/note.md") == "text"


@WORLD("user_data_generation.write_mp3_file_to_device", "user_data_generation.write_video_file_to_device")
def _(d: Device, c: Any) -> None:
    env = SimpleNamespace(controller=c)
    user_data_generation.write_mp3_file_to_device("/sdcard/Music/song.mp3", env)
    user_data_generation.write_video_file_to_device("film.mp4", "/sdcard/Movies", env)
    listed = d.shell("content query --uri content://media/external/file --projection _display_name")
    assert "song.mp3" in listed and "film.mp4" in listed


# --- databases -----------------------------------------------------------------------------------------------------

DATABASE = "/data/data/com.example/databases/probe.db"


@dataclass(frozen=True)
class Row:
    name: str
    id: int = -1


def _pushed_database(d: Device) -> None:
    with tempfile.TemporaryDirectory() as folder:
        connection = sqlite3.connect(f"{folder}/probe.db")
        connection.execute("CREATE TABLE things (name TEXT, id INTEGER PRIMARY KEY)")
        connection.execute("INSERT INTO things VALUES ('one', 1)")
        connection.commit()
        connection.close()
        file_utils.copy_data_to_device(f"{folder}/probe.db", DATABASE, d)


@WORLD("sqlite_utils.get_rows_from_remote_device", "sqlite_utils.table_exists")
def _(d: Device, c: Any) -> None:
    _pushed_database(d)
    env = SimpleNamespace(controller=c)
    assert sqlite_utils.get_rows_from_remote_device("things", DATABASE, Row, env) == [Row("one", 1)]
    assert sqlite_utils.table_exists("things", DATABASE, env)


@WORLD("sqlite_utils.insert_rows_to_remote_db", "sqlite_utils.delete_all_rows_from_table")
def _(d: Device, c: Any) -> None:
    _pushed_database(d)
    env = SimpleNamespace(controller=c)
    sqlite_utils.insert_rows_to_remote_db([Row("two")], "id", "things", DATABASE, "settings", env)
    assert d.shell(f"sqlite3 {DATABASE} 'SELECT name FROM things'") == "one\ntwo\n"
    sqlite_utils.delete_all_rows_from_table("things", DATABASE, env, "settings")
    assert sqlite_utils.get_rows_from_remote_device("things", DATABASE, Row, env) == []


def main() -> None:
    device = Device()
    controller = android_world_controller.AndroidWorldController(
        device, android_world_controller.A11yMethod.UIAUTOMATOR
    )
    started = time.monotonic()
    outcomes = {p.program: p.run(device, controller, before=lambda: device.shell("sim reset")) for p in (ENV, WORLD)}
    print(f"{time.monotonic() - started:.0f} s", file=sys.stderr)
    for program, of in outcomes.items():
        print(program, dumped(of), sep="\t")


if __name__ == "__main__":
    main()
