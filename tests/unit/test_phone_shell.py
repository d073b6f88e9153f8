"""The shell's commands and the system's own screens: formats and errors as on a real device."""

from __future__ import annotations

import base64
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mobilerl.envs.base import InfraError, Transport
from mobilerl.envs.phone.apps.catalogue import APPS
from mobilerl.envs.phone.apps.launcher import Launcher
from mobilerl.envs.phone.apps.notes import Notes
from mobilerl.envs.phone.console import Console
from mobilerl.envs.phone.phone import Phone
from mobilerl.envs.phone.shell import Shell
from mobilerl.envs.phone.tasks.base import parse_rows
from mobilerl.envs.phone.transport import InProcessTransport

SETTINGS, CONTACTS, NOTES, LAUNCHER = (f"com.android.{n}" for n in ("settings", "contacts", "notes", "launcher"))
TOP, BOTTOM = "input swipe 180 5 180 400", "input swipe 180 715 180 300"


@pytest.fixture
def shell() -> Shell:
    return Shell(Phone(APPS))


def out(shell: Shell, command: str | list[str]) -> str:
    result = shell.run(command)
    assert (result.exit_code, result.stderr) == (0, b""), (command, result)
    return result.stdout.decode()


def texts(shell: Shell) -> list[str]:
    return [t for t in re.findall(r' text="([^"]*)"', out(shell, "uiautomator dump /dev/tty")) if t]


def tap(shell: Shell, text: str) -> None:
    xml = out(shell, "uiautomator dump /dev/tty")
    box = re.search(rf'(?:text|content-desc)="{re.escape(text)}".*?bounds="\[(\d+),(\d+)\]\[(\d+),(\d+)\]"', xml)
    assert box, f"{text!r} is not on the screen: {texts(shell)}"
    left, top, right, bottom = map(int, box.groups())
    out(shell, f"input tap {(left + right) // 2} {(top + bottom) // 2}")


def front(shell: Shell) -> str:
    match = re.search(r"topResumedActivity=\S+ u0 (\S+)/", out(shell, "dumpsys activity activities"))
    assert match
    return match[1]


def test_text_input(shell):
    shell.phone.launch(NOTES)
    shell.phone.foreground.go("edit", focus="title")
    fields = shell.phone.foreground.page.fields
    assert out(shell, ["input", "text", "two%swords"]) == "" and fields["title"] == "two words"
    assert shell.run(["input", "text", "é"]).exit_code == 255
    out(shell, "am broadcast -a ADB_CLEAR_TEXT")
    message = base64.b64encode("é ; $(x) 漢".encode()).decode()
    out(shell, ["am", "broadcast", "-a", "ADB_INPUT_B64", "--es", "msg", message])
    assert fields["title"] == "é ; $(x) 漢"
    assert shell.run("am broadcast -a ADB_INPUT_B64 --es msg é").exit_code == 255


def test_content(shell):
    uri = "--uri content://notes/notes"
    out(shell, f"content delete {uri}")
    out(shell, f"content insert {uri} --bind 'title:s:a, b: c' --bind body:s:x --bind pinned:i:1")
    out(shell, f"content insert {uri} --bind title:s:second")
    assert out(shell, f"content query {uri}") == (
        "Row: 0 _id=1, title=a, b: c, body=x, pinned=1\nRow: 1 _id=2, title=second, body=, pinned=0\n"
    )
    where = "--where \"title='second'\" --projection _id:pinned"
    assert out(shell, f"content query {uri} {where}") == "Row: 0 _id=2, pinned=0\n"
    assert out(shell, f"content update {uri}/2 --bind pinned:i:1") == ""
    out(shell, f"content delete {uri} --where '_id=1 AND pinned=1'")
    assert parse_rows(out(shell, f"content query {uri}")) == [{"_id": 2, "title": "second", "body": "", "pinned": 1}]


