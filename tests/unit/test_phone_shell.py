"""The shell's commands: formats and errors as on a real device."""

from __future__ import annotations

import base64
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.base import InfraError, Transport
from envs.phone.apps.launcher import Launcher
from envs.phone.apps.notes import Notes
from envs.phone.phone import Phone
from envs.phone.shell import Shell
from envs.phone.shell.core import COMMANDS
from envs.phone.shell.toybox import PROGRAMS
from envs.phone.tasks.base import parse_rows
from envs.phone.transport import InProcessTransport

NOTES = "com.android.notes"
PHONE = Phone((Launcher, Notes))
"""For tests that do not mind what was done to it before."""


@pytest.fixture
def shell() -> Shell:
    return Shell(Phone((Launcher, Notes)))


def out(shell: Shell, command: str | list[str]) -> str:
    result = shell.run(command)
    assert result.exit_code == 0, result
    return result.stdout.decode()


# --- lines -------------------------------------------------------------------------------------------------------


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")), min_size=1))
def test_a_quoted_line_is_the_list_of_its_words(words):
    assert Shell(PHONE).run(shlex.join(["printf", "<%s>", *words])) == Shell(PHONE).run(["printf", "<%s>", *words])


def test_conditions(shell):
    assert out(shell, "false || echo a; true && echo b; false && echo c; echo d") == "a\nb\nd\n"


def test_redirection(shell):
    out(shell, "echo one > /sdcard/a.txt; echo two >> /sdcard/a.txt")
    assert shell.phone.files["/sdcard/a.txt"] == b"one\ntwo\n"
    assert out(shell, "cat /nothing 2>/dev/null || echo none") == "none\n"


def test_unknown_command(shell):
    result = shell.run("foo --bar")
    assert (result.stderr, result.exit_code) == (b"/system/bin/sh: foo: inaccessible or not found\n", 127)


def test_a_word_list_is_never_parsed(shell):
    assert out(shell, ["echo", "$(reboot)", ";", "`x`"]) == "$(reboot) ; `x`\n"


WORDS = [*COMMANDS, *PROGRAMS, "list", "-p", "-n", "-a", "--uri", "content://notes/notes", "--bind", "title:s:x",
         "--where", "_id=1", "query", "start", "global", "get", "put", "text", "keyevent", "tap", "swipe", "/sdcard",
         "/sdcard/x", "-r", ">", "&&", "1", "-5", "1e400", "@1e9", "'", "dump", "reset", "--seed", "%s",
         "force-stop", "com.android.notes", "stack"]  # fmt: skip


@given(st.lists(st.sampled_from(WORDS) | st.text(max_size=5), max_size=7))
def test_no_command_line_breaks_the_phone(words):
    shell = Shell(PHONE)
    for command in (words, " ".join(words)):
        result = shell.run(command)
        assert isinstance(result.stdout, bytes) and 0 <= result.exit_code <= 255
    assert shell.run("uiautomator dump /dev/tty").exit_code == 0


# --- system ------------------------------------------------------------------------------------------------------


def test_what_the_system_says(shell):
    assert out(shell, "wm size") == "Physical size: 360x720\n"
    assert out(shell, "wm density") == "Physical density: 160\n"
    assert out(shell, "getprop sys.boot_completed") == "1\n"
    assert out(shell, "getprop init.svc.bootanim") == "stopped\n"
    assert out(shell, "getprop no.such") == "\n"
    assert "orientation=0, logicalFrame=[0, 0, 360, 720]" in out(shell, "dumpsys input")
    assert shell.run("dumpsys nothing").exit_code == 20


def test_date(shell):
    assert out(shell, "date") == "Sun Oct 15 15:34:00 UTC 2023\n"
    assert out(shell, "date 0102030424.05") == "Tue Jan  2 03:04:05 UTC 2024\n"
    assert out(shell, "date +%s") == "1704164645\n"
    assert out(shell, "date @86400") == "Fri Jan  2 00:00:00 UTC 1970\n"
    assert shell.run("date tomorrow").exit_code == 1


def test_foreground(shell):
    out(shell, f"am start -n {NOTES}/.MainActivity")
    assert "mCurrentFocus=Window{" in out(shell, "dumpsys window")
    assert f" u0 {NOTES}/{NOTES}.MainActivity}}" in out(shell, "dumpsys window")
    assert "topResumedActivity=ActivityRecord{" in out(shell, "dumpsys activity activities")
    assert f"topActivity=ComponentInfo{{{NOTES}/{NOTES}.MainActivity}}" in out(shell, "am stack list")
    out(shell, f"am force-stop {NOTES}")
    assert shell.phone.foreground is shell.phone.launcher


