"""Task files of AndroidLab: what is read, and how each mistake is named."""

from __future__ import annotations

import json

import pytest

from mobilerl.envs.androidlab.checkout import CheckoutError, read_checkout
from mobilerl.envs.androidlab.tasks import device_line, find_package, read_packages

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
    assert read.select_tasks(kind="query_detect") == [second] and read.select_tasks(["a_1"], ["map.me"]) == [first]
    with pytest.raises(CheckoutError, match="no task 'a_9'"):
        read.select_tasks(["a_9"])
    with pytest.raises(CheckoutError, match="no app 'maps'; map.me"):
        read.select_tasks(apps=["maps"])
    with pytest.raises(CheckoutError, match="no task matches"):
        read.select_tasks(["a_1"], kind="query_detect")


def test_apps_are_started_by_the_nearest_name_of_androidlabs_table(tmp_path):
    path = checkout(tmp_path, TASK, app={"APP": "Cantook", "package": "Cantook"})
    (path / "templates").mkdir()
    (path / "templates/packages.py").write_text(
        'raise SystemExit("is read, not run")\n'
        'apps_dict = {"Map.me": "com.maps", "bleucoins": "com.coins", "Cantook": "com.books"}\n'
    )
    read = read_checkout(path)
    assert read.tasks[0].package == "com.books"
    assert read.apps == {"Cantook": "com.books"}
    names = {"bluecoins": "com.coins", "map.me": "com.maps", "MAP . ME": "com.maps", "bl": "com.books"}
    assert {name: find_package(name, read.packages) for name in names} == names | {"bl": "com.maps"}
    (path / "templates/packages.py").write_text("apps_dict = {**other}")
    assert read_packages(path) == {}


@pytest.mark.parametrize(
    "change, said",
    [
        ({"task_id": "../a"}, "task_id"),
        ({"task": True}, "field task is"),  # YAML's reading of `task: yes`
        ({"metric_func": "a b"}, "metric_func"),
        ({"adb_query": "getprop x"}, "`adb shell `"),
        ({"adb_query": "adb shell a; b"}, "uses `;`"),
        ({"adb_query": "adb shell 'a"}, "not a shell line"),
    ],
)
def test_a_task_that_cannot_be_used_is_told_in_one_line(tmp_path, change, said):
    with pytest.raises(CheckoutError, match=rf"config/a\.yaml: .*{said}") as error:
        read_checkout(checkout(tmp_path, TASK | {"task_id": "a_2"} | change))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "arguments, said",
    [
        ({"text": "- 1"}, "must be APP, package and a list of tasks"),
        ({"text": "!!python/object/apply:os.getcwd []"}, "not valid YAML"),
        ({"app": {"APP": "a", "package": "a; reboot"}}, "field package"),
    ],
)
def test_a_file_that_cannot_be_used_is_told_in_one_line(tmp_path, arguments, said):
    with pytest.raises(CheckoutError, match=said) as error:
        read_checkout(checkout(tmp_path, TASK, **arguments))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "query, line",
    [
        ("adb shell 'getprop persist.sys.timezone'", "getprop persist.sys.timezone"),
        ("adb shell pm list packages | grep 'com.booking' | wc -l", "pm list packages | grep com.booking | wc -l"),
        ("adb  shell a|grep -E 'b|c d'", "a | grep -E 'b|c d'"),
        ('adb shell "a; b"', "a; b"),  # one word to the host, two commands to the device
    ],
)
def test_queries_reach_the_device_as_a_hosts_shell_sends_them(query, line):
    assert device_line(query) == line
