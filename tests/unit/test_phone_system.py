"""The phone around its apps: shade, recent apps, calls, a screen that turns, and the commands that tools ask first."""

from __future__ import annotations

import io
import re
import struct

import pytest
from PIL import Image

from envs.phone import snapshots
from envs.phone.adbd import services
from envs.phone.apps.catalogue import APPS
from envs.phone.console import Console
from envs.phone.phone import Phone
from envs.phone.shell import Shell

SETTINGS, CONTACTS, NOTES, LAUNCHER = (f"com.android.{n}" for n in ("settings", "contacts", "notes", "launcher"))
TOP, BOTTOM = "input swipe 180 5 180 400", "input swipe 180 715 180 300"


@pytest.fixture
def shell() -> Shell:
    return Shell(Phone(APPS))


def out(shell: Shell, command: str) -> str:
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


# --- the shade and the recent apps -------------------------------------------------------------------------------


def test_a_swipe_from_the_top_edge_opens_the_shade_over_the_app(shell):
    out(shell, f"am start -n {SETTINGS}/.Settings")
    out(shell, "content insert --uri content://sms/messages --bind address:s:Ada --bind body:s:Nine? --bind read:i:0")
    out(shell, TOP)
    assert {"Bluetooth", "Ada", "Nine?"} <= set(texts(shell)) and "NotificationShade" in out(shell, "dumpsys window")
    assert front(shell) == SETTINGS  # the shade covers the app and does not replace it
    tap(shell, "Bluetooth")
    assert out(shell, "settings get global bluetooth_on") == "1\n"
    out(shell, TOP)
    assert "Battery Saver" in texts(shell)  # a second swipe: all quick settings
    out(shell, "input keyevent BACK")
    assert "Connected devices" in texts(shell) and front(shell) == SETTINGS


def test_a_notification_opens_its_conversation(shell):
    out(shell, "content insert --uri content://sms/messages --bind address:s:Ada --bind body:s:Nine? --bind read:i:0")
    assert "android.text=String (Nine?)" in out(shell, "dumpsys notification")
    out(shell, "cmd statusbar expand-notifications")
    tap(shell, "Ada")
    assert front(shell) == "com.android.messaging" and "Nine?" in texts(shell)
    out(shell, "cmd statusbar expand-notifications")
    assert "No notifications" in texts(shell)  # it has been read


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
    tap(shell, "Close Notes")
    assert "Notes" not in texts(shell) and not shell.phone.apps[NOTES].stack
    tap(shell, "Clear all")
    assert front(shell) == LAUNCHER and not shell.phone.running()


def test_swipes_that_start_inside_scroll_as_ever(shell):
    for i in range(20):
        out(shell, f"content insert --uri content://contacts/people --bind first:s:P{i:02}")
    out(shell, f"am start -n {CONTACTS}/.activities.PeopleActivity")
    before = texts(shell)
    out(shell, "input swipe 180 690 180 90")
    assert texts(shell) != before
    out(shell, "input swipe 180 90 180 700")
    assert texts(shell) == before
    out(shell, "input swipe 180 5 180 40")  # from the edge, and too short for anything
    assert texts(shell) == before


def test_panels_are_part_of_a_snapshot_and_typing_does_not_reach_below_them(shell):
    out(shell, "am start -a android.intent.action.INSERT -t vnd.android.cursor.dir/contact")
    out(shell, TOP)
    state, shown = snapshots.take(shell.phone), texts(shell)
    out(shell, "input text lost; input keyevent BACK")
    assert "lost" not in texts(shell) and "New contact" in texts(shell)
    snapshots.restore(shell.phone, state)
    assert texts(shell) == shown


# --- the display ---------------------------------------------------------------------------------------------------


def screenshot(shell: Shell) -> Image.Image:
    return Image.open(io.BytesIO(shell.run("screencap -p").stdout))


def test_a_turned_screen_is_laid_out_anew_and_takes_touches(shell):
    out(shell, "settings put system user_rotation 1")
    assert screenshot(shell).size == (720, 360)
    said = out(shell, "dumpsys input")
    assert "logicalFrame=[0, 0, 720, 360]" in said and "SurfaceOrientation: 1" in said
    assert '<hierarchy rotation="1">' in out(shell, "uiautomator dump /dev/tty")
    tap(shell, "Notes")
    assert front(shell) == NOTES
    tap(shell, "New note")
    keyboard_q = 0.05 * 720
    out(shell, f"input tap {keyboard_q} {360 - 20 - 220 + 30}")
    assert "q" in texts(shell)
    out(shell, "settings put system accelerometer_rotation 1")
    assert screenshot(shell).size == (360, 720)  # nobody turns the phone itself


