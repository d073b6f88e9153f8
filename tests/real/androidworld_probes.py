"""AndroidEnv's and AndroidWorld's own controllers on a served phone, each call with the effect it must have.

Runs in AndroidWorld's environment, which has neither this package nor pytest; `test_androidworld_controllers.py`
starts it with the phone's address in the environment variables. Prints the outcomes as JSON, one line for each call.
"""

from __future__ import annotations

import datetime
import json
import os
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path += sys.argv[1:]  # the checkout, unless AndroidWorld is installed

from android_env.components import adb_call_parser, adb_controller, config_classes, errors  # noqa: E402
from android_env.proto import adb_pb2  # noqa: E402
from android_world.env import actuation, android_world_controller, json_action, representation_utils, tools  # noqa: E402
from android_world.env import adb_utils as u  # noqa: E402
from android_world.task_evals.utils import sqlite_utils  # noqa: E402
from android_world.task_evals.utils import user_data_generation as user_data  # noqa: E402
from android_world.utils import app_snapshot, datetime_utils  # noqa: E402
from android_world.utils import contacts_utils as contacts  # noqa: E402
from android_world.utils import file_utils as files  # noqa: E402

WORLD = "AndroidWorld's controllers"
SETTINGS, NOTES, LAUNCHER = "com.android.settings", "com.android.notes", "com.android.launcher"
R = adb_pb2.AdbRequest
OK = adb_pb2.AdbResponse.Status.OK
SYSTEM = R.SettingsRequest.Namespace.SYSTEM


class Device:
    """What AndroidWorld calls an environment, as far as adb goes: AndroidEnv's parser on AndroidEnv's controller.

    AndroidEnv restarts the adb server after every command that fails. The phone was made known to the server by hand,
    so that is left out.
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


d = Device()
c = android_world_controller.AndroidWorldController(d, android_world_controller.A11yMethod.UIAUTOMATOR)
env = SimpleNamespace(controller=c)


@contextmanager
def probe(program: str, calls: str, reason: str = "") -> Iterator[None]:
    """Prints what comes of a block that asserts the effect of calls (with commas between them) on a fresh phone.

    With a `reason` why calls have no use on this phone, the block asserts that they are refused cleanly.
    """
    shell("sim reset")
    error = ""
    try:
        yield
    except Exception as failure:  # the outcome of this block; the next ones are still tried
        error = " ".join(f"{type(failure).__name__}: {failure}".split())[:300]
    for call in calls.split(", "):
        print(json.dumps({"program": program, "call": call, "reason": reason, "error": error}))


def shell(line: str) -> str:
    return u.issue_generic_request(["shell", line], d).generic.output.decode()


def ask(**command: Any) -> Any:
    """AndroidEnv's response to a request, which must be OK."""
    response = d.parser.parse(R(**command))
    assert response.status == OK, response
    return response


def front() -> str:
    """The activity on the screen."""
    return ask(get_current_activity=R.GetCurrentActivity()).get_current_activity.full_activity


def texts() -> list[str]:
    return [text for e in c.get_ui_elements() for text in (e.text, e.content_description) if text]


def place(text: str) -> tuple[int, int]:
    element = next(e for e in c.get_ui_elements() if text in (e.text, e.content_description))
    x, y = element.bbox_pixels.center
    return int(x), int(y)


def act(kind: str, **fields: Any) -> None:
    action = json_action.JSONAction(action_type=kind, **fields)
    actuation.execute_adb_action(action, c.get_ui_elements(), c.device_screen_size, d)


def fails(call: Any, *arguments: Any) -> str:
    try:
        call(*arguments)
    except (errors.AdbControllerError, ValueError) as error:
        return str(error)
    raise AssertionError("did not fail")


