"""`AndroidLabEnv` on an embedded phone of this process, and the set-up on devices that do not do as they should."""

from __future__ import annotations

import asyncio
import json

import pytest

from envs.androidlab import adb as adb_module
from envs.androidlab import phone as phone_module
from envs.androidlab.env import AndroidLabEnv, LabSettings
from envs.androidlab.phone import LOCATION, UI_FILE, LabPhone, console_of
from envs.androidlab.tasks import LabTask
from envs.androidlab.trace import TraceWriter, parsed_action, read_trace
from envs.base import (
    Back,
    Enter,
    Finish,
    Home,
    InfraError,
    Invalid,
    Launch,
    LongPress,
    ShellResult,
    Swipe,
    Tap,
    Type,
    Wait,
)
from envs.phone.apps.catalogue import APPS
from envs.phone.phone import Phone
from envs.phone.transport import InProcessTransport
from mobilerl.config import ConfigError
from mobilerl.eval.androidlab import devices as devices_module
from mobilerl.eval.androidlab.devices import Address, open_phones

APP_NAMES = {"Settings": "com.android.settings", "map.me": "com.android.maps", "gone": "com.not.there"}
QUERY = "adb shell settings get global airplane_mode_on"
FAST = LabSettings(interval_s=0.0, launch_wait_s=0.0)


class Listening(InProcessTransport):
    """Notes every command; `answers` replaces what some of them say."""

    def __init__(self, answers=()):
        super().__init__(Phone(APPS, 360, 720))
        self.said, self.answers = [], dict(answers)

    def shell(self, cmd, timeout=10.0):
        line = cmd if isinstance(cmd, str) else " ".join(cmd)
        self.said.append(line)
        for start, answer in self.answers.items():
            if line.startswith(start):
                return answer if isinstance(answer, ShellResult) else ShellResult(answer, "", 0)
        return super().shell(cmd, timeout)


class Console:
    def __init__(self):
        self.lines = []

    def command(self, line):
        self.lines.append(line)
        return ""


def task(app="Settings", query=QUERY, rounds=4):
    return LabTask("t_1", app, APP_NAMES[app], "do it", "operation", "evaluation.tasks.t", query).task(rounds)


def make(tmp_path, transport=None, settings=FAST, grades=None, **fields):
    async def grade(task, folder):
        lines = read_trace(folder)
        if grades is not None:
            grades.append((task.id, lines))
        return 1.0

    transport = transport or Listening()
    return AndroidLabEnv("d", LabPhone(transport, APP_NAMES, **fields), APP_NAMES, tmp_path, grade, settings)


def test_an_episode_and_the_trace_it_leaves(tmp_path):
    transport, grades = Listening(), []
    env = make(tmp_path, transport, grades=grades)

    async def play():
        first = await env.reset(task())
        assert first.app == "Settings" and first.step == 0 and (first.width, first.height) == (360, 720)
        assert (
            len(read_trace(tmp_path / "t_1")) == 0 and (tmp_path / "t_1/Screen/0.png").read_bytes() == first.screenshot
        )
        transport.shell("settings put global airplane_mode_on 1")
        second = (await env.step(Tap(500, 160))).observation  # Network & internet
        assert len(read_trace(tmp_path / "t_1")) == 1  # on disk at once
        await env.step(Invalid("no tag"))
        last = await env.step(Finish("done"))
        assert last.done and last.observation.screenshot  # nothing is looked at any more
        assert second.xml != first.xml
        return await env.score()

    assert asyncio.run(play()) == 1.0
    folder = tmp_path / "t_1"
    lines = read_trace(folder)
    assert grades == [("t_1", lines)]
    assert [line["index"] for line in lines] == [0, 1, 2]
    assert [line["parsed_action"]["action"] for line in lines] == ["Tap", "invalid", "finish"]
    assert lines[0]["parsed_action"] == {"operation": "do", "action": "Tap", "kwargs": {"element": [180, 115]}}
    assert lines[2]["parsed_action"]["kwargs"] == {"message": "done"}
    # The query is asked at every screen, before the action that is decided on it.
    assert [line["command"] for line in lines] == [{QUERY: "0"}, {QUERY: "1"}, {QUERY: "1"}]
    assert {line["target"] for line in lines} == {"You should use Settings to complete the following task: do it"}
    assert lines[0]["window"] == [360, 720] and lines[0]["current_activity"] == "com.android.settings"
    assert "Network" in (folder / lines[0]["xml"]).read_text()
    assert (folder / lines[2]["image"]).read_bytes().startswith(b"\x89PNG")
    assert sorted(p.name for p in folder.rglob("*.*")) == sorted(
        ["trace.jsonl", *(f"{i}.{kind}" for i in range(3) for kind in ("png", "xml"))]
    )


def test_the_last_round_ends_the_episode(tmp_path):
    env = make(tmp_path)

    async def play():
        await env.reset(task(rounds=2))
        assert not (await env.step(Back())).done
        assert (await env.step(Back())).done
        with pytest.raises(RuntimeError, match="no episode is running"):
            await env.step(Back())

    asyncio.run(play())
    assert len(read_trace(tmp_path / "t_1")) == 2


