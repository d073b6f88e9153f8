"""Instructions of one's own: what a file may say, and how its tasks are set up and checked on an embedded phone."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import textwrap
from pathlib import Path

import pytest

from mobilerl.config import ConfigError, load_recipe
from mobilerl.envs.base import Back, Finish, FreeReward, Launch, NoScore, TaskFault
from mobilerl.envs.instructions.env import InstructionEnv
from mobilerl.envs.instructions.tasks import Instruction, make_task, read
from mobilerl.envs.live_device import Settle
from mobilerl.envs.phone.apps.catalogue import APP_NAMES, APPS
from mobilerl.envs.phone.phone import Phone
from mobilerl.envs.phone.transport import InProcessTransport
from mobilerl.suites.base import is_held_out, make_suite
from mobilerl.suites.fleet import check_devices

ROOT = Path(__file__).parents[2]
SETTINGS_IN_FRONT = "dumpsys window | grep -q 'mFocusedApp=.*com.android.settings'"
TOML = f"""
[apps]
Clock = "com.android.deskclock"

[[task]]
instruction = "Open the settings"
check = ["{SETTINGS_IN_FRONT}"]

[[task]]
id = "held-out"
instruction = "What is 2 and 2?"
answer = "four"
split = "test"
"""


@pytest.fixture
def file(tmp_path):
    def write(text: str, name: str = "mine.toml"):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write


def env(free_reward: bool = False) -> InstructionEnv:
    phone = InProcessTransport(Phone(APPS, 180, 360), "sim-0")
    return InstructionEnv("sim-0", phone, APP_NAMES, free_reward, Settle(limit_s=0.0))


def play(task: Instruction, *actions, free_reward: bool = False) -> float:
    async def main() -> float:
        phone = env(free_reward)
        await phone.reset(make_task(task))
        for action in actions:
            await phone.step(action)
        return await phone.score()

    return asyncio.run(main())


def test_both_kinds_of_file_are_read(file):
    found = read(file(TOML))
    assert found.apps == {"Clock": "com.android.deskclock"}
    assert [(t.id, t.split, t.checked) for t in found.task] == [("1", "train", True), ("held-out", "test", True)]
    lines = [json.dumps({"instruction": "Do it", "check": ["true"]}), "", json.dumps({"instruction": "Again"})]
    assert [t.id for t in read(file("\n".join(lines), "mine.jsonl")).task] == ["1", "3"]


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("a.toml", "[[task]]\ninstruction = 3", r"a.toml, line 1, task 1: instruction: Input should be a valid string"),
        ("a.toml", "[[task]]\ninstruction = 'x'\ncheks = []", r"no field 'cheks'; did you mean 'check'"),
        ("a.toml", "[[task]]\ninstrction = 'x'", r"task 1: there is no field 'instrction'; did you mean 'instruction'"),
        ("a.toml", "[[task]]\ninstruction = 'x'\nzzz = 1", r"task 1: there is no field 'zzz'; fields are instruction"),
        ("a.toml", "[[task]]\ninstruction = 'x'\ncheck = 'true'", r"1: check: it must be a list, as in \[\"true\"\]"),
        ("a.toml", "[[task]]\ninstruction = 'x'\nid = 'a b'", r"task 1: id: 'a b' is not a name of letters, digits"),
        ("a.toml", "[[task]]\ninstruction = 'x'\napp = 'Clock'", r"task 1: app: 'Clock' is not a package, such as"),
        ("a.toml", "[[task]]\ninstruction = 'x'\nstart = ['am']", r"task 1: `start` needs `app`"),
        ("a.toml", "x = 1\n[[task]]\ninstruction = 'x'", r"a.toml: there is no field 'x'; fields are apps, task"),
        ("a.toml", "[[task]\n", r"a.toml: .*line 1"),
        ("a.toml", "", r"a.toml has no tasks"),
        ("a.jsonl", '{"instruction": "x"}\n{"instruction": ', r"a.jsonl, line 2: "),
        ("a.jsonl", "[1]", r"a.jsonl, line 1: a task is a table"),
        ("a.jsonl", '{"instruction": "x", "id": "a"}\n{"instruction": "y", "id": "a"}', r"two tasks have the id 'a'"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(file, name, text, says):
    with pytest.raises(ValueError, match=says):
        read(file(text, name))


def test_the_commands_decide_and_only_if_the_agent_says_that_it_is_done():
    task = Instruction(id="open", instruction="Open the settings", check=(SETTINGS_IN_FRONT,))
    assert play(task, Launch("Settings"), Finish()) == 1.0
    assert play(task, Launch("Settings")) == 0.0
    assert play(task, Launch("Settings"), Back(), Finish()) == 0.0
    answered = Instruction(id="ask", instruction="What is it?", answer="Four")
    assert play(answered, Finish("it is four")) == 1.0 and play(answered, Finish("five")) == 0.0


def test_an_app_is_in_front_and_resets_were_run():
    reset = ("mkdir -p /sdcard/mine", "echo kept > /sdcard/mine/x")
    task = Instruction(
        id="x",
        instruction="x",
        app="com.android.settings",
        reset=reset,
        check=(SETTINGS_IN_FRONT, "grep -q kept /sdcard/mine/x"),
    )
    assert play(task, Finish(), free_reward=True) == 1.0
    with pytest.raises(FreeReward, match="before the agent has done anything"):
        play(task, Finish())


def test_a_task_that_cannot_be_set_up_or_scored_is_not_the_devices_fault():
    with pytest.raises(TaskFault, match=r"reset command 'false' failed with 1"):
        play(Instruction(id="x", instruction="x", reset=("false",), answer="x"))
    with pytest.raises(TaskFault, match=r"start command 'am start .* failed with 0: Error: Activity not started"):
        play(
            Instruction(id="x", instruction="x", app="com.android.settings", start=("am start -a no.such",), answer="x")
        )
    with pytest.raises(
        TaskFault, match=r"reset command 'setings .* failed with 0: .*setings: inaccessible or not found"
    ):
        play(Instruction(id="x", instruction="x", reset=("setings put secure x 1 | cat",), answer="x"))
    with pytest.raises(TaskFault, match="com.android.setings'; did you mean com.android.settings"):
        play(Instruction(id="x", instruction="x", app="com.android.setings", answer="x"))
    with pytest.raises(TaskFault, match="its app does not start on sim-0: there is no app called 'com.none.app'"):
        play(Instruction(id="x", instruction="x", app="com.none.app", answer="x"))
    with pytest.raises(NoScore):
        play(Instruction(id="x", instruction="x"), Finish())


@pytest.mark.parametrize(
    ("check", "says"),
    [
        ("setings get secure ui_night_mode | grep -q 2", "exit code 1, /system/bin/sh: setings: inaccessible or not"),
        ("settings get secure ui_night_mode | awk '{exit $1 != 2}'", "exit code 127, .*awk: inaccessible or not found"),
        ("settings get secure ui_night_mode | grep -K 2", r"exit code 2, grep: .*\(0 is yes, 1 is no\)"),
        ("sqlite3 /data/data/com.example/a.db 'select 1' | grep -q 1", "exit code 1, Error: unable to open database"),
        ("if settings get secure ui_night_mode | grep -q 2; then", "exit code 1, .*syntax error"),
        ("! cat /sdcard/none.txt | grep -q x", r"exit code 0, cat: .*\(if that is harmless, add 2>/dev/null\)"),
        ("exit 3", r"exit code 3 \(0 is yes"),
    ],
)
def test_a_check_that_cannot_run_is_a_fault_of_its_task(check, says):
    task = Instruction(id="x", instruction="x", check=(check,))
    with pytest.raises(NoScore, match=f"x: check .* cannot run: {says}"):
        play(task)
    with pytest.raises(NoScore, match="cannot run"):  # also where a judge or scorer lets the episode begin
        play(task, Finish(), free_reward=True)


def test_harmless_messages_and_files_that_are_not_there_yet_are_no_faults():
    noise = "echo 'WARNING: linker: x: unused DT entry' >&2; echo 'Failed to write: Broken pipe' >&2; "
    for check, reward in ((f"{noise}true", 1.0), (f"{noise}false", 0.0), ("cat /sdcard/none 2>/dev/null", 0.0)):
        assert play(Instruction(id="x", instruction="x", check=(check,)), Finish(), free_reward=True) == reward
    made = Instruction(id="x", instruction="x", check=("test -e /sdcard/none", "grep -q x /sdcard/none"))
    assert play(made, Finish()) == 0.0, "the second check runs only after the first succeeded"


def test_the_suite_trains_on_one_split_and_evaluates_on_the_other(file):
    flags = ["--suite.type", "instructions", "--suite.file", str(file(TOML)), "--fleet.count", "2"]
    suite = make_suite(load_recipe(None, flags))
    tasks, devices = suite.open()
    assert [t.template for t in tasks] == ["1"] and len(devices) == 2
    (held,) = suite.held_out(1)["success_rate"]
    assert held.template == "held-out" and is_held_out(held) and not is_held_out(tasks[0])
    unchecked = file('[[task]]\ninstruction = "x"', "other.toml")
    recipe = load_recipe(None, [*flags[:3], str(unchecked)])
    with pytest.raises(ConfigError, match="task '1' of .*other.toml has neither `check` nor `answer`"):
        make_suite(recipe).check()
    make_suite(load_recipe(None, [*flags[:3], str(unchecked), "--rollout.scorer", "mine:score"])).check()


def test_the_command_of_the_documentation_fits_its_file(file):
    page = (ROOT / "docs" / "instructions.md").read_text()
    text, command = re.search(r"    # mine.toml\n(.*?)\nThen:.*?    mobilerl train (.*?)\n\n", page, re.DOTALL).groups()
    words = shlex.split(command.replace("\\\n", " ").replace("mine.toml", str(file(textwrap.dedent(text)))))
    config, flags = words[words.index("--config") + 1], words[words.index("--model") :]
    flags = [word for word in flags if word not in ("--run-dir", "runs/mine")]
    recipe = load_recipe(ROOT / config, flags)
    check_devices(recipe)
    make_suite(recipe).check()
    assert recipe.fleet.count == len(recipe.fleet.serials) == 2


def test_serials_limit_the_number_of_devices():
    flags = ["--fleet.type", "adb", "--fleet.serials", '["a", "b"]']
    assert load_recipe(None, flags).fleet.count == 2
    assert load_recipe(Path("adagrpo"), flags).fleet.count == 2, "of the 64 phones of the recipe"
    assert load_recipe(None, [*flags, "--fleet.count", "3"]).fleet.count == 2
    assert load_recipe(None, [*flags, "--fleet.count", "1"]).fleet.count == 1
    assert load_recipe(None, [*flags, "--phone.popup_rate", "0.2"]).fleet.count == 2