NEW_CONTACT = "am start -a android.intent.action.INSERT -t vnd.android.cursor.dir/contact"
OPEN_SETTINGS = f"am start {SETTINGS}/.Settings"
PEOPLE = "; ".join(f"content insert --uri content://contacts/people --bind first:s:Person{i}" for i in range(30))
LONG_LIST = f"{PEOPLE}; am start com.android.contacts/.activities.PeopleActivity"
FOLDER = "mkdir -p /sdcard/Held; echo x > /sdcard/Held/a.txt; am start com.android.documentsui/.files.FilesActivity"
"""The Files app with a folder that a long press opens a menu for."""
LIST_NOTES, LIST_CALLS = (f"content query --uri content://{at}" for at in ("notes/notes", "call_log/calls"))
HEADS_UP = "settings get global heads_up_notifications_enabled"
NOTHING = "No result found."
ODD_TEXT = 'it\'s $5; (a|b) & "c" #1'

# --- one line each ---------------------------------------------------------------------------------------------------

EFFECTS = [
    # call, line for the phone's shell before it, the call, where its effect shows (a line or a function), the effect
    ("tap_screen", "", lambda: u.tap_screen(*place("Settings"), d), front, SETTINGS),
    ("double_tap", "", lambda: u.double_tap(*place("Notes"), d), front, NOTES),
    ("long_press", FOLDER, lambda: u.long_press(*place("Held"), d), texts, "Rename"),
    ("press_home_button", OPEN_SETTINGS, lambda: u.press_home_button(d), front, LAUNCHER),
    ("press_back_button", OPEN_SETTINGS, lambda: u.press_back_button(d), front, LAUNCHER),
    ("press_keyboard_generic", NEW_CONTACT, lambda: u.press_keyboard_generic("KEYCODE_A", d), texts, "a"),
    ("type_text", NEW_CONTACT, lambda: u.type_text(ODD_TEXT, d, timeout_sec=10), texts, ODD_TEXT),
    ("start_activity", "", lambda: u.start_activity(u.get_adb_activity("settings"), None, d), front, SETTINGS),
    ("get_current_activity", OPEN_SETTINGS, None, lambda: u.get_current_activity(d)[0], f"{SETTINGS}.Settings"),
    ("launch_app", "", lambda: u.launch_app("contacts", d), front, "com.android.contacts"),
    ("close_app", OPEN_SETTINGS, lambda: u.close_app("settings", d), front, LAUNCHER),
    ("close_recents", OPEN_SETTINGS, lambda: u.close_recents(d), front, LAUNCHER),
    ("get_all_package_names", "", None, lambda: u.get_all_package_names(d), "ca.zgrs.clipper"),
    ("get_all_apps", "", None, lambda: u.get_all_apps(d), "clipper"),
    ("get_api_level", "", None, lambda: [u.get_api_level(d)], 33),
    ("toggle_wifi", "", lambda: u.toggle_wifi(d, "off"), "settings get global wifi_on", "0"),
    ("toggle_bluetooth", "", lambda: u.toggle_bluetooth(d, "on"), "settings get global bluetooth_on", "1"),
    ("set_brightness", "", lambda: u.set_brightness("max", d), "settings get system screen_brightness", "255"),
    ("clear_app_data", "", lambda: u.clear_app_data(NOTES, d), LIST_NOTES, NOTHING),
    ("toggle_airplane_mode", "", lambda: u.toggle_airplane_mode("on", d), "settings get global airplane_mode_on", "1"),
    ("check_airplane_mode", "", None, lambda: [u.check_airplane_mode(d)], False),
    ("get_orientation", "", None, lambda: [u.get_orientation(d)], 0),
    ("change_orientation", "", lambda: u.change_orientation("landscape", d), lambda: [u.get_orientation(d)], 1),
    ("grant_permissions", "", lambda: u.grant_permissions(NOTES, "android.permission.CAMERA", d), front, LAUNCHER),
    ("call_phone_number", "", lambda: u.call_phone_number(d, "5550102"), lambda: [u.get_call_state(d)], "OFFHOOK"),
    ("delete_contacts", "", lambda: u.delete_contacts(d), lambda: [contacts.list_contacts(d)], []),
    ("set_root_if_needed", "", None, lambda: u.set_root_if_needed(d).generic.output.decode(), "root"),
    ("disable_headsup_notifications", "", lambda: u.disable_headsup_notifications(d), HEADS_UP, "0"),
    ("enable_headsup_notifications", "", lambda: u.enable_headsup_notifications(d), HEADS_UP, "1"),
    (
        "actuation double_tap",
        "",
        lambda: act("double_tap", **dict(zip("xy", place("Notes"), strict=True))),
        front,
        NOTES,
    ),
    ("actuation navigate_home", OPEN_SETTINGS, lambda: act("navigate_home"), front, LAUNCHER),
    ("actuation navigate_back", OPEN_SETTINGS, lambda: act("navigate_back"), front, LAUNCHER),
    ("actuation open_app", "", lambda: act("open_app", app_name="settings"), front, SETTINGS),
    ("actuation wait", "", lambda: act("wait"), front, LAUNCHER),
    ("actuation swipe", OPEN_SETTINGS, lambda: act("swipe", direction="up"), front, LAUNCHER),
    ("actuation.find_and_click_element", "", lambda: actuation.find_and_click_element("Settings", c), front, SETTINGS),
]


