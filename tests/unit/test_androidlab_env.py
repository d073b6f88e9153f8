"""`AndroidLabEnv` on an embedded phone of this process, and the set-up on devices that do not do as they should."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace

import pytest

from mobilerl.envs.androidlab import phone as phone_module
from mobilerl.envs.androidlab.env import AndroidLabEnv, LabSettings
from mobilerl.envs.androidlab.phone import LOCATION, UI_FILE, LabPhone
from mobilerl.envs.androidlab.tasks import LabTask
from mobilerl.envs.androidlab.trace import read_trace
from mobilerl.envs.base import Back, Finish, Home, InfraError, Invalid, NoScore, ShellResult, Tap
from mobilerl.envs.phone.apps.catalogue import APPS
from mobilerl.envs.phone.phone import Phone
from mobilerl.envs.phone.transport import InProcessTransport

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


def test_without_a_trace_the_last_screen_is_observed_and_there_is_no_score(tmp_path):
    transport = Listening()
    env = AndroidLabEnv("d", LabPhone(transport, APP_NAMES), APP_NAMES, settings=FAST)

    async def play():
        await env.reset(task(query="", rounds=2))
        await env.step(Tap(500, 160))
        transport.shell("settings put global airplane_mode_on 1")
        last = await env.step(Back())
        assert last.done and last.observation.app == "Settings" and last.observation.screenshot
        with pytest.raises(NoScore):
            await env.score()

    asyncio.run(play())
    assert not any(tmp_path.iterdir())


def test_five_equal_actions_end_an_episode_of_six_steps(tmp_path):
    """As in AndroidLab, which looks at the last five actions from the sixth step on."""

    async def play(actions):
        env = make(tmp_path)
        await env.reset(task(rounds=20))
        return [(await env.step(action)).done for action in actions]

    assert asyncio.run(play([Back()] * 6)) == [False] * 5 + [True]
    assert asyncio.run(play([Home(), *[Back()] * 5])) == [False] * 5 + [True]
    assert asyncio.run(play([Back(), Back(), Home(), *[Tap(1, 1)] * 4, Tap(9, 9)])) == [False] * 8


def test_set_up_in_order(tmp_path, monkeypatch):
    """adbd answers as another user, who cannot set the date, until a moment after `adb root`."""
    monkeypatch.setattr(phone_module, "POLL_S", 0.01)

    class Restarting(Listening):
        def shell(self, cmd, timeout=10.0):
            self.answers["id -u"] = "0\n" if self.said.count("id -u") == 3 else "2000\n"
            if cmd[0] == "date" and self.said.count("id -u") < 4:
                return ShellResult("", "date: cannot set date: Operation not permitted", 1)
            return super().shell(cmd, timeout)

    transport, geo, roots = Restarting(), [], []

    def root():
        roots.append(len(transport.said))
        return "restarting adbd as root"

    env = make(tmp_path, transport, root=root, console=SimpleNamespace(command=geo.append))
    asyncio.run(env.reset(task(query="")))
    said = "\n".join(transport.said)
    order = [
        "getprop sys.boot_completed",
        "date 051012002024.00",
        "am force-stop com.android.settings",
        "am start -f 0x10200000",
    ]
    assert [said.index(words) for words in order] == sorted(said.index(words) for words in order)
    assert roots == [1] and geo == [f"geo fix {LOCATION}"]
    assert transport.phone.now.strftime("%Y-%m-%d %H:%M") == "2024-05-10 12:00"
    assert "command" not in json.dumps(read_trace(tmp_path / "t_1"))


@pytest.mark.parametrize(
    "answers, fields, said",
    [
        ({"date 05": ShellResult("", "date: cannot set date: Operation not permitted", 1)}, {}, "date cannot be set"),
        ({}, {"root": lambda: "adbd cannot run as root in production builds"}, "`adb root`"),
        ({}, {"snapshot": "default_boot"}, "has no console"),
    ],
)
def test_a_set_up_that_fails_is_an_infrastructure_error(tmp_path, answers, fields, said):
    env = make(tmp_path, Listening(answers), **fields)
    with pytest.raises(InfraError, match=said):
        asyncio.run(env.reset(task()))
    with pytest.raises(RuntimeError, match="no episode"):
        asyncio.run(env.step(Back()))


@pytest.mark.parametrize("age, used", [(3, True), (60, False)])
def test_screens_that_never_stand_still_are_read_from_the_accessibility_service(tmp_path, age, used):
    transport = Listening({"stat -c %Y": "1000\n", "date +%s": f"{1000 + age}\n"})
    transport.push(b"<hierarchy>from the service</hierarchy>", UI_FILE)
    seen = asyncio.run(make(tmp_path / "a", transport).reset(task("map.me")))
    assert ("from the service" in seen.xml) is used
    seen = asyncio.run(make(tmp_path / "b", transport).reset(task("Settings")))
    assert "from the service" not in seen.xml