def test_five_equal_actions_end_an_episode_of_six_steps(tmp_path):
    """As in AndroidLab, which looks at the last five actions from the sixth step on."""

    async def play(actions):
        env = make(tmp_path)
        await env.reset(task(rounds=20))
        return [(await env.step(action)).done for action in actions]

    assert asyncio.run(play([Back()] * 6)) == [False] * 5 + [True]
    assert asyncio.run(play([Home(), *[Back()] * 5])) == [False] * 5 + [True]
    assert asyncio.run(play([Back(), Back(), Home(), *[Tap(1, 1)] * 4, Tap(9, 9)])) == [False] * 8


def test_an_app_that_is_not_there_is_noted(tmp_path):
    env = make(tmp_path)

    async def play():
        await env.reset(task(rounds=2))
        return [(await env.step(Launch(name))).note for name in ("Settings", "Nonesuch")]

    assert asyncio.run(play()) == ["", "there is no app called 'Nonesuch'"]


def test_another_try_starts_from_an_empty_folder(tmp_path):
    env = make(tmp_path)

    async def play():
        for _ in range(2):
            await env.reset(task())
            await env.step(Back())

    asyncio.run(play())
    assert len(read_trace(tmp_path / "t_1")) == 1


def test_set_up_in_order(tmp_path):
    transport, console, roots = Listening(), Console(), []

    def root():
        roots.append(len(transport.said))
        return "restarting adbd as root"

    transport.answers["id -u"] = "0\n"
    env = make(tmp_path, transport, root=root, console=console)
    asyncio.run(env.reset(task(query="")))
    said = "\n".join(transport.said)
    order = ["getprop sys.boot_completed", "date 051012002024.00", "am force-stop com.android.settings",
             "monkey -p com.android.settings"]  # fmt: skip
    assert [said.index(words) for words in order] == sorted(said.index(words) for words in order)
    assert roots == [1] and console.lines == [f"geo fix {LOCATION}"]
    assert transport.phone.now.strftime("%Y-%m-%d %H:%M") == "2024-05-10 12:00"
    assert "command" not in json.dumps(read_trace(tmp_path / "t_1"))


def test_set_up_from_a_snapshot_and_on_the_home_screen(tmp_path):
    transport, console = Listening(), Console()
    env = make(tmp_path, transport, LabSettings(0.0, launch=False), console=console, snapshot="default_boot")
    assert asyncio.run(env.reset(task())).app == "com.android.launcher"
    assert console.lines == ["avd snapshot load default_boot", f"geo fix {LOCATION}"]
    assert not any(line.startswith(("monkey", "am force-stop")) for line in transport.said)


def test_map_me_keeps_the_date(tmp_path):
    transport = Listening()
    before = transport.phone.now.date()
    asyncio.run(make(tmp_path, transport).reset(task("map.me")))
    assert transport.phone.now.date() == before


@pytest.mark.parametrize(
    "answers, fields, said",
    [
        ({"date 05": ShellResult("", "date: cannot set date: Operation not permitted", 1)}, {},
         "the date cannot be set to 2024-05-10 .*Operation not permitted"),
        ({"monkey": "** No activities found to run."}, {}, "com.android.settings does not start: .*No activities"),
        ({}, {"root": lambda: "adbd cannot run as root in production builds"}, "`adb root` says 'adbd cannot run"),
        ({}, {"snapshot": "default_boot"}, "has no console"),
    ],
)  # fmt: skip
def test_a_set_up_that_fails_is_an_infrastructure_error(tmp_path, answers, fields, said):
    env = make(tmp_path, Listening(answers), **fields)
    with pytest.raises(InfraError, match=said):
        asyncio.run(env.reset(task()))
    with pytest.raises(RuntimeError, match="no episode"):
        asyncio.run(env.step(Back()))


def test_a_device_that_does_not_come_back(tmp_path, monkeypatch):
    monkeypatch.setattr(phone_module, "UP_S", 0.2)
    monkeypatch.setattr(phone_module, "POLL_S", 0.01)
    env = make(tmp_path, Listening({"getprop": "\n"}), root=lambda: "restarting adbd as root")
    with pytest.raises(InfraError, match="still booting"):
        asyncio.run(env.reset(task()))
    assert not asyncio.run(env.health()).ok
    assert asyncio.run(make(tmp_path).health()).ok


def test_a_device_that_is_away_for_a_moment_is_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(phone_module, "POLL_S", 0.01)

    class Away(Listening):
        def shell(self, cmd, timeout=10.0):
            if len(self.said) < 5:
                self.said.append("away")
                raise InfraError("d: device not found")
            return super().shell(cmd, timeout)

    transport = Away()
    assert asyncio.run(make(tmp_path, transport).reset(task())).app == "Settings"
    assert transport.said[:5] == ["away"] * 5