def try_effects() -> None:
    for call, before, work, where, effect in EFFECTS:
        with probe(WORLD, call):
            if before:
                shell(before)
            if work:
                work()
            found = shell(where) if isinstance(where, str) else where()
            assert effect in found, found


# --- AndroidWorld: the screen, calls and messages --------------------------------------------------------------------


def try_screen() -> None:
    with probe(WORLD, "press_enter_button, issue_generic_request, check_ok"):
        shell(NEW_CONTACT)
        assert u.press_enter_button(d).status == OK
        u.check_ok(u.issue_generic_request("shell getprop ro.build.version.sdk", d))
    with probe(WORLD, "generate_swipe_command, generate_drag_and_drop_command"):
        shell(LONG_LIST)
        before = texts()
        u.issue_generic_request(u.generate_swipe_command(540, 1800, 540, 900, 300), d)
        after = texts()
        u.issue_generic_request(u.generate_swipe_command(540, 900, 540, 1800), d)
        assert after != before == texts()
        u.issue_generic_request(u.generate_drag_and_drop_command(540, 1800, 540, 900, 4000), d)
        assert texts() != before
    with probe(WORLD, "send_android_intent"):
        extras = {"name": "Ada Lovelace", "phone": "12345"}
        insert, contact = "android.intent.action.INSERT", "vnd.android.cursor.dir/contact"
        u.send_android_intent("start", insert, d, mime_type=contact, extras=extras)
        assert {"Ada", "Lovelace", "12345"} <= set(texts())
    with probe(WORLD, "set_clipboard_contents, get_clipboard_contents"):
        shell(OPEN_SETTINGS)
        u.set_clipboard_contents("two words", d)
        assert u.get_clipboard_contents(d) == "two words" and front().startswith(SETTINGS)
    with probe(WORLD, "get_screen_size, set_screen_size, get_logical_screen_size, get_physical_frame_boundary"):
        assert u.get_screen_size(d) == (1080, 2400) == u.get_logical_screen_size(d)
        u.set_screen_size(720, 1600, d)
        assert u.get_logical_screen_size(d) == (720, 1600)
        shell("wm size reset")
        u.change_orientation("landscape", d)
        assert u.get_logical_screen_size(d) == (2400, 1080)
        assert u.get_physical_frame_boundary(d) == (0, 0, 1080, 2400)
    with probe(WORLD, "uiautomator_dump"):
        elements = representation_utils.xml_dump_to_ui_elements(u.uiautomator_dump(d))
        assert any(e.text == "Settings" and e.is_clickable for e in elements)
    names = ("get_ui_elements", "device_screen_size", "logical_screen_size")
    with probe(WORLD, ", ".join(f"AndroidWorldController.{name}" for name in names)):
        assert "Settings" in texts() and c.device_screen_size == (1080, 2400) == c.logical_screen_size
    forwarder = "needs AndroidEnv's accessibility forwarder, which is an APK"
    with probe(WORLD, "AndroidWorldController.get_a11y_forest", forwarder):
        assert "com.google.androidenv.accessibilityforwarder" not in u.get_all_package_names(d)
    with probe(WORLD, "actuation click"):
        act("click", index=next(i for i, e in enumerate(c.get_ui_elements()) if e.text == "Settings"))
        assert front().startswith(SETTINGS)
    with probe(WORLD, "actuation input_text, actuation keyboard_enter"):
        shell(NEW_CONTACT)
        for text in ("first", "second"):
            fields = (i for i, e in enumerate(c.get_ui_elements()) if e.class_name == "android.widget.EditText")
            act("input_text", text=text, index=next(fields), clear_text=True)
        assert "second" in texts() and "firstsecond" not in texts()
        act("keyboard_enter")
    with probe(WORLD, "actuation scroll"):
        shell(LONG_LIST)
        before = texts()
        act("scroll", direction="down")
        assert texts() != before
        act("scroll", direction="up")
        assert texts() == before
    with probe(WORLD, "actuation long_press"):
        shell(FOLDER)
        x, y = place("Held")
        act("long_press", x=x, y=y)
        assert "Rename" in texts()
    for kind in ("change_orientation", "launch_adb_activity", "drag_and_drop", "press_keyboard"):
        with probe(WORLD, f"actuation {kind}", "AndroidWorld's `JSONAction` takes no such action at this commit"):
            assert kind in fails(json_action.JSONAction, kind)
    with probe(WORLD, "AndroidToolController.click_element"):
        tools.AndroidToolController(c).click_element("Settings")
        assert front().startswith(SETTINGS)
    with probe(WORLD, "AndroidToolController.open_web_page", "there is no browser: the intent cannot be resolved"):
        tools.AndroidToolController(c).open_web_page("example.com")
        assert front().startswith(LAUNCHER)
    with probe(WORLD, "AndroidToolController.send_sms", "knows the buttons of two other messaging apps only"):
        assert "com.android.messaging" in fails(tools.AndroidToolController(c).send_sms, "5550105", "Hello there")
        assert "Hello there" in texts()