def test_starting_apps(shell):
    assert out(shell, f"monkey -p {NOTES} -c android.intent.category.LAUNCHER 1").startswith("Events injected: 1\n")
    missing = shell.run("monkey -p no.app -c android.intent.category.LAUNCHER 1")
    assert missing.exit_code == 252 and b"No activities found to run, monkey aborted." in missing.stderr
    bad = shell.run("am start -n a/b")
    assert bad.exit_code == 0 and b"Error: Activity class {a/b} does not exist." in bad.stderr
    assert out(shell, f"am start -W -n {NOTES}/.MainActivity").splitlines()[1:3] == ["Status: ok", "LaunchState: WARM"]


def test_packages(shell):
    listed = out(shell, "pm list packages").splitlines()
    assert listed[:2] == ["package:com.android.launcher", f"package:{NOTES}"] and "package:android" in listed
    assert f"package:{NOTES}" in out(shell, "pm list packages -3").splitlines()
    assert "launcher" not in out(shell, "pm list packages -3") and NOTES not in out(shell, "pm list packages -s")
    assert f"package:/data/app/~~{NOTES}==/base.apk={NOTES} uid:" in out(shell, "pm list packages -f -U notes")
    assert shell.run("pm path no.app").exit_code == 1
    assert out(shell, f"pm clear {NOTES}") == "Success\n"
    assert shell.phone.apps[NOTES].db["notes"] == []


def test_settings(shell):
    assert out(shell, "settings get global wifi_on") == "1\n"
    assert out(shell, "settings get system nothing") == "null\n"
    assert out(shell, "settings put system nothing 'two words'") == ""
    assert "nothing=two words\n" in out(shell, "settings list system")
    assert out(shell, "settings delete system nothing") == "Deleted 1 rows\n"
    assert out(shell, "settings delete system nothing") == "Deleted 0 rows\n"
    assert out(shell, "svc wifi disable; settings get global wifi_on") == "0\n"
    assert shell.run("settings get nowhere x").exit_code == 255


# --- input -------------------------------------------------------------------------------------------------------


def focus_title(shell: Shell) -> dict[str, str]:
    shell.phone.launch(NOTES)
    shell.phone.foreground.go("edit", focus="title")
    return shell.phone.foreground.page.fields


def test_text_input(shell):
    fields = focus_title(shell)
    assert out(shell, ["input", "text", "two%swords"]) == ""
    assert fields["title"] == "two words"
    assert shell.run(["input", "text", "é"]).exit_code == 255
    message = base64.b64encode("é ; $(x) 漢".encode()).decode()
    out(shell, "am broadcast -a ADB_CLEAR_TEXT")
    said = out(shell, ["am", "broadcast", "-a", "ADB_INPUT_B64", "--es", "msg", message])
    assert said == "Broadcasting: Intent { act=ADB_INPUT_B64 flg=0x400000 }\nBroadcast completed: result=0\n"
    assert fields["title"] == "é ; $(x) 漢"


def test_keys(shell):
    fields = focus_title(shell)
    out(shell, "input keyevent KEYCODE_A 8 KEYCODE_SPACE KEYCODE_B; input keyevent KEYCODE_DEL")
    assert fields["title"] == "a1 "
    out(shell, "input keyevent 4; input keyevent KEYCODE_BACK")
    assert shell.phone.foreground.page.name == "main"
    out(shell, "input keyevent KEYCODE_HOME")
    assert shell.phone.foreground is shell.phone.launcher


@pytest.mark.parametrize("line", ["input", "input tap 1", "input tap a b", "input tap nan 1", "input swipe 1 2 3",
                                  "input keyevent WHAT", "input dance", "input text"])  # fmt: skip
def test_bad_input_is_refused(line, shell):
    assert shell.run(line).exit_code == 255


# --- content -----------------------------------------------------------------------------------------------------


def test_content(shell):
    uri = "--uri content://notes/notes"
    out(shell, f"content delete {uri}")
    assert out(shell, f"content query {uri}") == "No result found.\n"
    out(shell, f"content insert {uri} --bind 'title:s:a, b: c' --bind body:s:x --bind pinned:i:1")
    out(shell, f"content insert {uri} --bind title:s:second")
    assert out(shell, f"content query {uri}") == (
        "Row: 0 _id=1, title=a, b: c, body=x, pinned=1\nRow: 1 _id=2, title=second, body=, pinned=0\n"
    )
    where = "--where \"title='second'\" --projection _id:pinned"
    assert out(shell, f"content query {uri} {where}") == "Row: 0 _id=2, pinned=0\n"
    assert out(shell, f"content query {uri} --sort '_id DESC'").startswith("Row: 0 _id=2")
    assert out(shell, f"content update {uri}/2 --bind pinned:i:1") == ""
    out(shell, f"content delete {uri} --where '_id=1 AND pinned=1'")
    assert parse_rows(out(shell, f"content query {uri}")) == [{"_id": 2, "title": "second", "body": "", "pinned": 1}]