@pytest.mark.parametrize(
    "words",
    [
        "query --uri content://notes/x",
        "query --uri content://notes/notes --where '1=1 OR 2'",
        "insert --uri content://notes/notes --bind pinned:i:one",
    ],
)
def test_bad_content_is_refused_and_changes_nothing(words, shell):
    before = [dict(r) for r in shell.phone.apps[NOTES].db["notes"]]
    result = shell.run(f"content {words}")
    assert result.exit_code != 0 and result.stderr
    assert shell.phone.apps[NOTES].db["notes"] == before


@given(title=st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20).filter(lambda t: "=" not in t))
def test_any_text_survives_insert_and_query(title):
    shell = Shell(Phone((Launcher, Notes)))
    out(shell, ["content", "delete", "--uri", "content://notes/notes"])
    out(shell, ["content", "insert", "--uri", "content://notes/notes", "--bind", f"title:s:{title}"])
    assert shell.phone.apps[NOTES].db["notes"][0]["title"] == title
    row = parse_rows(out(shell, ["content", "query", "--uri", "content://notes/notes"]))[0]
    assert str(row["title"]) == title


def test_files_in_androidworlds_format(shell):
    out(shell, "mkdir -p /sdcard/Box/deep; echo hi > /storage/emulated/0/Box/a.txt")
    listed = " u0_a139 media_rw    3 2023-10-15 15:34:00.000000000 +0000 a.txt\n"
    assert listed in out(shell, "ls /sdcard/Box -ll -au")
    out(shell, "cp -a /sdcard/Box/. /sdcard/Case; rm -r /sdcard/Box/*")
    assert out(shell, "ls /sdcard/Box; cat /sdcard/Case/a.txt") == "hi\n"


def test_raw_images_have_16_bytes_of_header_and_4_bytes_a_pixel(shell):
    assert len(shell.run("screencap").stdout) == 16 + 4 * 360 * 720


def test_transport(shell):
    transport = InProcessTransport(shell.phone, "sim-7")
    assert isinstance(transport, Transport)
    transport.push(b"\x00\xff", "/sdcard/a.bin")
    assert transport.pull("/storage/emulated/0/a.bin") == b"\x00\xff" == transport.exec_out(("cat", "/sdcard/a.bin"))
    with pytest.raises(InfraError, match="sim-7: cannot pull /sdcard/no"):
        transport.pull("/sdcard/no")
    with pytest.raises(InfraError, match="Read-only"):
        transport.push(b"", "/system/x")


def test_a_swipe_from_the_top_edge_opens_the_shade_over_the_app(shell):
    out(shell, f"am start -n {SETTINGS}/.Settings")
    out(shell, "content insert --uri content://sms/messages --bind address:s:Ada --bind body:s:Nine? --bind read:i:0")
    out(shell, TOP)
    assert {"Bluetooth", "Ada", "Nine?"} <= set(texts(shell)) and "NotificationShade" in out(shell, "dumpsys window")
    assert front(shell) == SETTINGS  # the shade covers the app and does not replace it
    tap(shell, "Bluetooth")
    assert out(shell, "settings get global bluetooth_on") == "1\n"
    out(shell, "input keyevent BACK")
    assert "Connected devices" in texts(shell) and front(shell) == SETTINGS


def test_a_swipe_from_the_bottom_edge_goes_home_and_a_slow_one_lists_the_recent_apps(shell):
    for package in (SETTINGS, NOTES, CONTACTS):
        out(shell, f"monkey -p {package} 1")
    out(shell, BOTTOM + " 300")
    assert front(shell) == LAUNCHER
    out(shell, BOTTOM + " 1000")
    assert [t for t in texts(shell) if t in ("Settings", "Notes", "Contacts")] == ["Contacts", "Notes", "Settings"]
    tap(shell, "Notes")
    assert front(shell) == NOTES
    out(shell, "input keyevent KEYCODE_APP_SWITCH KEYCODE_APP_SWITCH")
    assert front(shell) == CONTACTS  # twice: the app used before
    out(shell, "input keyevent 187")
    tap(shell, "Clear all")
    assert front(shell) == LAUNCHER and not shell.phone.running()