def try_telephony() -> None:
    with probe(WORLD, "get_call_state, call_emulator, end_call_if_active"):
        assert u.get_call_state(d) == "IDLE"
        u.call_emulator(d, "+1 555-0101")
        assert u.get_call_state(d) == "RINGING" and "+15550101" in texts()
        u.end_call_if_active(d)
        assert u.get_call_state(d) == "IDLE" and "+15550101" not in texts()
    with probe(WORLD, "clear_android_emulator_call_log"):
        u.call_phone_number(d, "5550102")
        u.end_call_if_active(d)
        assert "number=5550102" in shell(LIST_CALLS)
        u.clear_android_emulator_call_log(d)
        assert NOTHING in shell(LIST_CALLS)
    with probe(WORLD, "text_emulator"):
        u.text_emulator(d, "+15550103", "Hello, you")
        row = shell("content query --uri content://sms/inbox").splitlines()[0]
        assert "address=+15550103, " in row and "body=Hello, you, " in row
        assert abs(int(row.split(" date=")[1].split(",")[0]) / 1000 - int(shell("date +%s"))) < 300
    with probe(WORLD, "contacts_utils.add_contact, contacts_utils.list_contacts, contacts_utils.clear_contacts"):
        contacts.clear_contacts(c)
        assert contacts.list_contacts(c) == []
        contacts.add_contact("Ada Lovelace", "+1-555-0104", c, ui_delay_sec=0.1)
        assert contacts.list_contacts(c) == [contacts.Contact("Ada Lovelace", "15550104")]


# --- AndroidWorld: settings, files and databases ---------------------------------------------------------------------