def test_content_changes_are_on_the_screen(shell):
    shell.phone.launch(NOTES)
    out(shell, "content insert --uri content://notes/notes --bind title:s:Fresh")
    assert "Fresh" in out(shell, "uiautomator dump /dev/tty")


@pytest.mark.parametrize("words", [
    "query --uri content://nowhere/x", "query --uri content://notes/x", "query --uri notes/notes",
    "query --uri content://notes/notes --where '1=1 OR 2'", "query --uri content://notes/notes --where 'x=1'",
    "insert --uri content://notes/notes", "insert --uri content://notes/notes --bind x:s:1",
    "insert --uri content://notes/notes --bind pinned:i:one", "update --uri content://notes/notes --bind pinned:z:1",
    "dance --uri content://notes/notes",
])  # fmt: skip
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


# --- files -------------------------------------------------------------------------------------------------------


def test_files(shell):
    out(shell, "mkdir -p /sdcard/Box/deep; echo hi > /sdcard/Box/a.txt")
    out(shell, "cp /sdcard/Box/a.txt /storage/emulated/0/Box/b.txt")
    assert out(shell, "ls /sdcard/Box") == "a.txt\nb.txt\ndeep\n"
    assert out(shell, "stat -c %s /sdcard/Box/b.txt") == "3\n"
    out(shell, "mv /sdcard/Box/b.txt /sdcard/Box/deep; mv /sdcard/Box /sdcard/Case")
    assert out(shell, "cat /sdcard/Case/deep/b.txt") == "hi\n"
    out(shell, "rm /sdcard/Case/deep/b.txt; test -d /sdcard/Case/deep && rm -r /sdcard/Case")
    assert shell.run("ls /sdcard/Case").exit_code == 1
    assert not [f for f in shell.phone.files if f.startswith(("/sdcard/Case", "/sdcard/Box"))]


def test_an_emptied_folder_made_by_mkdir_stays(shell):
    out(shell, "mkdir /sdcard/Box; echo x > /sdcard/Box/a; rm /sdcard/Box/a")
    assert out(shell, "ls /sdcard/Box") == "" and out(shell, "[ -d /sdcard/Box ]") == ""


@pytest.mark.parametrize("line", ["cat /no", "rm /no", "rm /sdcard", "mv /no /sdcard/x", "mkdir /sdcard",
                                  "rmdir /sdcard/no", "test -f /sdcard", "echo x > /system/x", "stat /no"])  # fmt: skip
def test_bad_file_commands_fail(line, shell):
    assert shell.run(line).exit_code == 1


# --- screen, reset, transport ------------------------------------------------------------------------------------


def test_screen_commands(shell):
    xml = out(shell, "uiautomator dump /dev/tty")
    assert xml.startswith("<?xml version='1.0' encoding='UTF-8' standalone='yes' ?><hierarchy rotation=\"0\"><node ")
    assert xml.endswith("</hierarchy>UI hierchary dumped to: /dev/tty\n")
    assert out(shell, "uiautomator dump") == "UI hierchary dumped to: /sdcard/window_dump.xml\n"
    assert xml.startswith(shell.phone.files["/sdcard/window_dump.xml"].decode())
    assert shell.run("screencap -p").stdout.startswith(b"\x89PNG\r\n\x1a\n")
    # Raw: 16 bytes of header and 4 bytes a pixel.
    assert len(shell.run("screencap").stdout) == 16 + 4 * 360 * 720


def test_sim_reset(shell):
    out(shell, "settings put global wifi_on 0; echo x > /sdcard/x; input keyevent HOME")
    out(shell, "sim reset --seed 3 --popups 0.5")
    fresh = Phone((Launcher, Notes))
    fresh.reset(3, 0.5)
    assert out(shell, "settings get global wifi_on") == "1\n" and shell.phone.files == fresh.files
    assert shell.phone.apps[NOTES].db == fresh.apps[NOTES].db and shell.phone.inputs == 0
    assert shell.run("sim reset --popups 2").exit_code == 2
    assert shell.run("sim reset --seed x").exit_code == 255


def test_transport(shell):
    transport = InProcessTransport(shell.phone, "sim-7")
    assert isinstance(transport, Transport)
    transport.push(b"\x00\xff", "/sdcard/a.bin")
    assert transport.pull("/storage/emulated/0/a.bin") == b"\x00\xff"
    assert transport.exec_out(("cat", "/sdcard/a.bin")) == b"\x00\xff"
    assert transport.shell("foo").exit_code == 127
    with pytest.raises(InfraError, match="sim-7: cannot pull /sdcard/no"):
        transport.pull("/sdcard/no")
    with pytest.raises(InfraError, match="Read-only"):
        transport.push(b"", "/system/x")
