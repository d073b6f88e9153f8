"""Instructions for AndroidLab's apps: what is refused, and the tasks that are made of the others."""

from __future__ import annotations

import json
import re
import textwrap

import pytest
from androidlab_checkout import make_checkout

from mobilerl.config import AndroidLabSuiteSection, ConfigError, load_recipe
from mobilerl.envs.androidlab.instructions import LabInstruction, check_held_out
from mobilerl.envs.androidlab.tasks import LabTask
from mobilerl.envs.instructions.tasks import read_as
from mobilerl.suites.base import is_held_out, make_suite
from mobilerl.suites.command import eval_command
from mobilerl.suites.fleet import container_settings

JUDGE = {"judge.reward": "true", "judge.url": "http://127.0.0.1:1/v1", "judge.model": "m"}
TASKS = """
[[task]]
id = "bluetooth"
instruction = "Switch Bluetooth on"
app = "Settings"

[[task]]
instruction = "Open the stopwatch"
app = "Clock"
split = "test"
max_steps = 9
"""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    return make_checkout(tmp_path_factory.mktemp("checkout") / "Android-Lab")


@pytest.fixture
def suite_of(checkout, tmp_path):
    def make(text: str = TASKS, name: str = "mine.toml", **settings: object):
        (tmp_path / name).write_text(text)
        flags = {"type": "androidlab", "file": tmp_path / name, "checkout": checkout}
        given = {f"suite.{k}": v for k, v in flags.items()} | {"fleet.type": "adb", "fleet.serials": '["s"]'}
        given |= JUDGE | {k.replace("__", "."): v for k, v in settings.items()}
        recipe = load_recipe(None, [word for k, v in given.items() if v is not None for word in (f"--{k}", str(v))])
        return make_suite(recipe), recipe

    return make


def test_tasks_have_androidlabs_wording_package_and_steps(suite_of):
    suite, _ = suite_of()
    (task,) = suite.tasks(("train",), ())
    assert task.instruction == "You should use Settings to complete the following task: Switch Bluetooth on"
    assert (task.id, task.template, task.max_steps) == ("androidlab/bluetooth", "bluetooth", 25)
    assert (task.app, task.params["package"]) == ("Settings", "com.android.settings")
    (held,) = suite.tasks(("test",), ())
    assert (held.params["package"], held.max_steps) == ("com.android.deskclock", 9)
    assert [is_held_out(t) for t in (task, held)] == [False, True]
    assert is_held_out(LabTask("clock_1", "clock", "p", "Open the clock", "operation", "m").task(25)), "the benchmark's"


@pytest.mark.parametrize(
    ("said", "leaks"),
    [
        ("Turn off my bluetooth", True),
        ("turn off Bluetooth!", True),
        ("Please, could you turn the Bluetooth off", True),
        ("You should use Settings to complete the following task: Turn off my bluetooth", True),
        ("Turn on my bluetooth", False),
        ("Set an alarm for 3 pm", True),
        ("Set an alarm at 4PM", False),
        ("Add a contact named Chen, whose company is Tsinghua University, now", True),
        ("Add a contact named Wei, whose company is Peking University", False),
    ],
)
def test_what_is_nearly_a_task_of_the_benchmark(said, leaks):
    goals = {
        "setting_3": "Turn off my bluetooth",
        "clock_27": "Set an alarm at 3PM",
        "contacts_4": "Add a contact named Chen, whose company is Tsinghua University",
    }
    benchmark = [LabTask(name, "Settings", "p", goal, "operation", "m") for name, goal in goals.items()]
    if not leaks:
        return check_held_out(said, benchmark)
    with pytest.raises(ValueError, match="leak: .* of its words with AndroidLab's task"):
        check_held_out(said, benchmark)


@pytest.mark.parametrize("split", ["train", "test"])
def test_the_benchmark_is_refused_with_file_line_and_task(suite_of, split):
    leak = f'{TASKS}\n[[task]]\ninstruction = "switch on Airplane mode."\napp = "Settings"\nsplit = "{split}"\n'
    suite, _ = suite_of(leak)
    said = r"suite\.file: .*mine\.toml, line 13, task 3: leak: .* shares 100% of its words .* setting_0, 'Switch airpl"
    with pytest.raises(ConfigError, match=said):
        suite.check()
    lines = [{"instruction": "Find it", "app": "Clock"}, {"instruction": "Open clock", "app": "Clock"}]
    suite, _ = suite_of("\n".join(map(json.dumps, lines)), "mine.jsonl")
    with pytest.raises(ConfigError, match=r"mine\.jsonl, line 2: leak: .* clock_1"):
        suite.check()


@pytest.mark.parametrize(
    ("text", "settings", "says"),
    [
        (TASKS.replace('"Clock"', '"Clocks"'), {}, r"line 7, task 2: app: AndroidLab has no app 'Clocks', but Clock"),
        ('[[task]]\ninstruction = "x"', {}, "task 1: app: Field required"),
        ('[[task]]\ninstruction = "x"\napp = "Clock"\ncheck = ["true"]', {}, "there is no field 'check'"),
        (TASKS, {"judge__reward": None, "judge__url": None, "judge__model": None}, "let a judge"),
        (TASKS, {"suite__checkout": None}, "needs suite.checkout"),
        (TASKS, {"suite__checkout": "/nowhere"}, "suite.checkout: there is no folder /nowhere; get AndroidLab with"),
        (TASKS, {"suite__file": None}, "needs suite.file"),
        (TASKS, {"suite__snapshot": "default_boot"}, "suite.snapshot: s is no emulator with a console"),
        (TASKS, {"fleet__type": None, "fleet__serials": None}, 'set fleet.type = "adb" or "docker"'),
        (TASKS, {"rollout__workers": 2, "engine__type": "local"}, "set rollout.workers = 0"),
    ],
)
def test_what_cannot_be_trained_on_is_said_in_one_line(suite_of, text, settings, says):
    with pytest.raises(ConfigError, match=says) as error:
        suite_of(text, **settings)[0].check()
    assert "\n" not in str(error.value)


def test_the_recipes_that_we_show(pytestconfig, tmp_path):
    """The one of the docs, and that of containers, whose emulators' consoles set the location."""
    text = (pytestconfig.rootpath / "docs/benchmarks.md").read_text()
    for name in ("lab-tasks", "lab"):
        block = re.search(rf"^    # {name}\.toml.*\n(?:(?!    (?:# lab|vllm)).*\n)+", text, re.MULTILINE)[0]
        (tmp_path / f"{name}.toml").write_text(textwrap.dedent(block))
    assert len(read_as(LabInstruction, tmp_path / "lab-tasks.toml").task) == 2
    shown = load_recipe([pytestconfig.rootpath / "recipes/gpu/qwen2.5-vl-3b-lora.toml", tmp_path / "lab.toml"])
    assert isinstance(shown.suite, AndroidLabSuiteSection) and shown.judge.screenshots == 50
    made = container_settings(load_recipe("cluster/androidlab-7b"))
    assert (made.console_port, made.env_has_console, made.http_port) == (5554, True, 0)


def test_the_evaluation_after_a_run_is_androidlabs(suite_of, checkout):
    _, recipe = suite_of(agent__screenshots=0, suite__from_home="true")
    words = eval_command(type(recipe.suite)).words(recipe)
    assert words == ["androidlab", "--android-lab", str(checkout), "--serial", "s", "--mode", "xml", "--from-home"]