def try_settings() -> None:
    with probe(WORLD, "put_settings, get_all_settings"):
        u.put_settings(SYSTEM, "font_scale", "1.3", d)
        found = u.get_all_settings(d)
        assert found["font_scale"] == "1.3" and "wifi_on" in found and "zen_duration" not in found
    with probe(WORLD, "set_default_app"):
        u.set_default_app("sms_default_application", "com.android.messaging", d)
        assert shell("settings get secure sms_default_application").strip() == "com.android.messaging"
    with probe(WORLD, "datetime_utils.setup_datetime, datetime_utils.toggle_auto_settings"):
        datetime_utils.setup_datetime(d)
        assert shell("settings get global auto_time; settings get system time_12_24").split() == ["0", "24"]
    with probe(WORLD, "datetime_utils.set_datetime, datetime_utils.advance_system_time"):
        datetime_utils.set_datetime(d, datetime.datetime(2023, 10, 20, 8, 30))
        datetime_utils.advance_system_time(datetime.timedelta(days=2, hours=1), d)
        assert shell("date '+%Y-%m-%d %H:%M'").strip() == "2023-10-22 09:30"
    with probe(WORLD, "install_apk", "the phone runs no APKs"), tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "a.apk").write_bytes(b"PK\3\4" + bytes(1000))
        assert "NO_MATCHING_ABIS" in fails(u.install_apk, f"{folder}/a.apk", d)


def try_files() -> None:
    box = "mkdir -p /sdcard/Box/in; echo x > '/sdcard/Box/a b.txt'; echo y > /sdcard/Box/in/c.txt"
    with probe(WORLD, "file_utils.create_file, file_utils.check_file_content, file_utils.remove_single_file"):
        content = 'It\'s "quoted" $HOME; line'
        files.create_file("note.md", "/sdcard/Box", d, content)
        assert files.check_file_content("/sdcard/Box/note.md", content + "\n", d, exact_match=True)
        files.remove_single_file("note.md", "/sdcard/Box", d)
        assert not files.check_file_exists("/sdcard/Box/note.md", d)
    names = ("mkdir", "check_file_exists", "check_directory_exists", "check_file_or_folder_exists")
    with probe(WORLD, ", ".join(f"file_utils.{name}" for name in names)):
        shell(box)
        files.mkdir("/sdcard/Box/more", d)
        assert files.check_directory_exists("/sdcard/Box/more", d)
        assert files.check_file_exists("/sdcard/Box/in/c.txt", d) and not files.check_file_exists("/sdcard/Box/in", d)
        assert files.check_file_or_folder_exists("in", "/sdcard/Box", d)
        assert not files.check_file_or_folder_exists("out", "/sdcard/Box", d)
    with probe(WORLD, "file_utils.copy_dir, file_utils.clear_directory"):
        shell(box)
        files.copy_dir("/sdcard/Box", "/sdcard/Copy", d)
        files.clear_directory("/sdcard/Box", d)
        assert shell("ls /sdcard/Box; cat '/sdcard/Copy/a b.txt' /sdcard/Copy/in/c.txt") == "x\ny\n"
    with probe(WORLD, "file_utils.tmp_directory_from_device, file_utils.tmp_file_from_device"):
        shell(box)
        with files.tmp_directory_from_device("/sdcard/Box", d) as folder:
            assert (Path(folder) / "a b.txt").read_text() == "x\n"
        with files.tmp_file_from_device("/sdcard/Box/in/c.txt", d) as file:
            assert Path(file).read_text() == "y\n"
    with (
        probe(WORLD, "file_utils.copy_file_to_device, file_utils.copy_data_to_device"),
        tempfile.TemporaryDirectory() as folder,
    ):
        (Path(folder) / "it's a.txt").write_text("one")
        assert files.copy_data_to_device(f"{folder}/it's a.txt", "/sdcard/Download", d).status == OK
        files.copy_data_to_device(folder, "/sdcard/Pictures", d)
        assert shell('cat "/sdcard/Download/it\'s a.txt" "/sdcard/Pictures/it\'s a.txt"') == "oneone"
    with probe(WORLD, "file_utils.get_file_list_with_metadata"):
        shell(box)
        [found] = files.get_file_list_with_metadata("/sdcard/Box", d)
        assert (found.file_name, found.full_path, found.file_size) == ("a b.txt", "/sdcard/Box/a b.txt", 2)
        assert found.change_time.year == 2023
    with probe(WORLD, "app_snapshot.save_snapshot, app_snapshot.restore_snapshot, app_snapshot.clear_snapshot"):
        kept = f"/data/data/{SETTINGS}/databases/a.db"
        shell(f"mkdir -p {os.path.dirname(kept)}; echo kept > {kept}")
        app_snapshot.save_snapshot("settings", d)
        shell(f"echo changed > {kept}")
        app_snapshot.restore_snapshot("settings", d)
        assert shell(f"cat {kept}") == "kept\n"
        app_snapshot.clear_snapshot("settings", d)
        assert shell(f"ls /data/data/android_world/snapshots/{SETTINGS}") == ""
    with probe(WORLD, "user_data_generation.generate_noise_files, user_data_generation.clear_device_storage"):
        user_data.generate_noise_files("note.txt", "/storage/emulated/0/Documents", d, ["noise.txt"], n=3)
        assert ".txt" in shell("ls /sdcard/Documents")
        user_data.clear_device_storage(env)
        assert shell("find /sdcard/ -type f") == ""
    writers = ("write_to_gallery", "write_to_markor", "write_mp3_file_to_device", "write_video_file_to_device")
    with probe(WORLD, ", ".join(f"user_data_generation.{name}" for name in writers)):
        user_data.write_to_gallery("text", "picture.jpg", env)
        user_data.write_to_markor("text", "note.md", env)
        user_data.write_mp3_file_to_device("/sdcard/Music/song.mp3", env)
        user_data.write_video_file_to_device("film.mp4", "/sdcard/Movies", env)
        assert shell("cat /storage/emulated/0/Documents/Markor/note.md") == "text"
        listed = shell("ls /sdcard/DCIM; content query --uri content://media/external/file --projection _display_name")
        assert all(name in listed for name in ("picture.jpg", "song.mp3", "film.mp4"))


