"""`LiveDevice`: screens that move, phones that turn, keyboards, and text that must arrive as it was typed."""

from __future__ import annotations

import re
from functools import partial
from xml.etree import ElementTree

import pytest
from PIL import Image

from mobilerl.envs.base import COORD_MAX, Observation, ShellResult, Tap, Type
from mobilerl.envs.device import Device
from mobilerl.envs.live_device import LiveDevice, Settle
from mobilerl.envs.phone.apps.catalogue import APP_NAMES, APPS
from mobilerl.envs.phone.phone import Phone
from mobilerl.envs.phone.render import encode
from mobilerl.envs.phone.tasks import suite
from mobilerl.envs.phone.tasks.expert import ExpertAgent
from mobilerl.envs.phone.transport import InProcessTransport

TREE = "<?xml version='1.0'?><hierarchy rotation=\"0\"></hierarchy>"


class Scripted:
    """`screens` come one after the other, the last one again."""

    serial = "d0"

    def __init__(self, screens):
        self.screens, self.shown = list(screens), 0

    def shell(self, cmd, timeout=10.0):
        return ShellResult("", "", 0)

    def exec_out(self, cmd, timeout=10.0):
        if cmd[0] == "uiautomator":
            return TREE.encode()
        self.shown += 1
        return self.screens[min(self.shown, len(self.screens)) - 1]


def test_a_screen_is_taken_once_two_in_a_row_are_equal():
    moving = [encode(Image.new("RGB", (20, 40), (gray, 100, 200))) for gray in range(4)]
    transport = Scripted([*moving[:3], moving[2], moving[3]])
    png, tree = LiveDevice(transport, settle=Settle(0.0, 30.0)).observe()
    assert png == moving[2] and transport.shown == 4 and tree == TREE


class WithoutAdbKeyboard(InProcessTransport):
    """An embedded phone that only knows `input text`, as an AndroidWorld container as it comes."""

    def shell(self, cmd, timeout=10.0):
        assert "ADB_INPUT_B64" not in cmd
        return ShellResult("com.google/x\n", "", 0) if cmd[0] == "ime" else super().shell(cmd, timeout)


HARMLESS = "quotes ' \" ; $(reboot) `id` && false | x > /sdcard/y \\ *?[a] #!~ 100%s %%s %d"


@pytest.mark.parametrize("text", [HARMLESS, "%s", ""])
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


class Typing(InProcessTransport):
    """An embedded phone that counts dumps; `deaf` phones ignore ADBKeyboard's broadcasts, as when it has crashed."""

    deaf, dumps, tree_said = False, 0, b""

    def shell(self, cmd, timeout=10.0):
        ignored = self.deaf and cmd[:2] == ("am", "broadcast")
        return ShellResult("Broadcast completed: result=0\n", "", 0) if ignored else super().shell(cmd, timeout)

    def exec_out(self, cmd, timeout=10.0):
        if cmd[0] != "uiautomator":
            return super().exec_out(cmd, timeout)
        self.dumps += 1
        return self.tree_said or super().exec_out(cmd, timeout)


NO_IDLE, NO_ROOT = b"ERROR: could not get idle state.\n", b"ERROR: null root node returned by UiTestAutomationBridge.\n"


def typing(at_field: bool = True) -> LiveDevice:
    """A device at a new note's title, or at the home screen, which has no text field."""
    device = LiveDevice(Typing(Phone(APPS, 360, 720)), APP_NAMES, Settle(0.0, 0.0))
    device.prepare()
    if at_field:
        script = ExpertAgent(suite.template("NotesCreate")(suite.make_task("NotesCreate", 1).params))
        while not isinstance(action := script.act(seen(device)), Type):
            device.act(action)
    device.observe()
    return device


def title(device: LiveDevice) -> str:
    [field] = [n for n in ElementTree.fromstring(device.dump_xml()).iter("node") if n.get("focused") == "true"]
    return field.get("text")


def test_text_that_did_not_arrive_is_reported():
    device = typing()
    device.transport.deaf = True
    assert "did not arrive" in device.act(Type("Milk and eggs")) and title(device) == "Title"
    device.transport.deaf = False
    assert device.act(Type("Milk and eggs")) == "" and title(device) == "Milk and eggs"
    assert device.act(Type("milk & eggs")) == "" and device.act(Type("milk & eggs")) == ""
    assert "no text field has the focus" in typing(at_field=False).act(Type("Milk and eggs"))


def test_another_keyboard_selected_meanwhile_stays_selected():
    device = typing()
    latin = "com.android.inputmethod.latin/.LatinIME"
    device.transport.shell(("settings", "put", "secure", "default_input_method", latin))
    assert device.act(Type("Milk")) == "" and title(device) == "Milk"
    assert "only be sent ASCII text: ADBKeyboard is not its keyboard" in device.act(Type("Käse"))
    assert device.transport.shell("settings get secure default_input_method").stdout == f"{latin}\n"


def test_nothing_is_reported_where_nobody_can_tell():
    device = typing()
    device.transport.deaf, device.transport.tree_said = True, NO_IDLE
    device.observe()
    dumps = device.transport.dumps
    assert device.act(Type("Milk")) == "" and device.transport.dumps == dumps, "each would take ten seconds"
    device.transport.tree_said = b""
    device.observe()
    assert device.act(Type("sent\n")) == ""


@pytest.mark.parametrize(("said", "asked"), [(NO_IDLE, [1, 1, 1]), (NO_ROOT, [4, 1, 1])])
def test_a_screen_without_a_tree_is_asked_once_from_then_on_and_others_as_before(said, asked, monkeypatch):
    monkeypatch.setattr("mobilerl.envs.retry.time.sleep", lambda seconds: None)
    device, dumps = typing(), []
    device.settle = Settle(0.0, 30.0)
    device.transport.tree_said = said
    for _ in asked:
        before = device.transport.dumps
        assert device.observe()[1] == ""
        dumps.append(device.transport.dumps - before)
    assert dumps == asked
    device.home()  # another app
    before = device.transport.dumps
    device.observe()
    assert device.transport.dumps - before == asked[0]
    device.transport.tree_said = b""
    assert "<hierarchy" in device.observe()[1]


@pytest.mark.parametrize("kind", [Device, partial(LiveDevice, settle=Settle(0.0, 0.0))])
def test_touches_follow_a_screen_that_is_turned_between_them(kind):
    transport = InProcessTransport(Phone(APPS))
    device = kind(transport, APP_NAMES)
    for turns, size in (("0", (360, 720)), ("1", (720, 360)), ("2", (360, 720)), ("3", (720, 360))):
        transport.shell(("settings", "put", "system", "user_rotation", turns))
        tree = device.dump_xml() if kind is Device else device.observe()[1]
        assert f'<hierarchy rotation="{turns}">' in tree and device.size() == size
        icon = next(n for n in ElementTree.fromstring(tree).iter("node") if n.get("text") == "Shop")
        left, top, right, bottom = map(int, re.findall(r"\d+", icon.get("bounds")))
        device.act(Tap((left + right) * COORD_MAX // (2 * size[0]), (top + bottom) * COORD_MAX // (2 * size[1])))
        assert device.foreground_app() == "Shop"
        device.home()


def seen(device) -> Observation:
    screenshot, xml = device.observe()
    return Observation(screenshot, *device.size(), xml, device.foreground_app(), 0)