def test_wm_changes_size_and_density(shell):
    before = texts(shell)
    out(shell, "wm size 720x1280; wm density 320")
    assert out(shell, "wm size") == "Physical size: 360x720\nOverride size: 720x1280\n"
    assert out(shell, "wm density") == "Physical density: 160\nOverride density: 320\n"
    assert screenshot(shell).size == (720, 1280) and shell.phone.size_dp == (360, 640)
    tap(shell, "Settings")
    assert front(shell) == SETTINGS
    out(shell, "wm density 240")
    assert shell.phone.size_dp == (480, 853)
    out(shell, "wm density 1000")
    assert shell.phone.size_dp[0] == 320  # as narrow as the layout goes
    out(shell, "wm size reset; wm density reset; input keyevent HOME")
    assert texts(shell) == before and screenshot(shell).size == (360, 720)
    out(shell, "wm size 10x99999")
    assert out(shell, "wm size").endswith("Override size: 200x2160\n")  # Android's own limits
    assert shell.run("wm size big").exit_code == 255 and shell.run("wm density 20").exit_code == 255


def test_a_dark_screen_is_black_and_takes_no_touches(shell):
    out(shell, "input keyevent KEYCODE_POWER")
    assert "mWakefulness=Asleep" in out(shell, "dumpsys power") and not screenshot(shell).getbbox()
    tap(shell, "Settings")
    out(shell, "input keyevent KEYCODE_WAKEUP")
    assert front(shell) == LAUNCHER and screenshot(shell).getbbox()


def test_a_finger_that_is_moved_by_hand(shell):
    for words in ("DOWN 10 10", "CANCEL 10 10", "UP 10 10"):
        out(shell, f"input motionevent {words}")
    out(shell, "input motionevent DOWN 180 5; input motionevent MOVE 180 200; input motionevent UP 180 400")
    assert "Bluetooth" in texts(shell)
    assert shell.run("input motionevent SIDEWAYS 1 1").exit_code == 255


# --- intents, calls, providers -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "package", "text"),
    [
        (f"-n {SETTINGS}/.Settings", SETTINGS, "Connected devices"),
        (f"-n {SETTINGS}/{SETTINGS}.Settings", SETTINGS, "Connected devices"),
        (f"-n {SETTINGS}/.MainActivity", SETTINGS, "Connected devices"),
        (f"{SETTINGS}/.Settings", SETTINGS, "Connected devices"),
        ("-a android.settings.WIFI_SETTINGS", SETTINGS, "Wi-Fi networks"),
        ("-a android.intent.action.VIEW -d content://contacts/people/", CONTACTS, "Contacts"),
        (
            "-a android.intent.action.SENDTO -d sms:5550101 --es sms_body 'Hi there'",
            "com.android.messaging",
            "Hi there",
        ),
        (
            "-a android.intent.action.INSERT -t vnd.android.cursor.dir/contact -e name 'Ada Lovelace'",
            CONTACTS,
            "Lovelace",
        ),
        ("-a android.intent.action.CALL -d tel:5550101", "com.android.dialer", "5550101"),
    ],
)
def test_intents(shell, words, package, text):
    assert out(shell, f"am start -W {words}").startswith("Starting: Intent { ")
    assert front(shell) == package and text in texts(shell)


def test_intents_that_nothing_answers(shell):
    for words in (
        "-a android.intent.action.VIEW -d https://example.com",
        "-a android.intent.action.VIEW -d mailto:a@b",
    ):
        result = shell.run(f"am start {words}")
        assert b"unable to resolve Intent" in result.stderr and front(shell) == LAUNCHER


def test_calls(shell):
    console = Console(shell.phone, exclusive=None)
    console._run("gsm call 5550101")
    assert "mCallState=1" in out(shell, "dumpsys telephony.registry") and "Incoming call" in texts(shell)
    tap(shell, "Answer")
    assert "mCallState=2" in out(shell, "dumpsys telephony.registry")
    out(shell, "input keyevent KEYCODE_ENDCALL")
    assert "mCallState=0" in out(shell, "dumpsys telephony.registry") and front(shell) == LAUNCHER
    assert "number=5550101, " in out(shell, "content query --uri content://call_log/calls")
    out(shell, "content delete --uri content://call_log/calls")
    assert out(shell, "content query --uri content://call_log/calls") == "No result found.\n"