@dataclass(frozen=True)
class Row:
    name: str
    id: int = -1


def try_databases() -> None:
    database = "/data/data/com.example/databases/probe.db"
    with probe(WORLD, "execute_sql_command"):
        shell(f"mkdir -p {os.path.dirname(database)}")
        u.execute_sql_command(database, "CREATE TABLE t (a); INSERT INTO t VALUES ('x');", d)
        assert u.execute_sql_command(database, "SELECT a FROM t;", d).generic.output == b"x\n"
    with (
        probe(WORLD, "AndroidWorldController.pull_file, AndroidWorldController.push_file"),
        tempfile.TemporaryDirectory() as folder,
    ):
        (Path(folder) / "x.db").write_bytes(b"new")
        shell(f"mkdir -p {os.path.dirname(database)}; echo old > {database}-wal")
        c.push_file(f"{folder}/x.db", database)
        with c.pull_file(database) as pulled:
            assert os.listdir(pulled) == ["probe.db"] and (Path(pulled) / "probe.db").read_bytes() == b"new"
    names = ("get_rows_from_remote_device", "table_exists", "insert_rows_to_remote_db", "delete_all_rows_from_table")
    with probe(WORLD, ", ".join(f"sqlite_utils.{name}" for name in names)), tempfile.TemporaryDirectory() as folder:
        connection = sqlite3.connect(f"{folder}/probe.db")
        connection.execute("CREATE TABLE things (name TEXT, id INTEGER PRIMARY KEY)")
        connection.close()
        files.copy_data_to_device(f"{folder}/probe.db", database, d)
        assert sqlite_utils.table_exists("things", database, env)
        sqlite_utils.insert_rows_to_remote_db([Row("one")], "id", "things", database, "settings", env)
        assert sqlite_utils.get_rows_from_remote_device("things", database, Row, env) == [Row("one", 1)]
        sqlite_utils.delete_all_rows_from_table("things", database, env, "settings")
        assert shell(f"sqlite3 {database} 'SELECT name FROM things'") == ""


if __name__ == "__main__":
    try_effects()
    try_screen()
    try_telephony()
    try_settings()
    try_files()
    try_databases()
