"""Task files of AndroidLab: what is read, and how each mistake is named."""

from __future__ import annotations

import json
import re

import pytest

from envs.androidlab.checkout import CheckoutError, read_checkout
from envs.androidlab.packages import find_package, read_packages
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


@pytest.mark.parametrize("written, kind", [("operations", "operation"), (None, "operation"), ("query_detect",) * 2])
def test_a_task_of_any_metric_type_is_played(tmp_path, written, kind):
    """AndroidLab's own map_14 has `operations`: it records the field and reads it nowhere."""
    assert read_checkout(checkout(tmp_path, TASK | {"metric_type": written})).tasks[0].kind == kind


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
        ({"task_id": None}, "field task_id is None"),
        ({"task_id": "../a"}, "field task_id is '../a'; it must be a name of letters"),
        ({"task_id": 7}, "field task_id is 7"),
        ({"task": ""}, "field task is ''; it must be a text"),
        ({"task": True}, "field task is True"),  # what YAML makes of `task: yes`
        ({"metric_func": "a b"}, "field metric_func is 'a b'"),
        ({"adb_query": "getprop x"}, "field adb_query must begin with `adb shell `"),
        ({"adb_query": "adb shell a; b"}, "field adb_query uses `;`"),
        ({"adb_query": "adb shell 'a"}, "field adb_query is not a shell line"),
        ({"adb_query": ["adb shell a"]}, "field adb_query is"),
        ({"task_id": "a_1"}, "evaluation/config/a.yaml has this task_id a second time"),
    ],
)  # fmt: skip
def test_a_task_that_cannot_be_used_is_skipped_with_a_reason(tmp_path, change, said):
    read = read_checkout(checkout(tmp_path, TASK, TASK | {"task_id": "a_2"} | change))
    assert [task.id for task in read.tasks] == ["a_1"]
    (skipped,) = read.skipped
    assert said in skipped.reason and "\n" not in skipped.reason and skipped.app == "map.me"
    named = change.get("task_id", "a_2")
    assert skipped.id == (named if named in ("a_1", "a_2") else "evaluation/config/a.yaml, task number 2")


def test_asking_for_a_skipped_task_says_why_it_is_skipped(tmp_path):
    read = read_checkout(checkout(tmp_path, TASK, {"task_id": "a_2"}))
    with pytest.raises(CheckoutError, match="a_2 cannot be used: field metric_func is missing"):
        read.chosen(["a_2"])
    assert read.left_out(["a_1"]) == [] and len(read.left_out(["a_2"], ["map.me"])) == 1


@pytest.mark.parametrize(
    "arguments, said",
    [
        ({"text": "APP: [1"}, "it is not valid YAML: .* line 1"),
        ({"text": "- 1"}, "must be APP, package and tasks"),
        ({"text": "!!python/object/apply:os.getcwd []"}, "it is not valid YAML: could not determine a constructor"),
        ({"app": {"APP": "a"}}, "field package is missing"),
        ({"app": {"APP": "a", "package": "a; reboot"}}, "field package is 'a; reboot'"),
    ],
)
def test_a_file_that_cannot_be_used_costs_its_own_tasks_only(tmp_path, arguments, said):
    path = checkout(tmp_path, TASK | {"task_id": "a_9"}, **arguments)
    (path / "evaluation/config/b.yaml").write_text(json.dumps(APP | {"tasks": [TASK]}))
    read = read_checkout(path)
    assert [task.id for task in read.tasks] == ["a_1"] and read.skipped[0].id == "evaluation/config/a.yaml"
    assert re.search(said, read.skipped[0].reason)
    (path / "evaluation/config/b.yaml").unlink()
    with pytest.raises(CheckoutError, match=f"has no task that can be used; evaluation/config/a.yaml: .*{said}"):
        read_checkout(path)


@pytest.mark.parametrize(
    "lengths, said",
    [(None, "has no ground_truth_length.json"), ("{", "is not valid JSON"), ("[]", "must map task ids")],
)
def test_a_checkout_without_human_demonstrations_is_refused(tmp_path, lengths, said):
    with pytest.raises(CheckoutError, match=said) as error:
        read_checkout(checkout(tmp_path, TASK, lengths=lengths))
    assert "\n" not in str(error.value)


def test_a_length_that_is_no_number_of_steps_is_no_length(tmp_path):
    lengths = '{"a_1": 0, "a_2": true, "a_3": "4", "a_4": 4}'
    assert read_checkout(checkout(tmp_path, TASK, lengths=lengths)).human_lengths == {"a_4": 4.0}


def test_what_is_no_checkout(tmp_path):
    with pytest.raises(CheckoutError, match="there is no folder .*nix; get AndroidLab with `git clone"):
        read_checkout(tmp_path / "nix")
    with pytest.raises(CheckoutError, match="is no AndroidLab checkout: it has no evaluation/config"):
        read_checkout(tmp_path)
    with pytest.raises(CheckoutError, match="field tasks must be a list"):
        read_checkout(checkout(tmp_path / "empty"))
    with pytest.raises(CheckoutError, match="task number 1: it must have fields"):
        read_checkout(checkout(tmp_path / "text", "a_2"))


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
