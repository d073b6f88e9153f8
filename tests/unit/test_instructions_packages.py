"""Packages that tasks name and devices lack: named before the first episode, and tasks that cannot run are left out."""

from __future__ import annotations

import json

import pytest

from mobilerl.cli import main
from mobilerl.config import ConfigError, InstructionsSuiteSection, load_recipe
from mobilerl.envs.base import InfraError, ShellResult
from mobilerl.envs.instructions.packages import find_named
from mobilerl.envs.instructions.tasks import Instruction, make_task
from mobilerl.models import tiny
from mobilerl.suites import fleet
from mobilerl.suites.base import device_warnings, make_suite
from mobilerl.suites.command import eval_command

SETTINGS = "com.android.settings"
FILE = f"""
[apps]
Clock = "com.android.deskclok"

[[task]]
id = "good"
instruction = "Open the settings"
check = ["dumpsys window | grep -q 'mFocusedApp=.*{SETTINGS}'"]

[[task]]
id = "typing-error"
instruction = "x"
app = "com.android.setings"
check = ["test -e /sdcard/x"]

[[task]]
id = "reset"
instruction = "x"
reset = ["pm clear com.example.notes"]
check = ["cat /data/data/com.example.todo/x 2>/dev/null"]

[[task]]
id = "held-out"
instruction = "x"
app = "com.example.notes"
answer = "x"
split = "test"
"""


class Asked:
    """A device with these packages; with None it does not answer."""

    def __init__(self, serial: str, *packages: str | None) -> None:
        self.serial, self.packages = serial, packages

    def shell(self, cmd, timeout=10.0) -> ShellResult:
        assert cmd == ("pm", "list", "packages")
        if None in self.packages:
            raise InfraError(f"{self.serial}: not attached")
        return ShellResult("".join(f"package:{name}\n" for name in self.packages), "", 0)


@pytest.fixture
def suite(tmp_path, monkeypatch):
    """(*devices) -> the suite of FILE on them, or on embedded phones."""
    (tmp_path / "mine.toml").write_text(FILE)

    def make(*devices: Asked):
        flags = ["--suite.type", "instructions", "--suite.file", str(tmp_path / "mine.toml"), "--fleet.count", "1"]
        if devices:
            flags += ["--fleet.type", "adb", "--fleet.serials", json.dumps([d.serial for d in devices])]
            asked = {device.serial: device for device in devices}
            monkeypatch.setattr(fleet.AdbFleet, "transports", lambda self, recipe: asked)
        recipe = load_recipe(None, flags)
        return make_suite(recipe), recipe

    return make


def test_tasks_that_cannot_run_are_named_before_the_first_episode_and_left_out(suite, capsys):
    own, _ = suite()
    tasks, _ = own.open()
    assert [task.template for task in tasks] == ["good"] and own.held_out(1) == {}
    said = " ".join(capsys.readouterr().out.split())
    on = "is not installed on the embedded phones"
    assert f"instructions/typing-error: `app`: com.android.setings {on}; did you mean {SETTINGS}?: the task is" in said
    assert f"instructions/reset: `reset`: com.example.notes {on}; did you mean com.android.notes?" in said
    assert f"instructions/reset: `check`: com.example.todo {on}" in said
    assert f"[apps] 'Clock': com.android.deskclok {on}; did you mean com.android.deskclock?" in said
    assert "instructions/held-out: `app`" in said


def test_a_device_that_lacks_an_app_is_named_and_the_task_stays(suite):
    have = (SETTINGS, "com.android.setings", "com.example.notes", "com.example.todo", "com.android.deskclok")
    own, _ = suite(Asked("one", *have), Asked("two", *have[1:]), Asked("three", *have[:1]))
    warnings = device_warnings(own)
    assert (
        "instructions/typing-error: `app`: com.android.setings is not installed on three; did you mean" in warnings[1]
    )
    assert not any("left out" in line for line in warnings) and len(own.open()[0]) == 3


def test_devices_that_do_not_answer_leave_no_task_out(suite):
    own, _ = suite(Asked("one", SETTINGS), Asked("two", None))
    silent, _, lacking, *_ = device_warnings(own)
    assert silent.startswith("device two: not attached: `adb devices`") and "is not installed on one" in lacking
    assert len(own.open()[0]) == 3
    own, _ = suite(Asked("one", None))
    assert [line.split(":")[0] for line in device_warnings(own)] == ["device one"] and len(own.open()[0]) == 3