def test_adbd_answers_as_before_until_it_has_restarted_as_root(tmp_path, monkeypatch):
    monkeypatch.setattr(phone_module, "POLL_S", 0.01)

    class Restarting(Listening):
        """Another user's until a moment after `adb root`."""

        def shell(self, cmd, timeout=10.0):
            self.answers["id -u"] = "0\n" if self.said.count("id -u") == 3 else "2000\n"
            if cmd[0] == "date" and self.said.count("id -u") < 4:
                return ShellResult("", "date: cannot set date: Operation not permitted", 1)
            return super().shell(cmd, timeout)

    transport = Restarting()
    asyncio.run(make(tmp_path, transport, root=lambda: "restarting adbd as root").reset(task()))
    assert transport.phone.now.strftime("%Y-%m-%d") == "2024-05-10"
    monkeypatch.setattr(phone_module, "UP_S", 0.05)
    never = make(tmp_path, Listening({"id -u": "2000\n"}), root=lambda: "restarting adbd as root")
    with pytest.raises(InfraError, match="after `adb root` its shell is still uid '2000'"):
        asyncio.run(never.reset(task()))


def test_queries_that_fail_say_so_as_androidlab_does(tmp_path):
    env = make(tmp_path)
    query = "adb shell settings nonsense"
    asyncio.run(env.reset(task(query=query)))
    asyncio.run(env.step(Finish()))
    assert read_trace(tmp_path / "t_1")[0]["command"] == {query: "ERROR"}


@pytest.mark.parametrize("age, used", [(3, True), (60, False)])
def test_screens_that_never_stand_still_are_read_from_the_accessibility_service(tmp_path, age, used):
    transport = Listening({"stat -c %Y": "1000\n", "date +%s": f"{1000 + age}\n"})
    transport.push(b"<hierarchy>from the service</hierarchy>", UI_FILE)
    seen = asyncio.run(make(tmp_path / "a", transport).reset(task("map.me")))
    assert ("from the service" in seen.xml) is used
    seen = asyncio.run(make(tmp_path / "b", transport).reset(task("Settings")))
    assert "from the service" not in seen.xml


def test_a_screen_without_a_tree_is_a_step_without_one(tmp_path, monkeypatch):
    env = make(tmp_path)

    def moving():
        raise InfraError("could not get idle state")

    monkeypatch.setattr(env.phone.device, "dump_xml", moving)
    assert asyncio.run(env.reset(task())).xml == ""
    asyncio.run(env.step(Back()))
    assert read_trace(tmp_path / "t_1")[0]["xml"] == "ERROR" and not list((tmp_path / "t_1/xml").iterdir())


def test_a_reboot_in_mid_episode_is_no_failure(tmp_path):
    transport = Listening({"cat /proc/sys": "one"})
    env = make(tmp_path, transport)
    asyncio.run(env.reset(task()))
    asyncio.run(env.step(Finish()))
    assert asyncio.run(env.score()) == 1.0
    transport.answers = {"cat /proc/sys": "two"}
    with pytest.raises(InfraError, match="rebooted"):
        asyncio.run(env.score())


@pytest.mark.parametrize(
    "action, said",
    [
        (LongPress(999, 999), {"action": "Long Press", "kwargs": {"element": [1080, 2400]}}),
        (Swipe(0, 500, 999, 500), {"action": "Swipe", "kwargs": {"element": [0, 1201], "end": [1080, 1201]}}),
        (Type("a b"), {"action": "Type", "kwargs": {"text": "a b"}}),
        (Launch("Settings"), {"action": "Launch", "kwargs": {"package": "com.android.settings"}}),
        (Back(), {"action": "Press Back"}),
        (Home(), {"action": "Press Home"}),
        (Enter(), {"action": "Press Enter"}),
        (Wait(), {"action": "Wait"}),
    ],
)
def test_actions_in_androidlabs_form(action, said):
    assert parsed_action(action, 1080, 2400, APP_NAMES) == {"operation": "do"} | said


def test_a_line_cut_short_is_left_out(tmp_path):
    TraceWriter(tmp_path / "t", "t", "x")
    assert read_trace(tmp_path / "t") == []
    (tmp_path / "t/trace.jsonl").write_text('{"index": 0}\n{"ind')
    assert read_trace(tmp_path / "t") == [{"index": 0}]


def test_an_emulator_whose_console_cannot_be_used_is_refused_before_anything_is_played(monkeypatch):
    """Every episode sets the device's place by it, with a snapshot or without."""

    class Refusing:
        def command(self, line):
            raise InfraError("emulator-5554: its console asks for a token")

    class Emulator(Listening):
        def __init__(self, *_):
            super().__init__({"id -u": "0\n"})

        def root(self):
            return "adbd is already running as root"

    monkeypatch.setattr(adb_module, "LabTransport", Emulator)
    monkeypatch.setattr(devices_module, "console_of", lambda serial, host: Refusing())
    with pytest.raises(ConfigError, match="asks for a token; the emulator's console must be reachable, with its token"):
        open_phones([Address("emulator-5554")], {}, [])


def test_only_emulators_have_a_console():
    assert console_of("emulator-5556", "10.0.0.1").address == ("10.0.0.1", 5556)
    assert console_of("127.0.0.1:5555") is None and console_of("emulator-x") is None
