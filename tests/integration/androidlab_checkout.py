"""A small checkout with AndroidLab's layout, task files and kinds of judges, for the embedded phone's apps.

As in AndroidLab's own, a `package` can be the name of an app, `metric_type` can be `operations`, and a query_detect can
have a judge that asks nobody.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

SETTINGS = """\
APP: Settings
package: com.android.settings
tasks:
  - task_id: setting_0
    category: Network
    task: Switch airplane mode on
    metric_type: query_detect
    metric_func: evaluation.tasks.setting
    adb_query: adb shell settings get global airplane_mode_on
  - task_id: setting_1
    category: Network
    task: Show the page about the network with Wi-Fi switched off
    metric_type: operations
    metric_func: evaluation.tasks.setting
  - task_id: setting_2
    category: Time
    task: Which time zone is the phone in
    metric_type: query_detect
    metric_func: evaluation.tasks.setting
    adb_query: adb shell 'getprop persist.sys.timezone'
"""
CLOCK = """\
APP: clock
package: Clock
tasks:
  - task_id: clock_1
    task: Open the clock
    metric_type: operation
    metric_func: evaluation.clock
"""
PACKAGES = """\
apps_dict = {
    "Settings": "com.android.settings",
    "设置": "com.android.settings",
    "Clock": "com.android.deskclock",
}

from Levenshtein import distance
"""
TASK = '''\
import json
from xml.etree import ElementTree

from evaluation.definition import *
from evaluation.utils import *


class SingleTask:
    """What every judge is made from."""

    def __init__(self, args):
        self.args, self.truth = args, None

    def check_answer(self, line):
        action = line["parsed_action"]
        if action["action"] != "finish" or self.truth is None:
            return False
        return bool(detect_answer(line["target"], action["kwargs"]["message"], self.truth, self.args))


def dump_xml(path):
    """Nodes that can do or say something, by `[id] ; state ;;text `."""
    ids = iter(range(10_000))

    def entries(node):
        found = {}
        for child in node:
            text, checkable = child.get("text", ""), child.get("checkable") == "true"
            if not text and not checkable:
                found.update(entries(child))
                continue
            state = "" if not checkable else "checked" if child.get("checked") == "true" else "unchecked"
            found["[n%04x] ;; %s ;;%s " % (next(ids), state, text)] = entries(child)
        return found

    return entries(ElementTree.parse(path).getroot())
'''
DETECT = """\
def detect_answer(question, model_answer, standard_answer, args):
    raise RuntimeError("the checkout's own answer judge must never be asked")
"""
UTILS = '''\
def switch(tree, label):
    """The name of the row with this label; None where there is none."""
    for name, value in tree.items():
        if isinstance(value, dict):
            if any(inner.endswith(";" + label + " ") for inner in value):
                return name
            if found := switch(value, label):
                return found
    return None
'''
SETTING_JUDGES = """\
from evaluation.task import *


class AirplaneMode(SingleTask):
    def judge(self, tree, line):
        on = line["command"]["adb shell settings get global airplane_mode_on"] == "1"
        return {"judge_page": True, "1": on, "complete": on}


class WifiOff(SingleTask):
    def judge(self, tree, line):
        row = switch(tree, "Wi-Fi")
        if row is None:
            return {"judge_page": False}
        off = "unchecked" in row
        return {"judge_page": True, "1": True, "2": off, "complete": off}


class TimeZone(SingleTask):
    def judge(self, tree, line):
        self.truth = line["command"]["adb shell 'getprop persist.sys.timezone'"]
        if line["parsed_action"]["action"] != "finish":
            return {"judge_page": False}
        right = self.check_answer(line)
        return {"judge_page": True, "1": right, "complete": right}
"""
SETTING_MAP = """\
from .setting import *

print("the judges of the settings are loaded")  # noise, as many checkouts make
function_map = {"setting_0": AirplaneMode, "setting_1": WifiOff, "setting_2": TimeZone}
"""
CLOCK_JUDGES = '''\
from evaluation.task import *


class Opened(SingleTask):
    """Takes the path of the dump as well."""

    def judge(self, tree, line, xml_path):
        with open(xml_path, encoding="utf-8") as f:
            opened = "com.android.deskclock" in f.read()
        return {"judge_page": True, "1": opened, "complete": opened}


function_map = {"clock_1": Opened}
'''
LENGTHS = {"setting_0": 3, "setting_1": 3, "setting_2": 1}


def make_checkout(path: Path) -> Path:
    """A checkout with four tasks, under git."""
    files = {
        "config/setting.yaml": SETTINGS,
        "config/clock.yaml": CLOCK,
        "definition.py": DETECT,
        "task.py": TASK,
        "utils.py": UTILS,
        "tasks/setting/__init__.py": SETTING_MAP,
        "tasks/setting/setting.py": SETTING_JUDGES,
        "tasks/clock.py": CLOCK_JUDGES,
        "tasks/human_lengths/ground_truth_length.json": json.dumps(LENGTHS),
    }
    for name, text in files.items():
        file = path / "evaluation" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (path / "templates").mkdir()
    (path / "templates/packages.py").write_text(PACKAGES)
    for words in (("init", "-q"), ("add", "."), ("commit", "-q", "-m", "tasks")):
        identity = ("-c", "user.name=tests", "-c", "user.email=tests@localhost")
        subprocess.run(["git", *identity, "-C", str(path), *words], check=True)
    return path


def add_task(path: Path, task_id: str, judge: str, kind: str = "operation") -> None:
    """One more task of the clock, whose judge is a class `Judge` in the source `judge`."""
    folder = path / "evaluation"
    (folder / "config" / f"{task_id}.yaml").write_text(
        f"APP: clock\npackage: Clock\ntasks:\n  - task_id: {task_id}\n    task: Do {task_id}\n"
        f"    metric_type: {kind}\n    metric_func: evaluation.tasks.{task_id}\n"
    )
    source = f"from evaluation.task import *\n\n\n{judge}\n\n\nfunction_map = {{'{task_id}': Judge}}\n"
    (folder / "tasks" / f"{task_id}.py").write_text(source)
