"""`LiveDevice`: screens that move, phones that turn, keyboards, and text that must arrive as it was typed."""

from __future__ import annotations

import shlex
from xml.etree import ElementTree

import pytest
from PIL import Image

from envs.adb import MAX_LINE
from envs.androidworld.device import ADB_KEYBOARD, LiveDevice, Settle
from envs.base import InfraError, Observation, ShellResult, Tap, Type
from envs.device import MAX_TYPED
from envs.phone.apps.catalogue import APPS
from envs.phone.env import APP_NAMES
from envs.phone.phone import Phone
from envs.phone.render import encode
from envs.phone.tasks import suite
from envs.phone.tasks.expert import ExpertAgent
from envs.phone.transport import InProcessTransport

TREE = "<?xml version='1.0'?><hierarchy rotation=\"0\"></hierarchy>"


class Scripted:
    """`screens` come one after the other, the last one again; `ime` is what `ime list` says."""

    serial = "d0"

    def __init__(self, screens=(b"a",), tree=TREE, ime=""):
        self.screens, self.tree, self.ime = list(screens), tree, ime
        self.shown = self.dumped = 0
        self.lines: list[str] = []

    def shell(self, cmd, timeout=10.0):
        self.lines.append(shlex.join(cmd))
        if cmd[0] == "ime" and cmd[1] == "list":
            return ShellResult(self.ime, "", 0)
        return ShellResult("", "", 0)

    def exec_out(self, cmd, timeout=10.0):
        if cmd[0] == "uiautomator":
            self.dumped += 1
            return self.tree.encode()
        self.shown += 1
        return self.screens[min(self.shown, len(self.screens)) - 1]


def picture(width, height, grey):
    return encode(Image.new("RGB", (width, height), (grey, 100, 200)))


def test_a_screen_is_taken_once_two_in_a_row_are_equal():
    moving = [picture(20, 40, i) for i in range(3)]
    transport = Scripted([*moving, moving[-1], picture(20, 40, 99)])
    png, tree = LiveDevice(transport, settle=Settle(0.0, 30.0)).observe()
    assert png == moving[-1] and transport.shown == 4 and tree == TREE


def test_a_screen_that_always_moves_is_taken_as_it_is_and_asked_for_its_tree_once():
    transport = Scripted([picture(20, 40, i % 200) for i in range(2000)], tree="ERROR: could not get idle state.")
    png, tree = LiveDevice(transport, settle=Settle(0.01, 0.05)).observe()
    assert png and tree == "" and transport.dumped == 1


def test_the_tree_of_a_still_screen_is_asked_for_again(monkeypatch):
    monkeypatch.setattr("envs.androidworld.device.TREE_PAUSES_S", (0.0, 0.0))
    transport = Scripted([picture(20, 40, 1)], tree="ERROR: null root node returned by UiTestAutomationBridge.")
    assert LiveDevice(transport, settle=Settle(0.0, 30.0)).observe()[1] == "" and transport.dumped == 3


def test_taps_are_in_the_coordinates_of_the_screen_as_it_is_turned():
    transport = Scripted([picture(400, 200, 1)])
    device = LiveDevice(transport, settle=Settle(0.0, 0.0))
    device.observe()
    device.act(Tap(999, 999))
    assert device.size() == (400, 200) and transport.lines[-1] == "input tap 399 199"


@pytest.mark.parametrize(("ime", "chosen"), [
    (f"com.google.android.inputmethod.latin/x\n{ADB_KEYBOARD}\n", True), ("com.google/x\n", False),
])  # fmt: skip
def test_the_keyboard_is_chosen_by_what_is_installed(ime, chosen):
    transport = Scripted(ime=ime)
    device = LiveDevice(transport)
    device.prepare()
    assert transport.lines[0] == "settings put system pointer_location 0"
    assert (f"ime set {ADB_KEYBOARD}" in transport.lines) == chosen
    device.act(Type("x"))
    assert any("ADB_INPUT_B64" in line for line in transport.lines) == chosen
    assert ("input text x" in transport.lines) != chosen