def test_androids_providers_and_the_apps_are_one(shell):
    out(shell, "content delete --uri content://com.android.contacts/raw_contacts")
    out(shell, "content insert --uri content://com.android.contacts/raw_contacts --bind account_type:s:x")
    data = "content insert --uri content://com.android.contacts/data --bind raw_contact_id:i:1 --bind mimetype:s:"
    out(shell, data + "vnd.android.cursor.item/name --bind 'data1:s:Ada Lovelace'")
    out(shell, data + "vnd.android.cursor.item/phone_v2 --bind data1:s:12345")
    assert out(shell, "content query --uri content://contacts/phones/ --projection display_name:number") == (
        "Row: 0 display_name=Ada Lovelace, number=12345\n"
    )
    assert shell.phone.apps[CONTACTS].db["people"][0]["first"] == "Ada"
    out(shell, "content delete --uri content://sms")
    out(shell, "content insert --uri content://sms/inbox --bind address:s:123 --bind 'body:s:a, b'")
    row = out(shell, "content query --uri content://sms/inbox")
    assert row.startswith("Row: 0 _id=1, thread_id=1, address=123, person=NULL, date=1697384040000, ")
    assert "body=a, b, " in row and out(shell, "content query --uri content://sms/sent") == "No result found.\n"
    out(shell, "content insert --uri content://settings/system --bind name:s:probe --bind value:s:1")
    assert out(shell, "settings get system probe") == "1\n"
    out(shell, "pm clear com.android.providers.contacts")
    assert not shell.phone.apps[CONTACTS].db["people"]


# --- what tools ask ------------------------------------------------------------------------------------------------


def test_keyboards(shell):
    keyboard = "com.android.adbkeyboard/.AdbIME"
    assert keyboard in out(shell, "ime list -s -a").split()
    out(shell, "ime set com.android.inputmethod.latin/.LatinIME")
    out(shell, "am start -a android.intent.action.INSERT -t vnd.android.cursor.dir/contact")
    out(shell, "am broadcast -a ADB_INPUT_TEXT --es msg unheard")
    assert "unheard" not in texts(shell)  # ADBKeyboard hears nothing while another keyboard is in use
    out(shell, f"ime enable {keyboard}; ime set {keyboard}; am broadcast -a ADB_INPUT_TEXT --es msg heard")
    assert "heard" in texts(shell) and shell.run("ime set no.such/.Ime").exit_code == 255


def test_the_clipboard_is_reached_through_clipper(shell):
    assert "result=0\n" in out(shell, "am broadcast -a clipper.get")  # not in front: no access, as on Android 10
    out(shell, "am start -n ca.zgrs.clipper/ca.zgrs.clipper.Main")
    out(shell, "am broadcast -a clipper.set -e text 'two words'")
    assert out(shell, "am broadcast -a clipper.get").endswith('result=-1, data="two words"\n')
    out(shell, "input keyevent BACK; am start -a android.intent.action.INSERT -t vnd.android.cursor.dir/contact")
    out(shell, "input keyevent KEYCODE_PASTE")
    assert "two words" in texts(shell)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("date", "Sun Oct 15 15:34:00 UTC 2023\n"),
        ("date +%s", "1697384040\n"),
        ("date +%s%3N", "1697384040000\n"),
        ("date -u '+%Y-%m-%d %H:%M:%S'", "2023-10-15 15:34:00\n"),
        ("date -I", "2023-10-15\n"),
        ("date +%z", "+0000\n"),
        ("date -d @0 +%F", "1970-01-01\n"),
        ("date 101608302023.15", "Mon Oct 16 08:30:15 UTC 2023\n"),
        ("date 1016083024 +%F", "2024-10-16\n"),
        ("date -s '2024-02-03 04:05:06' +%T", "04:05:06\n"),
        ("date @86400 +%F", "1970-01-02\n"),
    ],
)
def test_dates(shell, line, said):
    assert out(shell, line) == said


def test_a_date_that_no_clock_shows_is_refused(shell):
    for word in ("123123599999.59", "@-1", "133115342023", "tomorrow"):
        assert shell.run(f"date {word}").exit_code == 1 and out(shell, "date +%F") == "2023-10-15\n"


def test_properties(shell):
    for name in (
        "ro.serialno",
        "ro.product.cpu.abi",
        "ro.product.cpu.abilist",
        "ro.product.brand",
        "ro.build.version.sdk",
    ):
        assert out(shell, f"getprop {name}").strip(), name
    assert re.fullmatch(r"\S+/\S+/\S+:13/\S+/\S+:userdebug/dev-keys\n", out(shell, "getprop ro.build.fingerprint"))
    out(shell, "setprop debug.probe 1")
    assert out(shell, "getprop debug.probe") == "1\n" and shell.run("setprop ro.serialno x").exit_code == 1


def test_reverse_and_framebuffer(shell):
    table: services.Reversed = {}
    assert services.reverse("forward:tcp:1;tcp:2", table) == b"OKAY"
    assert services.reverse("forward:norebind:tcp:1;tcp:3", table).startswith(b"FAIL")
    assert services.reverse("list-forward", table) == b"0016(reverse) tcp:1 tcp:2\n"
    assert services.reverse("killforward:tcp:9", table).startswith(b"FAIL")
    assert services.reverse("killforward-all", table) == b"OKAY" and not table
    frame = services.framebuffer(shell.phone)
    assert struct.unpack("<5I", frame[:20]) == (1, 32, 4 * 360 * 720, 360, 720)
    assert Image.frombytes("RGBA", (360, 720), frame[52:]).convert("RGB").tobytes() == screenshot(shell).tobytes()
