"""AndroidLab's judges, run from a checkout: what they find, and every way in which they can fail."""

from __future__ import annotations

import asyncio
import sys
import textwrap
import time

import pytest
from androidlab_checkout import add_task, make_checkout

from mobilerl.envs.androidlab.checkout import CheckoutError, read_checkout
from mobilerl.envs.androidlab.judge import JudgeFault, Judges

NETWORK = (
    '<hierarchy rotation="0"><node class="a.ViewGroup" checkable="true" checked="{}" bounds="[0,0][90,50]">'
    '<node class="android.widget.TextView" text="Wi-Fi" bounds="[0,0][90,20]"/></node></hierarchy>'
)
OTHER = '<hierarchy rotation="0"><node class="android.widget.TextView" text="x" bounds="[0,0][9,9]"/></hierarchy>'


@pytest.fixture
def path(tmp_path):
    return make_checkout(tmp_path / "lab")


def write_trace(folder, steps):
    """Lines of (xml, action, command); every dump is on disk."""
    (folder / "xml").mkdir(parents=True)
    lines = []
    for i, (xml, action, command) in enumerate(steps):
        (folder / f"xml/{i}.xml").write_text(xml)
        paths = {"image": f"Screen/{i}.png", "xml": f"xml/{i}.xml"}
        lines.append({"index": i, "target": "the task", **paths, "parsed_action": action, "command": command})
    return lines


def tap(n):
    return {"operation": "do", "action": "Tap", "kwargs": {"element": [n, n]}}


def finish(message):
    return {"operation": "finish", "action": "finish", "kwargs": {"message": message}}


async def never(*_):
    raise AssertionError("nobody should be asked")


def outcome(path, task_id, steps, folder, ask=never, timeout_s=60.0):
    """`timeout_s` is the judge's; the check before it has as long as ever."""
    checkout = read_checkout(path)
    [task] = checkout.select_tasks([task_id])
    judges = Judges(checkout, sys.executable)

    async def main():
        await judges.check([task])
        judges.timeout_s = timeout_s
        return await judges.judge(task, folder, write_trace(folder, steps), ask)

    return asyncio.run(main())


def test_the_last_page_that_is_to_be_judged_decides(path, tmp_path):
    off, on = NETWORK.format("false"), NETWORK.format("true")
    found = outcome(path, "setting_1", [(OTHER, tap(1), {}), (off, tap(2), {}), (OTHER, tap(3), {})], tmp_path / "a")
    assert found.complete and found.sub_goals == {"1": True, "2": True} and found.steps == (0, 1, 2)
    found = outcome(path, "setting_1", [(off, tap(1), {}), (on, tap(2), {}), (OTHER, tap(3), {})], tmp_path / "b")
    assert not found.complete and found.sub_goals == {"1": True, "2": False}
    found = outcome(path, "setting_1", [(OTHER, tap(1), {})], tmp_path / "c")
    assert not found.complete and found.sub_goals == {} and found.errors == ()
    found = outcome(path, "clock_1", [(OTHER, tap(1), {})], tmp_path / "d")  # reads the dump by its path
    assert not found.complete and found.sub_goals == {"1": False}


@pytest.mark.parametrize("right", [True, False])
def test_answers_are_judged_by_whom_we_ask(path, tmp_path, right):
    query = {"adb shell 'getprop persist.sys.timezone'": "UTC"}
    asked = []

    async def ask(*question):
        asked.append(question)
        return right

    steps = [(OTHER, tap(1), query), (OTHER, finish("it is UTC"), query)]
    found = outcome(path, "setting_2", steps, tmp_path / "a", ask)
    assert asked == [("the task", "it is UTC", "UTC")]
    assert found.complete is right and found.sub_goals == {"1": right}


BROKEN = {
    "hangs": ("import time\ntime.sleep(600)", "no answer within 3 s"),
    "fails": ("return tree['nothing there']", "fails at every step; step 0: KeyError: 'nothing there'"),
    "fills": ("print('x' * 100_000, file=__import__('sys').stderr)\nraise SystemExit(3)", "exit code 3"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_judge_is_a_fault_and_no_failure(path, tmp_path, kind):
    body, said = BROKEN[kind]
    add_task(
        path, "bad_1", "class Judge(SingleTask):\n    def judge(self, tree, line):\n" + textwrap.indent(body, " " * 8)
    )
    limit = 3.0 if kind == "hangs" else 60.0
    with pytest.raises(JudgeFault) as fault:
        outcome(path, "bad_1", [(OTHER, tap(1), {}), (OTHER, tap(2), {})], tmp_path / "a", timeout_s=limit)
    assert said in str(fault.value) and "\n" not in str(fault.value) and len(str(fault.value)) < 500


def test_what_a_hanging_judge_has_started_ends_with_it(path, tmp_path):
    note = tmp_path / "pid"
    add_task(
        path,
        "bad_1",
        textwrap.dedent(f"""\
        import subprocess, sys, time

        class Judge(SingleTask):
            def judge(self, tree, line):
                child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
                open({str(note)!r}, "w").write(str(child.pid))
                time.sleep(600)"""),
    )
    with pytest.raises(JudgeFault, match="no answer"):
        outcome(path, "bad_1", [(OTHER, tap(1), {})], tmp_path / "a", timeout_s=10.0)
    until = time.monotonic() + 10
    while running(int(note.read_text())):
        assert time.monotonic() < until
        time.sleep(0.05)


def running(pid):
    try:
        return open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_steps_at_which_a_judge_fails_are_left_out_as_androidlab_does(path, tmp_path):
    add_task(
        path,
        "odd_1",
        textwrap.dedent("""\
        class Judge(SingleTask):
            def judge(self, tree, line):
                if line["index"] == 1:
                    raise ValueError("not this page")
                if line["index"] == 2:
                    return False
                return {"1": "a text counts as met", "2": 0, "complete": line["index"] == 3}"""),
    )
    found = outcome(path, "odd_1", [(OTHER, tap(i), {}) for i in range(3)], tmp_path / "a")
    assert not found.complete and found.sub_goals == {"1": True, "2": False}
    assert found.steps == (0, 2)  # the one that returned no dict was judged, the one that raised was not
    assert found.errors == ("step 1: ValueError: not this page", "step 2: judge() returned bool and not a dict")


CLOCK = "evaluation/tasks/clock.py"


@pytest.mark.parametrize(
    "source, said",
    [
        (None, "cannot import evaluation.tasks.clock: ModuleNotFoundError"),
        (
            "class J:\n    def __init__(self): pass\n    def judge(self): pass\nfunction_map = {'clock_1': J}",
            "the judge of clock_1 cannot be made: TypeError",
        ),
    ],
)
def test_a_judge_that_cannot_be_used_is_told_in_one_line(path, source, said):
    (path / CLOCK).unlink() if source is None else (path / CLOCK).write_text(source)
    checkout = read_checkout(path)
    with pytest.raises(CheckoutError, match=said) as error:
        asyncio.run(Judges(checkout, sys.executable).check(checkout.tasks))
    assert "\n" not in str(error.value)
