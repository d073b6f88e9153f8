"""Task files of AndroidLab: what is read, and how each mistake is named."""

from __future__ import annotations

import json

import pytest

from envs.androidlab.checkout import CheckoutError, read_checkout
from envs.androidlab.query import device_line

TASK = {
    "task_id": "a_1",
    "category": "c",
    "task": " Do: it ",
    "metric_type": "operation",
    "metric_func": "evaluation.a",
}
APP = {"APP": "map.me", "package": "com.x.maps"}


def checkout(tmp_path, *tasks, app=APP, lengths='{"a_1": 3}', text=None):
    config = tmp_path / "evaluation/config"
    config.mkdir(parents=True)
    (config / "a.yaml").write_text(json.dumps(app | {"tasks": list(tasks)}) if text is None else text)  # JSON is YAML
    if lengths is not None:
        (tmp_path / "evaluation/ground_truth_length.json").write_text(lengths)
    return tmp_path


def test_a_task_is_told_as_androidlab_tells_it(tmp_path):
    query = {"adb_query": "adb shell getprop a.b"}
    read = read_checkout(checkout(tmp_path, TASK, {**TASK, "task_id": "a_2", "metric_type": "query_detect"} | query))
    first, second = read.tasks
    task = second.task(rounds=7)
    assert task.instruction == "You should use map.me to complete the following task: Do: it"
    assert (task.id, task.max_steps, task.suite, task.app) == ("a_2", 7, "androidlab", "map.me")
    assert task.params == {"package": "com.x.maps", "kind": "query_detect", "query": "adb shell getprop a.b"}
    # Whatever stands before the last name, AndroidLab looks below evaluation.tasks.
    assert first.module == "evaluation.tasks.a" and first.query == ""
    assert read.human_lengths == {"a_1": 3.0} and read.apps == {"map.me": "com.x.maps"}
    assert read.commit == "unknown"
    assert read.chosen(kind="query_detect") == [second] and read.chosen(["a_1"], ["map.me"]) == [first]
    with pytest.raises(CheckoutError, match="no task 'a_9'"):
        read.chosen(["a_9"])
    with pytest.raises(CheckoutError, match="no app 'maps'; map.me"):
        read.chosen(apps=["maps"])
    with pytest.raises(CheckoutError, match="no task is left"):
        read.chosen(["a_1"], kind="query_detect")


@pytest.mark.parametrize(
    "change, said",
    [
        ({"task_id": None}, "task number 1: field task_id is None"),
        ({"task_id": "../a"}, "task number 1: field task_id is '../a'; it must be a name of letters"),
        ({"task_id": 7}, "field task_id is 7"),
        ({"task": ""}, "task a_1: field task is ''; it must be a text"),
        ({"task": True}, "task a_1: field task is True"),  # what YAML makes of `task: yes`
        ({"metric_type": "other"}, "task a_1: field metric_type is 'other'; it must be operation or query_detect"),
        ({"metric_func": "a b"}, "task a_1: field metric_func is 'a b'"),
        ({"adb_query": "getprop x"}, "task a_1: field adb_query must begin with `adb shell `"),
        ({"adb_query": "adb shell a; b"}, "task a_1: field adb_query uses `;`"),
        ({"adb_query": "adb shell 'a"}, "task a_1: field adb_query is not a shell line"),
        ({"adb_query": ["adb shell a"]}, "task a_1: field adb_query is"),
    ],
)  # fmt: skip
def test_a_wrong_field_is_named_with_file_and_task(tmp_path, change, said):
    with pytest.raises(CheckoutError) as error:
        read_checkout(checkout(tmp_path, TASK | change))
    assert str(error.value).startswith("evaluation/config/a.yaml: ") and said in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("field", ["task_id", "task", "metric_type", "metric_func"])
def test_a_missing_field_is_named(tmp_path, field):
    with pytest.raises(CheckoutError, match=f"a.yaml: task .*: field {field} is missing"):
        read_checkout(checkout(tmp_path, {k: v for k, v in TASK.items() if k != field}))


@pytest.mark.parametrize(
    "arguments, said",
    [
        ({"text": "APP: [1"}, "evaluation/config/a.yaml is not valid YAML: .* line 1"),
        ({"text": "- 1"}, "must be APP, package and tasks"),
        ({"text": "!!python/object/apply:os.getcwd []"}, "is not valid YAML: could not determine a constructor"),
        ({"app": {"APP": "a"}}, "field package is missing"),
        ({"app": {"APP": "a", "package": "a; reboot"}}, "field package is 'a; reboot'"),
        ({"app": APP, "lengths": None}, "has no ground_truth_length.json"),
        ({"app": APP, "lengths": "{"}, "ground_truth_length.json is not valid JSON"),
        ({"app": APP, "lengths": '{"a_1": 0}'}, "task a_1: the length is 0"),
        ({"app": APP, "lengths": '{"a_1": true}'}, "task a_1: the length is True"),
        ({"app": APP, "lengths": "[]"}, "must map task ids"),
    ],
)
def test_wrong_files_are_named(tmp_path, arguments, said):
    with pytest.raises(CheckoutError, match=said) as error:
        read_checkout(checkout(tmp_path, TASK, **arguments))
    assert "\n" not in str(error.value)


def test_what_is_no_checkout(tmp_path):
    with pytest.raises(CheckoutError, match="there is no folder .*nix; get AndroidLab with `git clone"):
        read_checkout(tmp_path / "nix")
    with pytest.raises(CheckoutError, match="is no AndroidLab checkout: it has no evaluation/config"):
        read_checkout(tmp_path)
    with pytest.raises(CheckoutError, match="task a_1: the task_id is there twice"):
        read_checkout(checkout(tmp_path, TASK, TASK))
    with pytest.raises(CheckoutError, match="field tasks must be a list"):
        read_checkout(checkout(tmp_path / "empty"))
    with pytest.raises(CheckoutError, match="task number 2 must have fields"):
        read_checkout(checkout(tmp_path / "text", TASK, "a_2"))


@pytest.mark.parametrize(
    "query, line",
    [
        ("adb shell settings get global bluetooth_on", "settings get global bluetooth_on"),
        ("adb shell 'getprop persist.sys.timezone'", "getprop persist.sys.timezone"),
        ("adb shell settings list system | grep volume_ring", "settings list system | grep volume_ring"),
        ("adb shell pm list packages | grep 'com.booking' | wc -l", "pm list packages | grep com.booking | wc -l"),
        ("adb  shell a|grep -E 'b|c d'", "a | grep -E 'b|c d'"),
        ("adb shell \"a; b\"", "a; b"),  # one word to the host, two commands to the device
    ],
)  # fmt: skip
def test_queries_reach_the_device_as_a_hosts_shell_sends_them(query, line):
    assert device_line(query) == line


@pytest.mark.parametrize("query", ["", "adb", "adb shell", "adb push a b", "adb shell a && b", "adb shell a > b"])
def test_other_command_lines_are_refused(query):
    with pytest.raises(ValueError):
        device_line(query)