def test_the_next_command_evaluates_on_the_devices_of_the_run(suite, tmp_path):
    words = eval_command(InstructionsSuiteSection).words
    _, recipe = suite(Asked("one"), Asked("two"))
    file = str(tmp_path / "mine.toml")
    assert words(recipe) == ["instructions", file, "--serial", "one"], "fleet.count is 1"
    assert words(suite()[1]) == ["instructions", file]
    docker = load_recipe(None, ["--suite.type", "instructions", "--suite.file", file, "--fleet.type", "docker"])
    assert words(docker) == ["instructions", file, "--fleet.type", "docker"]


def test_a_file_of_which_nothing_can_run_is_refused(suite, tmp_path):
    own, recipe = suite()
    (tmp_path / "mine.toml").write_text('[[task]]\ninstruction = "x"\napp = "com.none"\nanswer = "x"\n')
    with pytest.raises(ConfigError, match="no task of .*mine.toml can run: instructions/1: `app`: com.none is not"):
        own.open()


def test_an_evaluation_names_them_as_errors_and_plays_the_others(suite, tmp_path, capsys):
    suite()
    words = ["eval", "instructions", str(tmp_path / "mine.toml"), "--agent", "finish", "--out", str(tmp_path / "out")]
    assert main(words) == 0
    rows = json.loads((tmp_path / "out" / "results.json").read_text())["per_task"]
    counts = {name: (row["trials"], row["errors"]) for name, row in rows.items()}
    assert counts == {"good": (1, 0), "typing-error": (0, 1), "reset": (0, 1), "held-out": (0, 1)}
    said = " ".join(capsys.readouterr().out.split())
    assert "did you mean com.android.settings?: the task is not played" in said
    assert "instructions/typing-error was lost (instructions/typing-error: `app`: com.android.setings is not" in said


@pytest.mark.parametrize(
    ("field", "line", "found"),
    [
        ("reset", "pm clear --user 0 com.a.b", ("reset", True)),
        ("reset", "pm clear com.a.b || true", ("reset", False)),
        ("reset", "am force-stop com.a.b", ("reset", False)),
        ("reset", "rm -f /sdcard/Android/data/com.a.b/files/x", ("reset", False)),
        ("start", "am start -W -a android.intent.action.VIEW -n com.a.b/.Main", ("start", True)),
        ("start", "monkey -p com.a.b -c android.intent.category.LAUNCHER 1", ("start", True)),
        ("start", "am start -a android.intent.action.VIEW -d notes://list", None),
        ("check", "run-as com.a.b cat x | grep -q y", ("check", False)),
        ("check", "sqlite3 /data/data/com.a.b/databases/x.db 'select 1' | grep -q 1", ("check", False)),
        ("check", "pm path com.a.b", None),
        ("check", "pm list packages | grep -qx package:com.a.b", None),
        ("check", "dumpsys window | grep -q 'mFocusedApp=.*com.a.b'", None),
    ],
)
def test_packages_are_found_where_commands_name_them(field, line, found):
    task = Instruction(instruction="x", app="com.c", answer="x", **{field: (line,)})
    expected = {"com.c": ("app", True)} | ({"com.a.b": found} if found else {})
    assert find_named(make_task(task)) == expected


def test_a_reset_that_installs_names_none():
    task = Instruction(instruction="x", app="com.c", answer="x", reset=("pm install -r /data/local/tmp/c.apk",))
    assert find_named(make_task(task)) == {}


def test_a_dry_run_asks_devices_that_answer(suite, tmp_path, capsys):
    suite()
    tiny.create(tmp_path / "tiny", ["open the settings"], hidden=32, layers=1, heads=2)
    words = [
        "train",
        "--config",
        "/dev/null",
        "--dry-run",
        "--run-dir",
        str(tmp_path / "run"),
        "--model",
        str(tmp_path / "tiny"),
    ]
    words += [
        "--engine.max_pixels",
        "null",
        "--suite.type",
        "instructions",
        "--suite.file",
        str(tmp_path / "mine.toml"),
    ]
    words += ["--fleet.count", "2", "--rollout.tasks_per_iteration", "1", "--algorithm.group_size", "2"]
    assert main([*words, "--agent.max_new_tokens", "4"]) == 0
    assert "typing-error: `app`: com.android.setings is not installed" in " ".join(capsys.readouterr().err.split())