def test_the_embedded_phone_offers_adbkeyboard():
    device = LiveDevice(InProcessTransport(Phone(APPS, 360, 720)), APP_NAMES, Settle(0.0, 0.0))
    device.prepare()
    device.transport.shell("am start -a android.intent.action.INSERT -t vnd.android.cursor.dir/contact")
    assert device.act(Type("smörgås 漢")) == "" and 'text="smörgås 漢"' in device.dump_xml()


def test_a_phone_that_cannot_list_its_keyboards_just_now_is_an_error():
    class Starting(Scripted):
        def shell(self, cmd, timeout=10.0):
            said = "cmd: Can't find service: input_method" if cmd[0] == "ime" else ""
            return ShellResult("", said, 20 if said else 0)

    with pytest.raises(InfraError, match="keyboards cannot be listed: cmd: Can't find service"):
        LiveDevice(Starting()).prepare()


class WithoutAdbKeyboard(InProcessTransport):
    """An embedded phone that only knows `input text`, as an AndroidWorld container as it comes."""

    def shell(self, cmd, timeout=10.0):
        assert "ADB_INPUT_B64" not in cmd
        return ShellResult("com.google/x\n", "", 0) if cmd[0] == "ime" else super().shell(cmd, timeout)


HARMLESS = "quotes ' \" ; $(reboot) `id` && false | x > /sdcard/y \\ *?[a] #!~ 100%s %%s %d"


@pytest.mark.parametrize("text", ["two words", HARMLESS, "%s", "", "%"])
def test_text_arrives_as_it_was_typed_without_adbkeyboard(text):
    device = LiveDevice(WithoutAdbKeyboard(Phone(APPS, 360, 720)), APP_NAMES, Settle(0.0, 0.0))
    device.prepare()
    task = suite.make_task("NotesCreate", 1)
    script = ExpertAgent(suite.template(task.template)(task.params))
    while not isinstance(action := script.act(seen(device)), Type):  # on the way to the first text field
        device.act(action)
    for typed in ("what stood there before", text):
        assert device.act(Type(typed)) == ""
    [field] = [n for n in ElementTree.fromstring(device.dump_xml()).iter("node") if n.get("focused") == "true"]
    assert field.get("class").endswith("EditText") and field.get("text") == (text or "Title")  # its hint


def seen(device) -> Observation:
    screenshot, xml = device.observe()
    return Observation(screenshot, *device.size(), xml, device.foreground_app(), 0)


@pytest.mark.parametrize("text", ["smörgås", "😀", "שלום", "tab\there", "nul\0"])
def test_text_that_cannot_be_typed_is_refused_with_a_reason(text):
    transport = Scripted(ime="com.google/x\n")
    device = LiveDevice(transport)
    device.prepare()
    before = list(transport.lines)
    assert "ASCII" in device.act(Type(text)) and transport.lines == before


def test_text_that_no_command_line_holds_is_refused_with_a_reason():
    transport = Scripted(ime="com.google/x\n")
    device = LiveDevice(transport)
    device.prepare()
    assert device.act(Type("'" * MAX_TYPED)) == "" and max(map(len, transport.lines)) <= MAX_LINE
    before = list(transport.lines)
    assert "too long" in device.act(Type("'" * (MAX_TYPED + 1))) and transport.lines == before


def test_a_phone_that_is_not_booted_or_rebooted():
    device = LiveDevice(Scripted())
    with pytest.raises(InfraError, match="still booting"):
        device.check()
    phone = InProcessTransport(Phone(APPS, 360, 720))
    live = LiveDevice(phone)
    live.check()
    assert live.size() == (360, 720)
    live.remember_boot()
    live.check_boot()
    phone.phone.boot()
    with pytest.raises(InfraError, match="rebooted"):
        live.check_boot()
