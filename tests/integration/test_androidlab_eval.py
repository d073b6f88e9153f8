"""`mobilerl eval androidlab`: whole evaluations over a real adb server, and what is refused at their start."""

from __future__ import annotations

import argparse
import json
import re

import pytest
from androidlab_checkout import add_task, make_checkout
from http_stand_in import ChatServer, text_of

from mobilerl.cli import evaluate
from mobilerl.envs.androidlab import phone as phone_module
from mobilerl.envs.androidlab.adb import LabTransport
from mobilerl.envs.androidlab.phone import LabPhone
from mobilerl.envs.base import InfraError
from mobilerl.envs.claims import Claim
from mobilerl.envs.console import Console
from mobilerl.envs.phone.console import Console as EmulatorConsole
from mobilerl.envs.pool.adb import claim_phones

WORDS = ("--interval", "0", "--launch-wait", "0")
JUDGE, AGENT = "judge-1", "agent-1"


def run(*words):
    """The command as `mobilerl eval` runs it; errors are raised."""
    parser = argparse.ArgumentParser()
    evaluate.add(parser.add_subparsers(), argparse.ArgumentParser(add_help=False))
    args, settings = parser.parse_known_args(["eval", "androidlab", *map(str, words)])
    return args.run(args, settings)


class Endpoint(ChatServer):
    """A model that plays and one that judges. `said` holds what both were asked."""

    def __init__(self):
        self.said: dict[str, list[dict]] = {JUDGE: [], AGENT: []}
        self.verdict, self.play = None, play
        super().__init__(self.respond, tuple(self.said))

    def respond(self, asked):
        """A first question that is about no task is not counted."""
        playing = asked["model"] == AGENT
        if playing and len(asked["messages"]) == 1:
            return "yes"
        self.said[asked["model"]].append(asked)
        return self.play(asked) if playing else self.judge(asked)

    def judge(self, asked):
        prompt = text_of(asked["messages"][0])
        quoted = (re.search(rf"^{name}: (.*)$", prompt, re.M)[1] for name in ("Answer", "Reference answer"))
        answer, truth = map(json.loads, quoted)
        return f"[{truth in answer}]" if self.verdict is None or "France" in prompt else self.verdict


def play(asked):
    """Knows its way: reads the goal and the listed elements, and answers with one action."""
    goal, screen = text_of(asked["messages"][1]), text_of(asked["messages"][-1])
    wanted = {"airplane": ("Airplane mode", "unchecked"), "Wi-Fi": ("Wi-Fi", " checked")}
    for word, (label, state) in wanted.items():
        if word not in goal:
            continue
        for name in (label, "Network & internet"):
            line = next((x for x in screen.splitlines() if f";{name};" in x and "click" in x), None)
            if line and (name != label or state in line):
                return f'<think>{name}</think><answer>do(action="Tap", element={line.rpartition(";")[2]})</answer>'
        return '<think>done</think><answer>finish(message="done")</answer>'
    return '<think>I know</think><answer>finish(message="It is UTC.")</answer>'


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    return make_checkout(tmp_path_factory.mktemp("checkout") / "Android-Lab")


