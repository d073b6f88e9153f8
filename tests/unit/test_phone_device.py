"""Device: relative coordinates to pixels, typing without a shell, and clear errors for broken devices."""

from __future__ import annotations

import base64
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mobilerl.envs.base import Action, Back, InfraError, Launch, LongPress, ShellResult, Swipe, Tap, Type, Wait
from mobilerl.envs.device import MAX_TYPED, Device
from mobilerl.envs.phone.apps.catalogue import APPS
from mobilerl.envs.phone.phone import Phone
from mobilerl.envs.phone.transport import InProcessTransport


class Wire:
    """Records commands and answers from a table by first words."""

    serial = "emulator-5554"

    def __init__(self, **answers: str | bytes) -> None:
        self.commands: list[tuple[str, ...]] = []
        self.answers: dict[str, str | bytes] = {"wm": "Physical size: 1080x2400\n", **answers}

    def shell(self, cmd: Sequence[str] | str, timeout: float = 10.0) -> ShellResult:
        assert not isinstance(cmd, str), "no command line is built by pasting text"
        self.commands.append(tuple(cmd))
        answer = self.answers.get(cmd[0], "")
        return answer if isinstance(answer, ShellResult) else ShellResult(answer, "", 0)

    def exec_out(self, cmd: Sequence[str] | str, timeout: float = 10.0) -> bytes:
        return self.answers[cmd[0]]


def sent(action: Action, **answers: str) -> list[tuple[str, ...]]:
    wire = Wire(**answers)
    Device(wire, {"Notes": "com.android.notes"}).act(action)
    return [c for c in wire.commands if c[0] != "wm"]


def test_actions_become_commands():
    # 999 would be pixel 1080 and is kept on the screen; 500 * 1080 // 999 = 540, 250 * 2400 // 999 = 600.
    assert sent(Tap(999, 0)) == [("input", "tap", "1079", "0")]
    assert sent(LongPress(500, 250)) == [("input", "swipe", "540", "600", "540", "600", "1000")]
    assert sent(Swipe(500, 250, 0, 999)) == [("input", "swipe", "540", "600", "0", "2399", "400")]
    assert sent(Back()) == [("input", "keyevent", "KEYCODE_BACK")]
    assert sent(Wait(9999)) == [("sleep", "10")]


@given(st.text())
def test_typed_text_travels_as_base64(text):
    clear, send = sent(Type(text))
    assert clear == ("am", "broadcast", "-a", "ADB_CLEAR_TEXT")
    assert base64.b64decode(send[-1], validate=True) == text.encode(errors="replace")


def test_a_text_too_long_for_a_command_line_is_noted_and_changes_nothing():
    device = Device(Wire(), {})
    assert device.act(Type("-" * MAX_TYPED)) == ""
    before = list(device.transport.commands)
    assert "too long" in device.act(Type("-" * MAX_TYPED + "!")) and "too long" in device.act(Type("é" * MAX_TYPED))
    assert "no app called" in device.act(Launch("a" + ".a" * MAX_TYPED))
    assert device.transport.commands == before


@given(x=st.integers(), y=st.integers())
def test_touches_stay_on_the_screen(x, y):
    (_, _, px, py), *_ = sent(Tap(x, y))
    assert 0 <= int(px) < 1080 and 0 <= int(py) < 2400


RESOLVED = "priority=0 preferredOrder=0 match=0x108000 specificIndex=-1 isDefault=true\n{}\n"
NOTES = "com.android.notes/.list.Start$1"


def started(wire: Wire) -> list[str]:
    """Activities that were started."""
    return [c[-1] for c in wire.commands if c[:2] == ("am", "start")]