@pytest.mark.parametrize(
    ("words", "package", "text"),
    [
        (f"-n {SETTINGS}/.Settings", SETTINGS, "Connected devices"),
        ("-a android.settings.WIFI_SETTINGS", SETTINGS, "Wi-Fi networks"),
        ("-a android.intent.action.VIEW -d content://contacts/people/", CONTACTS, "Contacts"),
        ("-a android.intent.action.INSERT -t vnd.android.cursor.dir/contact -e name Ada", CONTACTS, "Ada"),
        ("-a android.intent.action.CALL -d tel:5550101", "com.android.dialer", "5550101"),
    ],
)
def test_intents(shell, words, package, text):
    assert out(shell, f"am start -W {words}").startswith("Starting: Intent { ")
    assert front(shell) == package and text in texts(shell)


def test_the_activity_of_an_icon_is_resolved_and_monkey_releases_the_rotation(shell):
    resolve = "cmd package resolve-activity --brief"
    first = "priority=0 preferredOrder=0 match=0x108000 specificIndex=-1 isDefault=true\n"
    category = "-a android.intent.action.MAIN -c android.intent.category"
    assert out(shell, f"{resolve} {SETTINGS}") == f"{first}{SETTINGS}/.Settings\n"
    assert out(shell, f"{resolve} {category}.LAUNCHER {NOTES}") == f"{first}{NOTES}/.MainActivity\n"
    assert out(shell, f"{resolve} {category}.HOME").splitlines()[1].startswith(f"{LAUNCHER}/")
    assert f"name={SETTINGS}.Settings\n" in out(shell, f"pm resolve-activity {SETTINGS}")
    for package in ("com.none.app", "com.android.shell", LAUNCHER):
        assert out(shell, f"{resolve} {category}.LAUNCHER {package}") == "No activity found\n"
    out(shell, f"am start -n {NOTES}/.MainActivity")
    assert out(shell, "settings get system accelerometer_rotation") == "0\n"
    out(shell, f"monkey -p {SETTINGS} 1")
    assert out(shell, "settings get system accelerometer_rotation") == "1\n"


def test_calls(shell):
    console = Console(shell.phone, exclusive=None)
    console._run("gsm call 5550101")
    assert "mCallState=1" in out(shell, "dumpsys telephony.registry") and "Incoming call" in texts(shell)
    tap(shell, "Answer")
    assert "mCallState=2" in out(shell, "dumpsys telephony.registry")
    out(shell, "input keyevent KEYCODE_ENDCALL")
    assert "mCallState=0" in out(shell, "dumpsys telephony.registry") and front(shell) == LAUNCHER
    assert "number=5550101, " in out(shell, "content query --uri content://call_log/calls")


def test_androids_providers_show_the_data_of_the_apps(shell):
    out(shell, "content delete --uri content://contacts/people")
    out(shell, "content insert --uri content://contacts/people --bind first:s:Ada --bind last:s:Lovelace")
    assert out(shell, "content query --uri content://contacts/phones/") == "No result found.\n"
    out(shell, "content update --uri content://contacts/people/1 --bind phone:s:12345")
    assert out(shell, "content query --uri content://contacts/phones/ --projection display_name:number") == (
        "Row: 0 display_name=Ada Lovelace, number=12345\n"
    )
    out(shell, "content delete --uri content://sms")
    out(shell, "content insert --uri content://sms/messages --bind address:s:123 --bind 'body:s:a, b'")
    row = out(shell, "content query --uri content://sms/inbox")
    assert row.startswith("Row: 0 _id=1, thread_id=1, address=123, person=NULL, date=1697384040000, ")
    assert "body=a, b, " in row and out(shell, "content query --uri content://sms/sent") == "No result found.\n"