@pytest.fixture
def endpoint(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    endpoint = Endpoint()
    yield endpoint
    endpoint.stop()


@pytest.fixture
def serials(adb, phones):
    """Words for two devices on the tests' adb server."""
    return [f"{phones().serial}@127.0.0.1:{adb.port}" for _ in range(2)]


def served(endpoint):
    return ("--model", endpoint.url, "--model-name", AGENT, "--judge-url", endpoint.url, "--judge-model", JUDGE)


def episodes(out):
    lines = map(json.loads, (out / "episodes.jsonl").read_text().splitlines()[1:])
    return {line["task_id"]: line for line in lines}


def results(out):
    return json.loads((out / "results.json").read_text())


@pytest.mark.parametrize("mode, images", [("xml", 0), ("screenshot", 2)])
def test_a_whole_evaluation(checkout, serials, endpoint, tmp_path, mode, images, capsys):
    out = tmp_path / "out"
    words = ("--android-lab", checkout, "--serial", *serials, "--mode", mode, "--out", out, *served(endpoint), *WORDS)
    assert run(*words) == 0
    found = results(out)
    assert (found["trials"], found["successes"], found["errors"]) == (4, 4, 0), found["instances"]
    by_id = {e["task_id"]: e for e in found["instances"]}
    # Settings, Network & internet, switch, then a look at it: two taps and a finish.
    assert [by_id[f"setting_{i}"]["judged_steps"] for i in range(3)] == [3, 3, 1]
    assert by_id["setting_1"]["sub_goals"] == {"1": True, "2": True}
    assert found["metrics"] == {"SR": 100.0, "Sub-SR": 100.0, "RRR": 100.0, "ROR": 100.0}
    assert found["without_human_length"] == ["clock_1"]

    protocol = found["protocol"]
    assert re.fullmatch("[0-9a-f]{40}", protocol["androidlab_commit"])
    assert (protocol["mode"], protocol["judge.model"], protocol["model"]) == (mode, JUDGE, AGENT)
    assert protocol["agent.screenshots"] == images and protocol["tasks_of_benchmark"] == "4 of 138"
    assert "prompt_hash" in protocol and "judge.prompt_hash" in protocol

    assert ('"image_url"' in json.dumps(endpoint.said[AGENT])) is (mode == "screenshot")
    assert len(endpoint.said[JUDGE]) == 2  # one at the start, one about the only query
    line = json.loads((out / "tasks/setting_0/trace.jsonl").read_text().splitlines()[-1])
    assert line["command"] == {"adb shell settings get global airplane_mode_on": "1"}
    assert (out / "tasks/setting_0" / line["image"]).is_file() and (out / "tasks/setting_0" / line["xml"]).is_file()
    assert "It is UTC." in episodes(out)["setting_2"]["replies"][0]
    assert "SR 100.00" in capsys.readouterr().out

    # Nothing is played twice, and another protocol is refused.
    asked = len(endpoint.said[AGENT])
    assert run(*words) == 0 and results(out) == found and len(endpoint.said[AGENT]) == asked
    with pytest.raises(ValueError, match="was run with rounds = 25 and not 7; choose another --out"):
        run(*words, "--rounds", "7")


def test_mobilerls_protocol(checkout, serials, endpoint, tmp_path):
    """From the home screen, where an unreadable response ends an episode."""
    endpoint.play = lambda asked: "I cannot"
    words = ("--android-lab", checkout, "--serial", *serials, "--mode", "screenshot", "--protocol", "mobilerl")
    run(*words, "--task", "setting_0", "--out", tmp_path, *served(endpoint), *WORDS)
    found = results(tmp_path)
    protocol, (instance,) = found["protocol"], found["instances"]
    assert (protocol["rounds"], protocol["start"], protocol["max_invalid"]) == (50, "home", 1)
    assert (instance["steps"], instance["status"], protocol["protocol"]) == (1, "invalid", "mobilerl")
    assert "Settings" in text_of(endpoint.said[AGENT][0]["messages"][-1]), "an icon of the home screen"
    run(*words, "--rounds", "7", "--task", "setting_0", "--out", tmp_path / "b", *served(endpoint), *WORDS)
    assert results(tmp_path / "b")["protocol"]["rounds"] == 7


def test_an_interrupted_evaluation_goes_on(checkout, serials, endpoint, tmp_path):
    out = tmp_path / "out"
    words = ("--android-lab", checkout, "--serial", serials[0], "--out", out, *served(endpoint), *WORDS)
    words += ("--mode", "xml")
    asked = []

    def stop(request):
        asked.append(text_of(request["messages"][1]))
        if len(asked) > 2:
            return None  # refused, in mid-episode
        return play(request)

    endpoint.play = stop
    with pytest.raises(ValueError, match=f"{endpoint.url}"):
        run(*words)
    assert list(episodes(out)) == ["clock_1"] and not (out / "results.json").exists()
    assert len((out / "tasks/setting_0/trace.jsonl").read_text().splitlines()) == 1  # what there is of it is on disk

    endpoint.play = play
    before = len(endpoint.said[AGENT])
    run(*words)
    assert results(out)["successes"] == 4
    goals = {text_of(a["messages"][1]).splitlines()[0] for a in endpoint.said[AGENT][before:]}
    assert len(goals) == 3 and not any("Clock" in goal for goal in goals)


def test_errors_are_no_failures_and_are_tried_again(checkout, serials, endpoint, phones, tmp_path):
    out = tmp_path / "out"
    path = make_checkout(tmp_path / "lab")
    add_task(path, "clock_2", "class Judge(SingleTask):\n    def judge(self, tree, line):\n        raise OSError('no')")
    words = ("--android-lab", path, "--serial", serials[0], "--mode", "xml", "--out", out, *served(endpoint), *WORDS)
    endpoint.verdict = "I would rather not say."
    run(*words)
    found = results(out)
    assert (found["trials"], found["successes"], found["errors"]) == (3, 3, 2)
    assert found["success_rate"] == 1.0 and found["success_rate_errors_as_zero"] == 3 / 5
    assert found["errors_by_kind"] == {"device": 0, "judge": 2}
    errors = {e["task_id"]: e["error"] for e in found["instances"] if e["error"]}
    assert "gave no verdict in 6 tries, but 'I would rather not say.'" in errors["setting_2"]
    assert "fails at every step; step 0: OSError: no" in errors["clock_2"]
    assert len(endpoint.said[JUDGE]) == 1 + 6

    # They are judged again, not played again.
    endpoint.verdict = None
    judge = path / "evaluation/tasks/clock_2.py"
    judge.write_text(judge.read_text().replace("raise OSError('no')", "return {'complete': True}"))
    asked = len(endpoint.said[AGENT])
    run(*words)
    assert results(out)["successes"] == 5 and len(endpoint.said[AGENT]) == asked


def test_devices_that_die_are_errors_and_the_others_go_on(checkout, serials, endpoint, phones, tmp_path, monkeypatch):
    monkeypatch.setattr(phone_module, "UP_S", 1.0)  # they do not come back
    out = tmp_path / "out"
    words = ("--android-lab", checkout, "--mode", "xml", "--out", out, *served(endpoint), *WORDS)
    lost = phones.served[1]

    def dying(request):
        if lost in phones.served:
            phones.served.remove(lost)
            phones.run(lost.stop)
        return play(request)

    endpoint.play = dying
    run(*words, "--serial", *serials)
    found = results(out)
    assert (found["successes"], found["errors"]) == (4, 0)  # what died with it was played on the other
    phones.run(phones.served[0].stop)
    with pytest.raises(ValueError, match="start the device, and see `adb devices`"):
        run(*words, "--serial", *serials)


def test_a_snapshot_undoes_what_earlier_tasks_have_done(adb, phones, tmp_path):
    served = phones()
    emulator = EmulatorConsole(served.phone, served.exclusive, "secret")
    port = phones.run(lambda: emulator.start(0))
    transport = LabTransport(served.serial, "127.0.0.1", adb.port)
    console = Console("127.0.0.1", port, "secret")
    phone = LabPhone(transport, {}, transport.root, console, "default_boot")
    phone.device.connect()
    transport.shell(("settings", "put", "global", "airplane_mode_on", "1"))
    phone.prepare("com.android.settings", set_date=True)
    assert phone.query("adb shell settings get global airplane_mode_on") == "0"
    assert served.phone.location == (-122.156, 37.438)
    assert phone.query("adb shell date +%F") == "2024-05-10"
    with pytest.raises(InfraError, match="Snapshot 'none' does not exist"):
        LabPhone(transport, {}, transport.root, console, "none").prepare("com.android.settings", set_date=True)
    emulator.stop()


def test_what_is_missing_is_said_before_anything_is_played(checkout, serials, endpoint, adb, tmp_path):
    out = tmp_path / "out"
    good = {
        "--android-lab": checkout,
        "--serial": serials[0],
        "--mode": "xml",
        "--out": out,
        "--agent": "noop",
        "--kind": "operation",
    }

    def refused(said, **changes):
        words = good | {
            f"--{name if '.' in name else name.replace('_', '-')}": value for name, value in changes.items()
        }
        with pytest.raises(ValueError, match=said) as error:
            run(*(w for name, value in words.items() if value is not None for w in (name, value)))
        assert "\n" not in str(error.value)

    refused("--android-lab PATH is missing", android_lab=None)
    refused("is no AndroidLab checkout", android_lab=tmp_path)
    refused("Connection refused.*; start the device", serial=f"127.0.0.1:1@127.0.0.1:{adb.port}")
    refused("the answer judge cannot be reached", judge_url="http://127.0.0.1:9/v1", judge_model="x")
    with Claim("run /tmp/theirs") as claim:
        claim_phones(claim, [LabTransport(serials[0].partition("@")[0], "localhost", adb.port)])
        refused(r"is in use by process .*\(run /tmp/theirs\): wait until it ends")
    refused("1 of the tasks are queries .* give --judge-url and --judge-model, or .*--kind operation", kind=None)
    refused("--snapshot: .* is no emulator with a console", snapshot="default_boot")
    refused("--mode screenshot needs images", mode="screenshot", **{"agent.screenshots": "0"})
    refused("qwen3-vl has no text: use --mode screenshot", **{"agent.format": "qwen3-vl"})
    assert not out.exists()


def test_what_cannot_be_judged_is_skipped_and_said(serials, tmp_path, capsys):
    """Without an endpoint an operation whose judge asks a model."""
    path = make_checkout(tmp_path / "lab")
    setting = path / "evaluation/config/setting.yaml"
    setting.write_text(setting.read_text().replace("query_detect", "operation"))
    words = ("--android-lab", path, "--serial", serials[0], "--out", tmp_path / "out", *WORDS)
    run(*words, "--mode", "xml", "--agent", "finish")
    found = results(tmp_path / "out")
    assert sorted(e["task_id"] for e in found["instances"]) == ["clock_1", "setting_0", "setting_1"]
    assert found["errors"] == 0 and found["protocol"]["tasks_of_benchmark"] == "3 of 138"
    reasons = {task["id"]: task["reason"] for task in found["skipped"]}
    assert list(reasons) == ["setting_2"] and "give --judge-url" in reasons["setting_2"]
    said = capsys.readouterr().out
    assert "setting_2 is skipped: " in said and "counted nowhere above: setting_2" in said