def test_launch():
    said = "Starting: Intent { cmp=com.a/.ErrorPage }\nWarning: its current task has been brought to front"
    wire = Wire(cmd=RESOLVED.format(NOTES), am=said)
    assert Device(wire, {"Notes": "com.android.notes"}).act(Launch(" notes ")) == ""
    assert wire.commands[0][-1] == "com.android.notes" and started(wire) == [NOTES]
    assert Device(wire).act(Launch("com.android.notes")) == "" and started(wire) == [NOTES] * 2
    assert not [c for c in wire.commands if c[0] == "monkey"], "it would turn auto-rotate on"
    device = Device(Wire(cmd="No activity found\n"))
    assert "no app called 'org.other.app'" in device.act(Launch("org.other.app"))
    assert "no app called 'x; reboot'" in device.act(Launch("x; reboot"))
    assert not [c for c in device.transport.commands if "reboot" in str(c)]
    with pytest.raises(InfraError, match="am start.* does not exist"):
        failed = ShellResult(
            "Starting: Intent { }\n", f"Error type 3\nError: Activity class {NOTES} does not exist.", 0
        )
        Device(Wire(cmd=RESOLVED.format(NOTES), am=failed)).act(Launch("com.android.notes"))


def test_an_app_with_two_icons_is_opened_and_not_androids_chooser():
    class TwoIcons(Wire):
        def shell(self, cmd, timeout=10.0):
            chooser = RESOLVED.format("android/com.android.internal.app.ResolverActivity")
            both = f"2 activities found:\n  Activity #0:\n    {NOTES}\n  Activity #1:\n    com.android.notes/leak.A\n"
            self.answers["cmd"] = both if "query-activities" in cmd else chooser
            return super().shell(cmd, timeout)

    wire = TwoIcons()
    assert Device(wire).act(Launch("com.android.notes")) == "" and started(wire) == [NOTES]


def test_monkey_opens_the_apps_of_old_phones_and_their_rotation_stays_as_it_was():
    class Old(InProcessTransport):
        def shell(self, cmd, timeout=10.0):
            missing = ShellResult("", "/system/bin/sh: cmd: not found", 127)
            return missing if cmd[0] == "cmd" else super().shell(cmd, timeout)

    transport = Old(Phone(APPS))
    transport.shell("settings put system accelerometer_rotation 0; settings put system user_rotation 3")
    device = Device(transport, {"Notes": "com.android.notes"})
    assert device.act(Launch("notes")) == "" and device.foreground_package() == "com.android.notes"
    said = transport.shell("settings get system accelerometer_rotation; settings get system user_rotation").stdout
    assert said == "0\n3\n"
    assert "no app called" in device.act(Launch("org.other.app"))
    with pytest.raises(InfraError, match="monkey"):
        Device(Wire(monkey="Killed\n")).act(Launch("org.other.app"))


def test_size_prefers_the_override():
    assert Device(Wire()).size() == (1080, 2400)
    assert Device(Wire(wm="Physical size: 1080x2400\nOverride size: 720x1600\n")).size() == (720, 1600)
    with pytest.raises(InfraError, match="wm size"):
        Device(Wire(wm="error: closed")).size()


def test_the_screenshot_is_a_whole_png_after_any_warnings():
    png = InProcessTransport(Phone(APPS)).exec_out(("screencap", "-p"))
    assert Device(Wire(screencap=b"[Warning] Multiple displays were found\n" + png)).screenshot() == png
    for broken in (b"error: device offline", png[:8] + bytes(995), png[:8] + png[30:]):
        with pytest.raises(InfraError):
            Device(Wire(screencap=broken)).screenshot()


def test_dump_keeps_the_tree_only():
    tree = "<?xml version='1.0' ?><hierarchy rotation=\"0\"></hierarchy>"
    assert Device(Wire(uiautomator=f"{tree}UI hierchary dumped to: /dev/tty\n".encode())).dump_xml() == tree
    for broken in (b"Killed", tree.encode()[:40]):
        with pytest.raises(InfraError, match="gave no tree"):
            Device(Wire(uiautomator=broken)).dump_xml()


def test_a_failing_command_is_an_infrastructure_error():
    with pytest.raises(InfraError, match="emulator-5554: .*no such device"):
        Device(Wire(input=ShellResult("", "no such device", 255))).act(Back())
